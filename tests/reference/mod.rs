//! The book says what the program says: every part of the README and of a page of `docs/` between `<!-- generated: PART -->`
//! and `<!-- end of generated -->` is made anew by the program, and compared.
//!
//! Part of the tests of the program, so that it sees the flags of every command. `make reference` writes what
//! has changed. A part is added by its name in [`part`] and a page that has it.

mod accuracy;
mod commands;
mod defaults;
mod facts;
mod forms;
mod keys;
mod machines;
mod markdown;
mod records;
mod schedules;
mod schemas;

use std::fs;
use std::path::{Path, PathBuf};

use cases::SEARCHED;
use clap::CommandFactory;
use pipeline::Family;

const BEGIN: &str = "<!-- generated: ";
const BEGIN_ENDS: &str = " -->\n";
const END: &str = "<!-- end of generated -->";

/// Whether files are to be written where they differ, as `make reference` asks.
fn writes() -> bool {
    std::env::var_os("DEBUBBLE_REFERENCE").is_some_and(|value| value == "write")
}

/// The folder of the project.
fn root() -> &'static Path {
    Path::new(env!("CARGO_MANIFEST_DIR"))
}

/// The README and the pages of the book, in the order of their paths.
fn pages() -> Vec<PathBuf> {
    let mut pages = vec![root().join("README.md")];
    let mut folders = vec![root().join("docs")];
    while let Some(folder) = folders.pop() {
        for entry in fs::read_dir(folder).unwrap() {
            let path = entry.unwrap().path();
            if path.is_dir() {
                folders.push(path);
            } else if path.extension().is_some_and(|ext| ext == "md") {
                pages.push(path);
            }
        }
    }
    pages.sort();
    pages
}

/// The names of the parts that are generated within `text`.
fn parts(text: &str) -> Vec<&str> {
    let after = text.split(BEGIN).skip(1);
    after.filter_map(|text| text.split_once(BEGIN_ENDS).map(|(name, _)| name)).collect()
}

/// Text of the part `name`.
fn part(name: &str) -> Result<String, String> {
    let mut words = name.split(' ');
    let (kind, which) = (words.next().unwrap_or_default(), words.next().unwrap_or_default());
    match (kind, which) {
        ("keys", question) => keys::of(question),
        ("forms", "") => Ok(forms::all()),
        ("commands", "") => Ok(commands::all()),
        ("command", name) => commands::of(name),
        ("schedules", "") => Ok(schedules::all()),
        ("schedule", name) => schedules::of(name),
        ("not-offered", "") => Ok(schedules::not_offered()),
        ("machines", "") => machines::machines(),
        ("clusters", "") => machines::clusters(),
        ("laws", "") => Ok(facts::laws()),
        ("limits", "") => Ok(facts::limits()),
        ("tables", "") => Ok(facts::tables()),
        ("accuracy", which) => accuracy::of(which),
        ("records", which) => records::of(which),
        _ => Err(format!("there is no part `{name}`")),
    }
}

/// `text` with every part made anew.
fn renewed(text: &str) -> Result<String, String> {
    let mut renewed = String::new();
    let mut rest = text;
    while let Some((before, after)) = rest.split_once(BEGIN) {
        let (name, after) = after.split_once(BEGIN_ENDS).ok_or("a part does not begin")?;
        let (_, behind) = after.split_once(END).ok_or_else(|| format!("{name} does not end"))?;
        let made = part(name)?;
        renewed += &format!("{before}{BEGIN}{name}{BEGIN_ENDS}\n{}\n\n{END}", made.trim_end());
        rest = behind;
    }
    Ok(renewed + rest)
}

/// The first line in which both differ.
fn difference(old: &str, new: &str) -> String {
    let mut lines = old.lines().zip(new.lines()).enumerate();
    let differ = lines.find(|(_, (old, new))| old != new);
    differ.map_or("one is longer".to_owned(), |(at, (old, new))| {
        format!("line {}\n  is        {old}\n  should be {new}", at + 1)
    })
}

