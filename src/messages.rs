//! Messages on stderr: notes, progress and errors. Answers go to stdout and never come here.
//!
//! Where the answer is JSON, every line here is a JSON object, too, named by what it is:
//! `{"note": ...}`, `{"progress": ...}`, `{"error": {...}}`.

use std::io::{Write, stderr};
use std::sync::OnceLock;
use std::{env, fmt};

use miette::{
    GraphicalReportHandler, GraphicalTheme, LabeledSpan, MietteError, MietteSpanContents,
    SourceCode, SourceSpan, SpanContents,
};
use question::diagnostic::Place;
use question::excerpt::Excerpt;
use question::{Diagnostic, echo};
use serde_json::json;
use thiserror::Error;

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

/// Says what is wrong, with the line of the file it is about.
pub fn error(error: &error::Error) {
    match are_json() {
        true => say_json(&error.diagnostic()),
        false => print(&text(&error.diagnostic())),
    }
}

/// Says `diagnostic` as a line of JSON.
pub fn say_json(diagnostic: &Diagnostic) {
    print(&format!("{}\n", json!({ "error": diagnostic })));
}

/// `diagnostic` as a person reads it: the message, the lines of the file, the cure.
pub fn text(diagnostic: &Diagnostic) -> String {
    let mut theme = GraphicalTheme::unicode_nocolor();
    theme.characters.error = "error:".to_owned();
    let mut text = String::new();
    // Writing to a string cannot fail.
    let report = Report(diagnostic);
    let _ = GraphicalReportHandler::new_themed(theme).render_report(&mut text, &report);
    text.trim_start().to_owned()
}

/// A diagnostic as the library that draws it takes it.
#[derive(Debug, Error)]
#[error("{0}")]
struct Report<'a>(&'a Diagnostic);

impl Report<'_> {
    fn place(&self) -> Option<(&Place, &Excerpt)> {
        let place = self.0.place.as_deref()?;
        Some((place, place.excerpt.as_ref()?))
    }
}

impl miette::Diagnostic for Report<'_> {
    fn help<'a>(&'a self) -> Option<Box<dyn fmt::Display + 'a>> {
        self.0.help.as_ref().map(|help| Box::new(help) as Box<dyn fmt::Display>)
    }

    fn source_code(&self) -> Option<&dyn SourceCode> {
        self.place().map(|_| self as &dyn SourceCode)
    }

    fn labels(&self) -> Option<Box<dyn Iterator<Item = LabeledSpan> + '_>> {
        let (_, excerpt) = self.place()?;
        let span = SourceSpan::from(excerpt.label.clone());
        let label = LabeledSpan::new_with_span(Some("here".to_owned()), span);
        Some(Box::new(std::iter::once(label)))
    }
}

impl SourceCode for Report<'_> {
    fn read_span<'a>(
        &'a self,
        span: &SourceSpan,
        before: usize,
        after: usize,
    ) -> Result<Box<dyn SpanContents<'a> + 'a>, MietteError> {
        let (place, excerpt) = self.place().ok_or(MietteError::OutOfBounds)?;
        let found = excerpt.lines.read_span(span, before, after)?;
        Ok(Box::new(MietteSpanContents::new_named(
            place.file.clone(),
            found.data(),
            *found.span(),
            excerpt.before + found.line(),
            found.column(),
            found.line_count(),
        )))
    }
}
