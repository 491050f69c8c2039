//! Messages on stderr: notes, progress and errors. Answers go to stdout and never come here.
//!
//! Where the answer is JSON, every line here is a JSON object, too, named by what it is:
//! `{"note": ...}`, `{"progress": ...}`, `{"error": {...}}`.

use std::env;
use std::io::{Write, stderr};
use std::sync::OnceLock;

use question::{Diagnostic, quote};
use serde_json::json;

use crate::error;

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

/// Writes `text` to stderr as it is. Errors of stderr are ignored: the answer does not depend on it.
pub fn print(text: &str) {
    let _ = stderr().lock().write_all(text.as_bytes());
}

/// Says something that is neither answer nor error.
pub fn note(text: &str) {
    say("note", &quote::brief(text));
}

/// Says how far long work is.
pub fn progress(text: &str) {
    say("progress", text);
}

/// Says what is wrong, with the line of the file it is about.
/// Of a file that only another file names nothing is shown: whoever wrote the other one may read more than they may.
pub fn error(error: &error::Error) {
    let diagnostic = error.diagnostic();
    let is_named = diagnostic.place.as_ref().is_none_or(|place| is_named(&place.file));
    let diagnostic = if is_named { diagnostic } else { diagnostic.without_content() };
    match are_json() {
        true => say_json(&diagnostic),
        false => print(&draw::text::diagnostic(&diagnostic)),
    }
}

/// Whether the command line names `file`, or a folder that it lies in.
fn is_named(file: &str) -> bool {
    let is = |name: &str| {
        let name = quote::clip(name);
        let within = file.strip_prefix(name.trim_end_matches('/'));
        name == file || within.is_some_and(|rest| rest.starts_with('/') && !rest.contains(".."))
    };
    let mut words = env::args_os().skip(1).map(|word| word.to_string_lossy().into_owned());
    file.is_empty() || words.any(|word| is(&word) || word.split(['=', ',', ':']).any(is))
}

/// Says `diagnostic` as a line of JSON.
pub fn say_json(diagnostic: &Diagnostic) {
    print(&format!("{}\n", json!({ "error": diagnostic })));
}