/// Holds the file at `path` against `expected`, or writes it where files are to be written; what is wrong
/// with it, if anything.
fn hold(path: &Path, expected: &str) -> Option<String> {
    let is = fs::read_to_string(path).unwrap_or_default();
    if is == expected {
        return None;
    }
    if writes() {
        fs::create_dir_all(path.parent().unwrap()).unwrap();
        fs::write(path, expected).unwrap();
        return None;
    }
    Some(format!("{}: {}", path.display(), difference(&is, expected)))
}

const CURE: &str = "run `make reference` and look at what has changed";

#[test]
fn pages_say_what_the_program_says() {
    let mut wrong = Vec::new();
    for page in pages() {
        match renewed(&fs::read_to_string(&page).unwrap()) {
            Ok(text) => wrong.extend(hold(&page, &text)),
            Err(error) => wrong.push(format!("{}: {error}", page.display())),
        }
    }
    assert!(wrong.is_empty(), "{CURE}\n{}", wrong.join("\n"));
}

/// The book shows a picture of each schedule and no others, and the command on the page draws it.
#[test]
fn pages_show_the_pictures_that_can_be_drawn() {
    let begin = format!("]({}", schedules::PICTURES);
    let mut shown: Vec<String> = Vec::new();
    for page in pages() {
        let text = fs::read_to_string(&page).unwrap();
        let files = text.split(&begin).skip(1).filter_map(|text| text.split(')').next());
        shown.extend(files.map(str::to_owned));
    }
    shown.sort();
    let mut drawn: Vec<String> = schedules::drawn().map(schedules::file).collect();
    drawn.sort();
    assert_eq!(shown, drawn, "{CURE}");
    for name in schedules::drawn() {
        let picture = schedules::picture(name);
        assert!(picture.starts_with("<svg") && picture.trim_end().ends_with("</svg>"), "{name}");
        assert!(picture.contains(name), "{name}");
    }
}

/// Every command, key and family of the program has its place in the book, once.
#[test]
fn nothing_is_left_out() {
    let texts: Vec<String> = pages().iter().map(|page| fs::read_to_string(page).unwrap()).collect();
    let found: Vec<&str> = texts.iter().flat_map(|text| parts(text)).collect();
    let mut needed: Vec<String> = ["forms", "commands", "schedules", "not-offered", "machines"]
        .map(str::to_owned)
        .into_iter()
        .chain(
            ["clusters", "laws", "limits", "tables", "records all", "records summary"]
                .map(str::to_owned),
        )
        .collect();
    needed.extend(keys::WITH_PAGE.map(|name| format!("keys {name}")));
    needed.extend(Family::ALL.iter().map(|family| format!("schedule {}", family.name())));
    needed.push(format!("schedule {SEARCHED}"));
    let cli = crate::Cli::command();
    needed.extend(cli.get_subcommands().map(|one| format!("command {}", one.get_name())));
    needed.extend(accuracy::PARTS.iter().map(|(which, _)| format!("accuracy {which}")));
    for name in needed {
        let times = found.iter().filter(|found| **found == name).count();
        assert_eq!(times, 1, "<!-- generated: {name} --> stands on {times} pages, not on one");
    }
}

#[test]
fn a_part_is_replaced_and_the_rest_is_kept() {
    let page = format!("# Page\n\n{BEGIN}laws{BEGIN_ENDS}old\n{END}\n\nText.\n");
    let new = renewed(&page).unwrap();
    assert!(new.starts_with("# Page\n\n<!-- generated: laws -->\n\n"), "{new}");
    assert!(new.ends_with("<!-- end of generated -->\n\nText.\n"), "{new}");
    assert!(new.contains("lognormal") && !new.contains("old"), "{new}");
    assert_eq!(renewed(&new), Ok(new.clone()));
    assert!(renewed(&format!("{BEGIN}nothing{BEGIN_ENDS}{END}")).is_err());
    assert!(renewed(&format!("{BEGIN}laws{BEGIN_ENDS}")).is_err());
}
