//! What is said on stderr: notes, progress and errors. Answers go to stdout and never come here.
//!
//! Where the answer is JSON, every line here is a JSON object, too, named by what it is:
//! `{"note": ...}`, `{"progress": ...}`, `{"error": {...}}`.

use std::env;
use std::io::{Write, stderr};
use std::sync::OnceLock;

use miette::{GraphicalReportHandler, GraphicalTheme};
use serde::Serialize;
use serde_json::json;

use question::echo;
use crate::error::Error;

/// Whether the answer was asked for as JSON: known before flags are read, for their own errors.
pub fn are_json() -> bool {
    static JSON: OnceLock<bool> = OnceLock::new();
    *JSON.get_or_init(|| {
        let words = env::args_os().skip(1).take_while(|word| word != "--");
        words.into_iter().any(|word| word == "--json")
    })
}

/// Says `text`, which is a `kind` of message.
fn say(kind: &str, text: &str) {
    match are_json() {
        true => print(&format!("{}\n", json!({ kind: text }))),
        false => print(&format!("{kind}: {text}\n")),
    }
}

/// Writes `text` to stderr as it is. Nobody needs to listen: the answer does not depend on it.
pub fn print(text: &str) {
    let _ = stderr().lock().write_all(text.as_bytes());
}

/// Says something that is neither answer nor error.
pub fn note(text: &str) {
    say("note", &echo::brief(text));
}

/// Says how far long work is.
pub fn progress(text: &str) {
    say("progress", text);
}

/// An error as programs read it.
#[derive(Serialize)]
pub struct ErrorJson {
    /// What is wrong.
    pub message: String,
    /// The cure, if there is one to name.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub help: Option<String>,
    /// The flag or key that is to blame, without dashes.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub key: Option<String>,
    /// The file that is to blame.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub file: Option<String>,
    /// The line in it, from 1.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub line: Option<usize>,
    /// The column of that line, in characters from 1.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub column: Option<usize>,
}

impl ErrorJson {
    /// Says it.
    pub fn say(&self) {
        print(&format!("{}\n", json!({ "error": self })));
    }
}

/// Says what is wrong, with the line of the file it is about.
pub fn error(error: &Error) {
    match are_json() {
        true => error.json().say(),
        false => print(&text(error)),
    }
}

/// What is wrong, as a person reads it.
pub fn text(error: &Error) -> String {
    let mut theme = GraphicalTheme::unicode_nocolor();
    theme.characters.error = "error:".to_owned();
    let mut text = String::new();
    // Writing to a string cannot fail.
    let _ = GraphicalReportHandler::new_themed(theme).render_report(&mut text, error);
    text.trim_start().to_owned()
}
