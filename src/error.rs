//! The error that ends a command early. Everything but a closed standard output is a
//! [`Diagnostic`], with exit code 2.

use std::io;
use std::path::Path;

use draw::DrawError;
use question::{Diagnostic, quote};
use thiserror::Error;

/// Why a command ended early.
#[derive(Debug, Error)]
pub enum Error {
    /// Something is wrong with the question or a file.
    #[error("{0}")]
    Diagnostic(Box<Diagnostic>),
    /// Standard output is closed or full.
    #[error("cannot write to standard output")]
    Output(#[from] io::Error),
}

impl From<Diagnostic> for Error {
    fn from(diagnostic: Diagnostic) -> Self {
        Self::Diagnostic(Box::new(diagnostic))
    }
}

impl From<DrawError> for Error {
    fn from(error: DrawError) -> Self {
        Diagnostic::from(error).into()
    }
}

impl Error {
    /// An error about the question as a whole.
    pub fn question(message: impl Into<String>) -> Self {
        Diagnostic::new(message).into()
    }

    /// A file that cannot be written.
    pub fn write(path: &Path, cause: &io::Error) -> Self {
        Diagnostic::file(path, format!("cannot write {}: {cause}", quote::path(path))).into()
    }

    /// The same with a cure.
    #[must_use]
    pub fn with_help(self, cure: impl Into<String>) -> Self {
        match self {
            Self::Diagnostic(diagnostic) => diagnostic.with_help(cure).into(),
            output @ Self::Output(_) => output,
        }
    }

    /// Whether standard output was closed by its reader, as by `head`: nothing to complain about.
    pub fn is_closed_output(&self) -> bool {
        matches!(self, Self::Output(cause) if cause.kind() == io::ErrorKind::BrokenPipe)
    }

    /// The error as a value.
    pub fn diagnostic(&self) -> Diagnostic {
        match self {
            Self::Diagnostic(diagnostic) => (**diagnostic).clone(),
            Self::Output(cause) => Diagnostic::new(self.to_string()).with_help(cause.to_string()),
        }
    }
}
