//! Makes the page: the library as WebAssembly, its JavaScript and the files of `web/page` in one HTML file
//! that needs no server.

// A program reads and writes files.
#![allow(clippy::disallowed_methods)]

mod glossary;
mod plain;
mod records;

use std::collections::BTreeMap;
use std::fs;
use std::io::Write;
use std::path::{Path, PathBuf};

use anyhow::{Context, Result, bail, ensure};
use base64::Engine;
use base64::engine::general_purpose::STANDARD;
use clap::Parser;
use flate2::Compression;
use flate2::write::GzEncoder;
use lzma_rust2::{LzmaOptions, LzmaWriter};
use wasm_bindgen_cli_support::Bindgen;

/// Make the page of the library as WebAssembly and the files of a folder
#[derive(Parser)]
struct Arguments {
    /// The library, as cargo has built it
    wasm: PathBuf,
    /// Unpacker for the browser, as cargo has built it
    unpack: PathBuf,
    /// The folder with index.html, worker.js, and the styles and modules of the page
    page: PathBuf,
    /// The folder to write
    out: PathBuf,
    /// The folder of the scripts that draw timelines
    #[arg(long, default_value = "draw/src/html")]
    charts: PathBuf,
    /// The glossary of the book, whose words explain the page's
    #[arg(long, default_value = "docs/glossary.md")]
    glossary: PathBuf,
    /// The folder of the best known orders, which the page lists
    #[arg(long, default_value = "results/records")]
    records: PathBuf,
    /// Where the repository is on the web: the page has links to it, and to its README, book and issues
    #[arg(long, value_name = "URL")]
    home: Option<String>,
    /// Pack in a fifth of the time, for a page a fifth larger that is only tried
    #[arg(long)]
    quick: bool,
}

fn main() -> Result<()> {
    let arguments = Arguments::parse();
    fs::create_dir_all(&arguments.out)?;
    let made = arguments.out.join("made");
    let library = Library::of(&arguments.wasm, &made)?;
    let unpack = Library::of(&arguments.unpack, &made)?;
    let page = page(&arguments, &library, &unpack)?;
    let file = arguments.out.join("index.html");
    fs::write(&file, &page).with_context(|| format!("cannot write {}", file.display()))?;
    let sizes = [library.wasm.len(), page.len(), gzipped(page.as_bytes())?.len()];
    let [wasm, plain, packed] = sizes.map(|bytes| bytes.div_ceil(1_000));
    writeln!(
        std::io::stdout(),
        "{}: {plain} kB, {packed} kB compressed ({wasm} kB of WebAssembly)",
        file.display()
    )?;
    Ok(())
}

/// WebAssembly and the JavaScript that loads it.
struct Library {
    wasm: Vec<u8>,
    script: String,
}

impl Library {
    /// That of the file `wasm`, by way of the folder `made`.
    fn of(wasm: &Path, made: &Path) -> Result<Self> {
        let mut bindgen = Bindgen::new();
        bindgen.input_path(wasm).out_name("made").typescript(false);
        bindgen.remove_name_section(true).remove_producers_section(true);
        bindgen.no_modules(true)?.generate(made)?;
        let library = Self {
            wasm: fs::read(made.join("made_bg.wasm"))?,
            script: plain::script(&fs::read_to_string(made.join("made.js"))?),
        };
        fs::remove_dir_all(made)?;
        Ok(library)
    }
}

/// The scripts that draw timelines, each of which knows only those before it: one module together.
const CHARTS: [&str; 7] =
    ["read.js", "words.js", "chart.js", "lane.js", "gantt.js", "curves.js", "charts.js"];

/// The page with everything that it needs inside.
///
/// Modules are data of an import map, under the name `page/FILE`: browsers load no module from a file
/// beside a page that they opened from a disk. The library is packed as LZMA, a third smaller than as
/// gzip, and unpacked by a small library of its own, which is packed as gzip.
fn page(arguments: &Arguments, library: &Library, unpack: &Library) -> Result<String> {
    let glossary = fs::read_to_string(&arguments.glossary).context("the glossary")?;
    let mut modules = BTreeMap::from([
        ("page/charts.js".to_owned(), plain::script(&charts(&arguments.charts)?)),
        ("page/glossary.js".to_owned(), glossary::module(&glossary)?),
        ("page/known.js".to_owned(), records::module(&arguments.records)?),
    ]);
    let (mut page, mut style) = (String::new(), String::new());
    let mut entries = fs::read_dir(&arguments.page)?.collect::<std::io::Result<Vec<_>>>()?;
    entries.sort_by_key(fs::DirEntry::file_name);
    let mut parts = BTreeMap::new();
    for entry in entries {
        let name = entry.file_name().to_string_lossy().into_owned();
        let text = || fs::read_to_string(entry.path()).with_context(|| name.clone());
        match name.as_str() {
            "index.html" => page = text()?,
            "worker.js" => {
                let script = library.script.clone() + &plain::script(&text()?);
                parts.insert("{{worker}}", script);
            }
            _ if name.ends_with(".css") => style += &plain::script(&text()?),
            _ if name.ends_with(".js") => {
                modules.insert(format!("page/{name}"), plain::script(&text()?));
            }
            _ => {}
        }
    }
    ensure!(!page.is_empty(), "{} has no index.html", arguments.page.display());
    parts.insert("{{style}}", style);
    parts.insert("{{links}}", links(arguments.home.as_deref())?);
    parts.insert("{{modules}}", import_map(&modules));
    parts.insert("{{wasm}}", STANDARD.encode(packed(&library.wasm, arguments.quick)?));
    parts.insert("{{unpack}}", STANDARD.encode(gzipped(&unpack.wasm)?));
    parts.insert("{{unpacker}}", unpack.script.clone());
    filled(&page, &parts)
}

