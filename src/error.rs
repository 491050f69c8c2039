//! What can go wrong at the command line, as a person reads it. Every one ends with exit code 2.

use std::io;
use std::ops::Range;
use std::path::{Path, PathBuf};
use std::sync::Arc;

use miette::{Diagnostic, SourceSpan};
use thiserror::Error;

use question::echo;
use question::echo::Excerpt;
use crate::messages::ErrorJson;
use question::nearest;

/// An error with all that is needed to mend its cause.
#[derive(Debug, Error, Diagnostic)]
pub enum Error {
    /// Something in a scenario file, with its line.
    #[error("{message}")]
    Scenario {
        /// What is wrong.
        message: String,
        /// What to show of the file.
        #[source_code]
        source_code: Arc<Excerpt>,
        /// The place in it.
        #[label("here")]
        place: Option<SourceSpan>,
        /// The cure, if there is one to name.
        #[help]
        help: Option<String>,
        /// The key that is to blame.
        key: Option<String>,
    },
    /// Something in the flags, or in what flags and scenario say together.
    #[error("{message}")]
    Question {
        /// What is wrong.
        message: String,
        /// The cure, if there is one to name.
        #[help]
        help: Option<String>,
        /// The key that is to blame.
        key: Option<String>,
    },
    /// A file that cannot be read.
    #[error("cannot read {}: {}", echo::path(path), echo::brief(cause))]
    Read {
        /// Which file.
        path: PathBuf,
        /// Why.
        cause: String,
    },
    /// A file that cannot be written.
    #[error("cannot write {}: {cause}", echo::path(path))]
    Write {
        /// Which file.
        path: PathBuf,
        /// Why.
        cause: io::Error,
    },
    /// A trace of a run that makes no sense.
    #[error("{}: {}", echo::path(path), echo::brief(&fault.to_string()))]
    Trace {
        /// Which file.
        path: PathBuf,
        /// What is wrong with it.
        fault: traces::TraceError,
    },
    /// Standard output is closed or full.
    #[error("cannot write to standard output")]
    Output(#[from] io::Error),
    /// A picture that cannot be drawn.
    #[error("cannot draw the picture")]
    Draw(#[from] draw::DrawError),
}

impl Error {
    /// An error about the question as a whole.
    pub fn question(message: impl Into<String>) -> Self {
        Self::Question { message: echo::brief(&message.into()), help: None, key: None }
    }

    /// An error at a place of a scenario file.
    pub fn scenario(
        file: &Path,
        text: &str,
        place: Option<Range<usize>>,
        message: impl Into<String>,
    ) -> Self {
        let (excerpt, label) = Excerpt::of(file, text, place.clone().unwrap_or(0..0));
        Self::Scenario {
            message: echo::brief(&message.into()),
            source_code: Arc::new(excerpt),
            place: place.map(|_| label),
            help: None,
            key: None,
        }
    }

    /// What a TOML reader found wrong in a file. `more` are keys that may stand there besides those
    /// that the reader names.
    pub fn toml(file: &Path, text: &str, error: &toml::de::Error, more: &[&str]) -> Self {
        let message = error.message();
        let at = |message: &str| {
            let at = Self::scenario(file, text, error.span(), message.to_owned());
            match error.span().and_then(|span| key_before(text, span.start)) {
                Some(key) => at.about(key),
                None => at,
            }
        };
        let unknown = message.strip_prefix("unknown field `");
        if let Some((name, expected)) = unknown.and_then(|rest| rest.split_once("`, expected ")) {
            let known: Vec<&str> = expected.split('`').skip(1).step_by(2).collect();
            let known = || known.iter().chain(more).copied();
            let near = nearest::question(name, known());
            let mut all: Vec<&str> = known().collect();
            all.sort_unstable();
            let cure = match all.len() {
                0..=24 => format!("the keys here are {}", all.join(", ")),
                _ => "every flag of `--help` is a key here, without its dashes".to_owned(),
            };
            let error = at(&format!("there is no key `{}`{near}", echo::clip(name)));
            return error.with_help(cure).about(name);
        }
        let wanted = ["invalid type: ", "invalid value: "]
            .into_iter()
            .find_map(|start| message.strip_prefix(start)?.rsplit_once(", expected "));
        match wanted {
            Some((given, "u64" | "u32" | "u16" | "u8" | "usize")) => {
                let error = at(&format!("a whole number, from 0 on, is needed here, not {given}"));
                let quoted = given.starts_with("string");
                if quoted { error.with_help("numbers stand without quotes") } else { error }
            }
            Some((given, "f64" | "f32")) => at(&format!("a number is needed here, not {given}")),
            Some((given, wanted)) => {
                let given = if given == "map" { "a table" } else { given };
                at(&format!("{wanted} is needed here, not {given}"))
            }
            None => at(message),
        }
    }

    /// The same with a cure.
    pub fn with_help(mut self, cure: impl Into<String>) -> Self {
        if let Self::Question { help, .. } | Self::Scenario { help, .. } = &mut self {
            *help = Some(echo::brief(&cure.into()));
        }
        self
    }

    /// The same about `key`.
    pub fn about(mut self, name: impl AsRef<str>) -> Self {
        if let Self::Question { key, .. } | Self::Scenario { key, .. } = &mut self {
            *key = Some(echo::clip(name.as_ref()));
        }
        self
    }

    /// Whether standard output was closed by its reader, as by `head`: nothing to complain about.
    pub fn is_closed_output(&self) -> bool {
        matches!(self, Self::Output(cause) if cause.kind() == io::ErrorKind::BrokenPipe)
    }

    /// The error for programs.
    pub fn json(&self) -> ErrorJson {
        let message = self.to_string();
        let mut json =
            ErrorJson { message, help: None, key: None, file: None, line: None, column: None };
        match self {
            Self::Scenario { source_code, place, help, key, .. } => {
                (json.help, json.key) = (help.clone(), key.clone());
                json.file = Some(source_code.file.clone());
                json.line = place.map(|_| source_code.line);
                json.column = place.map(|_| source_code.column);
            }
            Self::Question { help, key, .. } => {
                (json.help, json.key) = (help.clone(), key.clone());
            }
            Self::Read { path, .. } | Self::Write { path, .. } | Self::Trace { path, .. } => {
                json.file = Some(echo::path(path));
            }
            Self::Output(cause) => json.help = Some(cause.to_string()),
            Self::Draw(_) => {}
        }
        json
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
