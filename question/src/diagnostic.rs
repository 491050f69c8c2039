//! Errors as values, with everything that any door needs to show them and to mend their cause.

use std::ops::Range;
use std::path::Path;

use serde::Serialize;
use thiserror::Error;

use crate::excerpt::{Excerpt, Position};
use crate::kinds::InputKind;
use crate::quote;
use crate::{gone, nearest};

/// An error with all that is needed to mend its cause: a message, the cure, the key to blame, and the
/// place of the file that says it.
#[derive(Clone, PartialEq, Eq, Debug, Error, Serialize)]
#[error("{message}")]
pub struct Diagnostic {
    /// The fault, on one line.
    pub message: String,
    /// The cure, if there is one to name.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub help: Option<String>,
    /// The flag or key to blame, without dashes.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub key: Option<String>,
    /// The file to blame, if the fault is in one.
    #[serde(flatten, skip_serializing_if = "Option::is_none")]
    pub place: Option<Box<Place>>,
    /// The kind of input that the fault is in.
    #[serde(skip)]
    pub fault: Fault,
}

/// The kind of input that a [`Diagnostic`] finds fault with.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum Fault {
    /// The question: another schedule, key or value may be answered.
    Question,
    /// A file that cannot be read, written or understood.
    File,
}

/// A file, and where in it a fault is.
#[derive(Clone, PartialEq, Eq, Debug, Serialize)]
pub struct Place {
    /// The name of the file, as messages show it.
    pub file: String,
    /// The line in it, from 1.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub line: Option<usize>,
    /// The column of that line, in characters from 1.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub column: Option<usize>,
    /// The lines around it, if the text of the file is known.
    #[serde(skip)]
    pub excerpt: Option<Excerpt>,
    /// Whether the keys of the file are those of a kind that is read: their names are no secret.
    #[serde(skip)]
    pub is_of_kind: bool,
}

impl Diagnostic {
    /// An error about the question as a whole.
    pub fn new(message: impl Into<String>) -> Self {
        let message = quote::brief(&message.into());
        Self { message, help: None, key: None, place: None, fault: Fault::Question }
    }

    /// An error at the bytes `place` of `file`, which has that `text`.
    pub fn at(
        file: &Path,
        text: &str,
        place: Option<Range<usize>>,
        message: impl Into<String>,
    ) -> Self {
        let is_known = place.is_some();
        let (excerpt, Position { line, column }) = Excerpt::of(text, place.unwrap_or(0..0));
        let place = Place {
            file: quote::path(file),
            line: is_known.then_some(line),
            column: is_known.then_some(column),
            excerpt: is_known.then_some(excerpt),
            is_of_kind: InputKind::of(text).is_some_and(InputKind::has_keys),
        };
        Self { place: Some(Box::new(place)), ..Self::new(message) }
    }

    /// An error about a file as a whole: it cannot be read, written or understood.
    pub fn file(file: &Path, message: String) -> Self {
        let file = quote::path(file);
        let place = Place { file, line: None, column: None, excerpt: None, is_of_kind: false };
        let (help, key) = (None, None);
        Self { message, help, key, place: Some(Box::new(place)), fault: Fault::File }
    }

    /// A file that cannot be read because of `cause`.
    pub fn unreadable(file: &Path, cause: &str) -> Self {
        Self::file(file, format!("cannot read {}: {}", quote::path(file), quote::brief(cause)))
    }

