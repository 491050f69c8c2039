//! The question that is read, and errors at its keys.

use std::path::Path;

use question::KeySpans;
use question::diagnostic::Diagnostic;
use question::host::Context;

use crate::document::Document;
use crate::memory_error::MemoryError;

/// An error at the value of `key`, a path of [`KeySpans`] or a name that one table has, in `file`.
pub(crate) fn wrong(file: Option<(&Path, &str)>, key: &str, message: String) -> Diagnostic {
    let error = match file {
        Some((path, text)) => {
            Diagnostic::at(path, text, KeySpans::of_text(text).find(key), message)
        }
        None => Diagnostic::new(message),
    };
    error.about(key)
}

/// A question that is being read.
pub(crate) struct Reader<'a> {
    pub(crate) context: &'a Context<'a>,
    pub(crate) folder: &'a Path,
    /// That of the key `network`: a flag names its file from where the program runs.
    pub(crate) network_folder: &'a Path,
    /// The file of the question and its text, if it has one.
    pub(crate) file: Option<(&'a Path, &'a str)>,
    pub(crate) document: &'a Document,
    pub(crate) memory_error: MemoryError,
}

impl Reader<'_> {
    /// The value of `key`, if it is given: from `least` to `most`.
    pub(crate) fn within(
        &self,
        key: &str,
        given: Option<f64>,
        [least, most]: [f64; 2],
    ) -> Result<Option<f64>, Diagnostic> {
        match given {
            Some(value) if !(least..=most).contains(&value) => {
                let name = key.rsplit('.').next().unwrap_or(key);
                Err(self.wrong(key, format!("{name} is {value}: from {least} to {most}")))
            }
            given => Ok(given),
        }
    }

    /// An error at the value of `key`, a path of [`KeySpans`] or a name that one table has.
    pub(crate) fn wrong(&self, key: &str, message: String) -> Diagnostic {
        wrong(self.file, key, message)
    }

    /// `error`, at the value of `key` unless it has a place of its own.
    pub(crate) fn at(&self, key: &str, error: Diagnostic) -> Diagnostic {
        match error.is_placeless() {
            true => {
                let placed = self.wrong(key, error.message);
                error.help.into_iter().fold(placed, Diagnostic::with_help)
            }
            false => error,
        }
    }
}
