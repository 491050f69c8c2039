//! No text that reaches the page names a flag.

use std::fs;
use std::path::{Path, PathBuf};

use question::questions;

use super::*;

/// Where the library keeps texts that may reach the page.
const ROOMS: [&str; 7] = [
    "cases/src",
    "question/src",
    "planning/src",
    "answer/src",
    "draw/src",
    "pipeline/src",
    "search/src",
];

/// Files with texts for the command line alone: fits, stored answers, a prediction beside another, pages and
/// pictures of sweeps; and files that have flags of frameworks, written or read.
const ELSEWHERE: [&str; 9] = [
    "answer/src/plan/export",
    "answer/src/plan/fit.rs",
    "answer/src/simulate/baseline",
    "draw/src/pictures/explain.rs",
    "draw/src/pictures/sweep",
    "planning/src/fit",
    "planning/src/flags.rs",
    "imports/src",
    "answer/src/compare/mod.rs",
];

/// Flags of Megatron-LM.
const FOREIGN: [&str; 1] = ["--overlap-moe-expert-parallel-comm"];

fn root() -> PathBuf {
    Path::new(env!("CARGO_MANIFEST_DIR")).join("..")
}

/// All sources below `folder`, but for tests.
#[allow(clippy::disallowed_methods)] // The sources are the input of the test.
fn sources(folder: &Path, found: &mut Vec<PathBuf>) {
    let mut entries: Vec<PathBuf> =
        fs::read_dir(folder).unwrap().map(|entry| entry.unwrap().path()).collect();
    entries.sort();
    for path in entries {
        let name = path.file_stem().unwrap().to_str().unwrap();
        if name == "tests" {
            continue;
        }
        if path.is_dir() {
            sources(&path, found);
        } else if path.extension().is_some_and(|one| one == "rs") {
            found.push(path);
        }
    }
}

/// The texts in quotes in `source`, without comments and tests.
fn quoted(source: &str) -> Vec<String> {
    let source = source.split("#[cfg(test)]\nmod tests {").next().unwrap_or_default();
    let (mut texts, mut rest) = (Vec::new(), source);
    while let Some(at) = rest.find(['"', '/', '\'']) {
        let (here, after) = rest.split_at(at);
        rest = match after {
            _ if after.starts_with("//") => after.split_once('\n').map_or("", |(_, next)| next),
            _ if after.starts_with("'\"'") => &after[3..],
            _ if after.starts_with('"') && here.ends_with("r#") => {
                let (text, next) = after[1..].split_once("\"#").unwrap_or_default();
                texts.push(text.to_owned());
                next
            }
            _ if after.starts_with('"') => {
                let (text, next) = literal(&after[1..]);
                texts.push(text);
                next
            }
            _ => &after[1..],
        };
    }
    texts
}

/// The text up to the next quote of `source`, and the rest of the source.
fn literal(source: &str) -> (String, &str) {
    let (mut text, mut chars) = (String::new(), source.char_indices());
    while let Some((at, one)) = chars.next() {
        match one {
            '"' => return (text, &source[at + 1..]),
            '\\' => match chars.next() {
                // The next line goes on where its text begins.
                Some((_, '\n')) => {
                    let behind = chars.as_str().trim_start();
                    let (more, rest) = literal(behind);
                    return (text + &more, rest);
                }
                Some((_, escaped)) => text.push(if escaped == 'n' { '\n' } else { escaped }),
                None => break,
            },
            one => text.push(one),
        }
    }
    (text, "")
}

/// The flags in `text` outside of backticks.
fn flags(text: &str) -> Vec<String> {
    let prose = text.split('`').step_by(2);
    let words =
        prose.flat_map(|part| part.split(|c: char| !(c.is_ascii_alphanumeric() || c == '-')));
    let is_flag = |word: &&str| {
        word.strip_prefix("--")
            .is_some_and(|rest| rest.starts_with(|c: char| c.is_ascii_lowercase()))
    };
    words.filter(is_flag).filter(|word| !FOREIGN.contains(word)).map(str::to_owned).collect()
}

/// Every text of the library that may reach the page, with its file.
#[allow(clippy::disallowed_methods)] // The same.
fn texts() -> Vec<(String, String)> {
    let (root, mut files) = (root(), Vec::new());
    ROOMS.iter().for_each(|room| sources(&root.join(room), &mut files));
    let mut all = Vec::new();
    for path in files {
        let name = path.strip_prefix(&root).unwrap().to_str().unwrap().replace('\\', "/");
        if ELSEWHERE.iter().any(|one| name.starts_with(one)) {
            continue;
        }
        let source = fs::read_to_string(&path).unwrap();
        all.extend(quoted(&source).into_iter().map(|text| (name.clone(), text)));
    }
    all
}

#[test]
fn no_text_of_the_library_names_a_flag_on_the_page() {
    let texts = texts();
    assert!(texts.len() > 5_000, "{}", texts.len());
    let mut wrong = Vec::new();
    for (file, text) in &texts {
        let left = flags(&said(text));
        wrong.extend(left.iter().map(|flag| format!("{file}: {flag} in {text:?}")));
    }
    assert!(wrong.is_empty(), "the page would say:\n{}", wrong.join("\n"));
}

#[test]
#[allow(clippy::disallowed_methods)] // The page's own texts are the input of the test.
fn no_text_of_the_page_itself_names_a_flag() {
    let folder = root().join("web/page");
    let style = fs::read_to_string(folder.join("style.css")).unwrap();
    let mut files = 0;
    for entry in fs::read_dir(&folder).unwrap() {
        let path = entry.unwrap().path();
        if !path.extension().is_some_and(|one| one == "js" || one == "html") {
            continue;
        }
        files += 1;
        // Backticks are quotes there.
        let source = fs::read_to_string(&path).unwrap().replace('`', "\"");
        let mut named = flags(&source);
        // What the style calls so is a variable of it.
        named.retain(|name| !style.contains(&format!("{name}:")));
        assert_eq!(named, Vec::<String>::new(), "{}", path.display());
    }
    assert!(files > 25, "{files}");
}

#[test]
fn every_step_of_the_command_line_stands_in_a_text_of_the_library() {
    let texts = texts();
    let helps = questions::QUESTIONS.iter().map(|kind| kind.schema);
    let all: Vec<&str> = texts.iter().map(|(_, text)| text.as_str()).chain(helps).collect();
    for (theirs, _) in OWN {
        assert!(all.iter().any(|text| text.contains(theirs)), "nothing says {theirs:?}");
    }
}

#[test]
fn no_help_of_a_field_names_a_flag() {
    for kind in questions::QUESTIONS.iter().filter(|kind| kind.examples.is_some()) {
        let mut value: Value = serde_json::from_str(kind.schema).unwrap();
        describe(&mut value);
        assert_eq!(flags(&value.to_string()), Vec::<String>::new(), "{}", kind.name);
    }
}

#[test]
fn sources_are_read_as_rust_reads_them() {
    let source = "// \"no\"\nlet a = \"x \\\"y\\\" \\\n    z\"; let b = '\"'; let c = r#\"q\"r\"#;\n#[cfg(test)]\nmod tests { \"t\" }";
    assert_eq!(quoted(source), ["x \"y\" z", "q\"r"]);
    assert_eq!(flags("give --hop and `--x`, a--b, --"), ["--hop"]);
}