    /// The error that a TOML reader found in `file` with `text`. `more` names keys that may stand
    /// there besides those that the reader names.
    pub fn toml(file: &Path, text: &str, error: &toml::de::Error, more: &[&str]) -> Self {
        let message = error.message();
        let at = |message: &str| {
            let at = Self::at(file, text, error.span(), message.to_owned());
            match error.span().and_then(|span| key_before(text, span.start)) {
                Some(key) => at.about(key),
                None => at,
            }
        };
        let unknown = message.strip_prefix("unknown field `");
        if let Some((name, expected)) = unknown.and_then(|rest| rest.split_once("`, expected ")) {
            let known: Vec<&str> = expected.split('`').skip(1).step_by(2).collect();
            let known = || known.iter().chain(more).copied();
            // A key of another table stands in the wrong place: that is not a mistake in its name.
            let near = nearest::question(name, known().filter(|known| *known != name));
            let mut all: Vec<&str> = known().collect();
            all.sort_unstable();
            let cure = match all.len() {
                0..=24 => format!("the keys here are {}", all.join(", ")),
                _ => "every flag of `--help-all` is a key here, without its dashes".to_owned(),
            };
            let cure = gone::cure(name).map_or(cure, str::to_owned);
            let error = at(&format!("there is no key `{}`{near}", quote::clip(name)));
            return error.with_help(cure).about(name);
        }
        let wanted = ["invalid type: ", "invalid value: "]
            .into_iter()
            .find_map(|start| message.strip_prefix(start)?.rsplit_once(", expected "));
        match wanted {
            Some((given, "u64" | "u32" | "u16" | "u8" | "usize")) => {
                let error = at(&format!("a whole number, from 0 on, is needed here, not {given}"));
                let quoted = given.starts_with("string");
                if quoted { error.with_help("write numbers without quotes") } else { error }
            }
            Some((given, "f64" | "f32")) => at(&format!("a number is needed here, not {given}")),
            Some((given, wanted)) => {
                let given = if given == "map" { "a table" } else { given };
                at(&format!("{wanted} is needed here, not {given}"))
            }
            None => match message.strip_prefix("missing field ") {
                Some(key) => at(&format!("the key {key} is missing")),
                None => at(message),
            },
        }
    }

    /// Whether it is about the question and points into no file yet, so that a caller that knows which key
    /// is to blame may give it a place.
    pub fn is_placeless(&self) -> bool {
        self.fault == Fault::Question && self.place.is_none()
    }

    /// This diagnostic without anything of the content of its file: with its name, the place and the kind of fault.
    #[must_use]
    pub fn without_content(mut self) -> Self {
        let Some(place) = &mut self.place else { return self };
        let lines = place.excerpt.take().map_or(String::new(), |excerpt| excerpt.lines);
        let is_of_kind = place.is_of_kind;
        let secret = |text: &str| match is_of_kind {
            true => quote::without(text, &['"'], ""),
            false => quote::without(text, &['"', '`'], &lines),
        };
        let at = match (place.line, place.column) {
            (Some(line), Some(column)) => format!("{}:{line}:{column}: ", place.file),
            _ => String::new(),
        };
        self.message = at + &secret(&self.message);
        let shown = "its lines are shown where the command line names it";
        let help = self.help.map(|help| secret(&help) + "; ").unwrap_or_default();
        self.help = Some(help + shown);
        self.key = None;
        self
    }

    /// This diagnostic of a file with keys of a kind that is read.
    #[must_use]
    pub fn of_kind(mut self) -> Self {
        self.place.iter_mut().for_each(|place| place.is_of_kind = true);
        self
    }

    /// This diagnostic with a remedy.
    #[must_use]
    pub fn with_help(mut self, cure: impl Into<String>) -> Self {
        self.help = Some(quote::brief(&cure.into()));
        self
    }

    /// This diagnostic about the key `name`.
    #[must_use]
    pub fn about(mut self, name: impl AsRef<str>) -> Self {
        self.key = Some(quote::clip(name.as_ref()));
        self
    }
}

/// The key whose value begins at `start` of `text`, if it stands on the same line.
fn key_before(text: &str, start: usize) -> Option<&str> {
    let before = text.get(..start)?;
    let line = &before[before.rfind('\n').map_or(0, |at| at + 1)..];
    let (key, rest) = line.split_once('=')?;
    let is_key = |c: char| c.is_ascii_alphanumeric() || c == '-' || c == '_';
    let key = key.trim();
    (rest.trim().is_empty() && !key.is_empty() && key.chars().all(is_key)).then_some(key)
}
