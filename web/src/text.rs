//! The text of a question that the page has written, and of an answer.

use std::path::Path;

use question::scenario::Scenario;
use question::{Context, Diagnostic, keywords};
use serde::de::DeserializeOwned;
use serde_json::Value;

/// The name of a question that the page has written.
pub(crate) const QUESTION: &str = "question.toml";

/// The keys of the scenario `text`.
pub(crate) fn keys(text: &str) -> Result<Value, Diagnostic> {
    keywords::document(Path::new(QUESTION), text)
}

/// The keys of a question that is one table, from its `text`.
pub(crate) fn table<T: DeserializeOwned>(text: &str) -> Result<T, Diagnostic> {
    let wrong = |error: toml::de::Error| Diagnostic::toml(Path::new(QUESTION), text, &error, &[]);
    toml::from_str(text).map_err(wrong)
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
