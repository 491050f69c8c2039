//! Answers questions about schedules, one per line of standard input, each with a line of JSON.
//!
//! A line is an object: `question` has the keys of a scenario file, `explain` asks why stages wait, `sort`
//! orders the outcomes. An answer is what `debubble simulate --json` prints, on one line; a question that
//! has none is answered by `error`.
//!
//! `cargo run --example answer_questions < questions.jsonl`
// A program prints its answers, and lends the library the disk.
#![allow(clippy::print_stdout, clippy::disallowed_methods)]

use std::collections::BTreeMap;
use std::error::Error;
use std::io;
use std::path::{Path, PathBuf};

use answer::simulate::{Answers, Wants, simulate};
use question::keys::Keys;
use question::scenario::Scenario;
use question::simulate::Sort;
use question::{Context, Diagnostic, Host, ReadError};
use serde::Deserialize;
use serde_json::json;

/// A line of the input.
#[derive(Deserialize)]
#[serde(deny_unknown_fields)]
struct Line {
    question: serde_json::Map<String, serde_json::Value>,
    #[serde(default)]
    explain: bool,
    sort: Option<Sort>,
}

/// Files that the library may read: the question, from memory, and those of the disk that it names.
struct Files(BTreeMap<PathBuf, Vec<u8>>);

impl Host for Files {
    fn read(&self, path: &Path, at_most: u64) -> Result<Vec<u8>, ReadError> {
        match self.0.contains_key(path) {
            true => self.0.read(path, at_most),
            false => native::read(path, at_most),
        }
    }

    fn exists(&self, path: &Path) -> bool {
        self.0.contains_key(path) || path.exists()
    }
}

fn answered(line: &Line) -> Result<Answers, Diagnostic> {
    let name = Path::new("question.toml");
    let text = toml::to_string(&line.question);
    let text = text.map_err(|error| Diagnostic::new(error.to_string()))?;
    let host = Files(BTreeMap::from([(name.to_owned(), text.into_bytes())]));
    let context = Context::new(&host);
    let scenario = Scenario::asked(&context, Some(name), &Keys::default())?;
    let wants = Wants { explanation: line.explain, sort: line.sort, ..Wants::default() };
    simulate(&context, &scenario, wants)
}

fn main() -> Result<(), Box<dyn Error>> {
    for line in io::stdin().lines() {
        match answered(&serde_json::from_str(&line?)?) {
            Ok(answers) => println!("{}", serde_json::to_string(&answers)?),
            Err(error) => println!("{}", json!({ "error": error })),
        }
    }
    Ok(())
}
