//! The services of a host for a question: files, a progress display, a stop signal, a clock and the size of its memory.

use std::collections::BTreeMap;
use std::path::{Path, PathBuf};
use std::time::Duration;

use pipeline::Nanos;
use thiserror::Error;

use crate::diagnostic::Diagnostic;

/// Services that the caller gives the library. Only [`Host::read`] and [`Host::exists`] are required: by default,
/// work is silent, is never interrupted, and has no memory limit.
pub trait Host: Sync {
    /// The content of the file at `path`, of at most `at_most` bytes.
    fn read(&self, path: &Path, at_most: u64) -> Result<Vec<u8>, ReadError>;

    /// Whether there is a file at `path`.
    fn exists(&self, path: &Path) -> bool;

    /// Begins `of` steps of `what`; the [`Work`] that it returns receives each step, and is dropped at the end.
    fn begin(&self, _of: u64, _what: &str) -> Box<dyn Work + '_> {
        Box::new(Unseen)
    }

    /// Receives a message before long work begins, such as an estimate of its time.
    fn announce(&self, _text: &str) {}

    /// Receives every improvement of a search as it is found.
    fn improved(&self, _now: Improvement) {}

    /// Whether to end long work with what there is by now.
    fn stopped(&self) -> bool {
        false
    }

    /// The time since some moment before the question was asked, if the host has a clock. Without one,
    /// time limits are ignored.
    fn clock(&self) -> Option<Duration> {
        None
    }

    /// The bytes of memory that can still be taken, if that is known.
    fn spare_memory(&self) -> Option<u64> {
        None
    }
}

/// A better order than a search had before.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct Improvement {
    /// The number of the search among those of the question, from 0.
    pub search: usize,
    /// The cost of the order.
    pub cost: Nanos,
    /// The lower bound on the cost of any order, where one is known by then.
    pub bound: Option<Nanos>,
    /// The steps of the search by then: passes placed or timed, of a joint search choices tried.
    pub steps: u64,
}

/// The progress of some work, as the caller sees it.
pub trait Work: Send + Sync {
    /// Adds to the steps that are done.
    fn inc(&self, _steps: u64) {}

    /// Adds to the total of steps.
    fn add(&self, _steps: u64) {}

    /// Sets the total of steps.
    fn set_length(&self, _steps: u64) {}

    /// Sets the steps that are done.
    fn set_position(&self, _steps: u64) {}

    /// Renames the steps.
    fn set_message(&self, _what: String) {}
}

/// Work without a progress display.
struct Unseen;

impl Work for Unseen {}

/// Why a file cannot be read.
#[derive(Clone, PartialEq, Eq, Debug, Error)]
pub enum ReadError {
    /// There is none.
    #[error("there is no such file")]
    Missing,
    /// It is larger than asked for.
    #[error("it is larger than {0} bytes")]
    TooLarge(u64),
    /// It takes more memory than there is.
    #[error("{0}")]
    Memory(Diagnostic),
    /// Anything else, in words.
    #[error("{0}")]
    Other(String),
}

/// Files in memory, by name, as web pages and tests have them.
impl Host for BTreeMap<PathBuf, Vec<u8>> {
    fn read(&self, path: &Path, at_most: u64) -> Result<Vec<u8>, ReadError> {
        let bytes = self.get(path).ok_or(ReadError::Missing)?;
        match bytes.len() as u64 > at_most {
            true => Err(ReadError::TooLarge(at_most)),
            false => Ok(bytes.clone()),
        }
    }

    fn exists(&self, path: &Path) -> bool {
        self.contains_key(path)
    }
}
