//! What can go wrong at the command line, as a person reads it. Every one ends with exit code 2.

use std::io;
use std::ops::Range;
use std::path::{Path, PathBuf};
use std::sync::Arc;

use miette::{Diagnostic, NamedSource, SourceSpan};
use thiserror::Error;

/// An error with all that is needed to mend its cause.
#[derive(Debug, Error, Diagnostic)]
pub enum Error {
    /// Something in a scenario file, with its line.
    #[error("{message}")]
    Scenario {
        /// What is wrong.
        message: String,
        /// The whole file.
        #[source_code]
        source_code: Arc<NamedSource<String>>,
        /// The place in it.
        #[label("here")]
        place: Option<SourceSpan>,
        /// The cure, if there is one to name.
        #[help]
        help: Option<String>,
    },
    /// Something in the flags, or in what flags and scenario say together.
    #[error("{message}")]
    Question {
        /// What is wrong.
        message: String,
        /// The cure, if there is one to name.
        #[help]
        help: Option<String>,
    },
    /// A file that cannot be read.
    #[error("cannot read {}: {cause}", path.display())]
    Read {
        /// Which file.
        path: PathBuf,
        /// Why.
        cause: String,
    },
    /// A file that cannot be written.
    #[error("cannot write {}: {cause}", path.display())]
    Write {
        /// Which file.
        path: PathBuf,
        /// Why.
        cause: io::Error,
    },
    /// A trace of a run that makes no sense.
    #[error("{}: {fault}", path.display())]
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
    Draw(#[from] crate::draw::DrawError),
}

impl Error {
    /// An error about the question as a whole.
    pub fn question(message: impl Into<String>) -> Self {
        Self::Question { message: message.into(), help: None }
    }

    /// An error at a place of a scenario file.
    pub fn scenario(file: &Path, text: &str, place: Option<Range<usize>>, message: String) -> Self {
        let source_code = Arc::new(NamedSource::new(file.to_string_lossy(), text.to_owned()));
        Self::Scenario { message, source_code, place: place.map(SourceSpan::from), help: None }
    }

    /// The same with a cure.
    pub fn with_help(mut self, cure: impl Into<String>) -> Self {
        if let Self::Question { help, .. } | Self::Scenario { help, .. } = &mut self {
            *help = Some(cure.into());
        }
        self
    }

    /// Whether standard output was closed by its reader, as by `head`: nothing to complain about.
    pub fn is_closed_output(&self) -> bool {
        matches!(self, Self::Output(cause) if cause.kind() == io::ErrorKind::BrokenPipe)
    }
}
