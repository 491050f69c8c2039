//! The text of a question that the page has written, and of an answer.

use std::path::Path;

use question::scenario::Scenario;
use question::{Context, Diagnostic, keywords};
use serde_json::Value;

/// The name of a question that the page has written.
pub(crate) const QUESTION: &str = "question.toml";

/// The keys of the scenario `text`.
pub(crate) fn keys(text: &str) -> Result<Value, Diagnostic> {
    keywords::document(Path::new(QUESTION), text)
}

/// The scenario `text`, checked.
pub(crate) fn scenario(context: &Context<'_>, text: String) -> Result<Scenario, Diagnostic> {
    Scenario::parse(context, Path::new(QUESTION), text)
}

/// `bytes` of a file that the library has written, as text.
pub(crate) fn text(bytes: Vec<u8>) -> String {
    String::from_utf8(bytes).unwrap_or_default()
}

/// The error of an answer that cannot be written down.
pub(crate) fn unwritable(error: impl std::fmt::Display) -> Diagnostic {
    Diagnostic::new(format!("the answer cannot be written: {error}"))
}