/// Links to the repository at `home`, its README, its book and its issues; none where nobody says where it is.
fn links(home: Option<&str>) -> Result<String> {
    let Some(home) = home.filter(|home| !home.is_empty()) else { return Ok(String::new()) };
    let is_plain = |letter: char| letter.is_ascii_alphanumeric() || "-._~:/".contains(letter);
    ensure!(home.starts_with("https://") && home.chars().all(is_plain), "no address: {home}");
    let home = home.trim_end_matches('/');
    let link = |(path, text): (&str, &str)| format!("<a href=\"{home}{path}\">{text}</a>\n");
    let pages = [
        ("/blob/main/README.md", "README"),
        ("/tree/main/docs", "Book"),
        ("", "Repository"),
        ("/issues", "Issues"),
    ];
    Ok(pages.into_iter().map(link).collect())
}

/// The module of the scripts in `folder` that draw timelines.
fn charts(folder: &Path) -> Result<String> {
    let read = |name| fs::read_to_string(folder.join(name)).context(name);
    CHARTS.map(read).into_iter().collect()
}

/// `page` with `parts` in place of their names.
fn filled(page: &str, parts: &BTreeMap<&str, String>) -> Result<String> {
    let mut whole = String::new();
    let mut rest = page;
    while let Some((before, after)) = rest.split_once("{{") {
        let Some((name, after)) = after.split_once("}}") else { bail!("a {{{{ is not closed") };
        let name = format!("{{{{{name}}}}}");
        let part = parts.get(name.as_str()).with_context(|| format!("there is no {name}"))?;
        ensure!(!part.contains("</script"), "{name} would end its own script");
        whole.extend([before, part]);
        rest = after;
    }
    Ok(whole + rest)
}

/// The import map of `modules`, as text: servers compress it to half of what it would take as base64.
fn import_map(modules: &BTreeMap<String, String>) -> String {
    let line = |(name, text): (&String, &String)| {
        format!("\"{name}\":\"data:text/javascript;charset=utf-8,{}\"", escaped(text))
    };
    let lines: Vec<_> = modules.iter().map(line).collect();
    format!("{{\"imports\":{{\n{}\n}}}}", lines.join(",\n"))
}

/// `text` as a part of an address in JSON in a script: what would end one of these, or is left out of
/// addresses, is escaped.
fn escaped(text: &str) -> String {
    let one = |letter: char| match letter {
        '%' | '#' | '<' | '>' | '"' | '\\' | '\0'..='\x1f' | '\x7f' => {
            format!("%{:02X}", u32::from(letter))
        }
        _ => letter.to_string(),
    };
    text.chars().map(one).collect()
}

/// `bytes` as LZMA, with a header.
fn packed(bytes: &[u8], quick: bool) -> Result<Vec<u8>> {
    // Bytes of WebAssembly are not aligned to anything. The dictionary is memory that unpacking takes, too.
    let (preset, nice_len, depth_limit) = if quick { (1, 32, 0) } else { (9, 273, 1_000) };
    let preset = LzmaOptions::with_preset(preset);
    let options = LzmaOptions { lc: 4, pb: 0, dict_size: 8 << 20, nice_len, depth_limit, ..preset };
    let mut writer = LzmaWriter::new_use_header(Vec::new(), &options, Some(bytes.len() as u64))?;
    writer.write_all(bytes)?;
    Ok(writer.finish()?)
}

fn gzipped(bytes: &[u8]) -> Result<Vec<u8>> {
    let mut encoder = GzEncoder::new(Vec::new(), Compression::best());
    encoder.write_all(bytes)?;
    Ok(encoder.finish()?)
}
