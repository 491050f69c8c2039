//! The host of a question: whoever asks lends the library files, a view of the progress, and a way to stop.
//!
//! The library opens no path, shows no bar and hears no Ctrl-C itself. The command line reads files from
//! the disk, a web page from what was dropped on it, and a test from a map of names to bytes.

use std::collections::{BTreeMap, HashMap};
use std::path::{Path, PathBuf};
use std::sync::{Arc, Mutex, PoisonError};

use calibrate::Profile;
use thiserror::Error;

use crate::diagnostic::Diagnostic;
use crate::echo;
use crate::memory;

/// What a door lends the library. Only [`Host::read`] and [`Host::exists`] must be there: without the others work is silent, is
/// never interrupted, and takes the memory that it needs.
pub trait Host: Sync {
    /// The content of the file at `path`, of at most `at_most` bytes.
    ///
    /// # Errors
    /// If there is no such file, it cannot be read, or it is larger.
    fn read(&self, path: &Path, at_most: u64) -> Result<Vec<u8>, ReadError>;

    /// Whether there is a file at `path`.
    fn exists(&self, path: &Path) -> bool;

    /// Is told that `done` steps of `what` are over; `of` is how many there are, if that is known. The
    /// last call of a piece of work has `done` equal to `of`.
    fn progress(&self, _done: u64, _of: Option<u64>, _what: &'static str) {}

    /// Is told something worth knowing before long work begins, such as how long it takes.
    fn announce(&self, _text: &str) {}

    /// Whether to end long work with what there is by now.
    fn stopped(&self) -> bool {
        false
    }

    /// The bytes of memory that can still be taken, if that is known.
    fn spare_memory(&self) -> Option<u64> {
        None
    }
}

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

/// The files of a question. A profile is read and parsed once, however many questions of a sweep name
/// it.
pub struct Files<'h> {
    host: &'h dyn Host,
    profiles: Mutex<HashMap<PathBuf, Arc<Profile>>>,
    warnings: Mutex<Vec<String>>,
}

/// The most values of a TOML file.
const MAX_VALUES: u64 = 1 << 20;
/// Bytes that each of them takes while the file is parsed, measured and rounded up.
const OF_A_VALUE: u64 = 256;

impl<'h> Files<'h> {
    /// The files that `host` lends.
    pub fn new(host: &'h dyn Host) -> Self {
        Self { host, profiles: Mutex::default(), warnings: Mutex::default() }
    }

    /// Who lends them.
    pub const fn host(&self) -> &'h dyn Host {
        self.host
    }

    /// Whether there is a file at `path`.
    pub fn exists(&self, path: &Path) -> bool {
        self.host.exists(path)
    }

    /// The content of the file at `path`, of at most `limit` bytes.
    ///
    /// # Errors
    /// If it cannot be read.
    pub fn read_bytes(&self, path: &Path, limit: u64) -> Result<Vec<u8>, Diagnostic> {
        self.host.read(path, limit).map_err(|error| match error {
            ReadError::Memory(diagnostic) => diagnostic,
            other => Diagnostic::unreadable(path, &other.to_string()),
        })
    }

    /// The text of the file at `path`, of at most `limit` bytes.
    ///
    /// # Errors
    /// If it cannot be read, or is not UTF-8.
    pub fn read_text(&self, path: &Path, limit: u64) -> Result<String, Diagnostic> {
        let not_text = |_| Diagnostic::unreadable(path, "it is not UTF-8 text");
        String::from_utf8(self.read_bytes(path, limit)?).map_err(not_text)
    }

    /// The text of the TOML file at `path`, of at most `limit` bytes. A value of it may take only three
    /// bytes, and a hundred times as much once it is parsed: a file of too many is refused.
    ///
    /// # Errors
    /// If it cannot be read, or would take too much memory.
    pub fn read_toml(&self, path: &Path, limit: u64) -> Result<String, Diagnostic> {
        let text = self.read_text(path, limit)?;
        let begins = |byte: &u8| matches!(byte, b',' | b'=' | b'[' | b'{' | b'\n');
        let values = text.as_bytes().iter().filter(|byte| begins(byte)).count() as u64;
        if values > MAX_VALUES {
            let cause = format!("it has some {values} values and lines: at most {MAX_VALUES}");
            return Err(Diagnostic::unreadable(path, &cause));
        }
        let name = echo::path(path);
        memory::demand(self.host, &name, values * OF_A_VALUE, "give the process more memory")?;
        Ok(text)
    }

    /// The profile at `path`, which `parse` makes of it the first time.
    pub(crate) fn profile(
        &self,
        path: &Path,
        parse: impl FnOnce() -> Result<Profile, Diagnostic>,
    ) -> Result<Arc<Profile>, Diagnostic> {
        // A profile is put in whole: what a thread that broke down left is right.
        let mut known = self.profiles.lock().unwrap_or_else(PoisonError::into_inner);
        if let Some(profile) = known.get(path) {
            return Ok(Arc::clone(profile));
        }
        let profile = Arc::new(parse()?);
        known.insert(path.to_owned(), Arc::clone(&profile));
        Ok(profile)
    }

    /// Keeps a warning about a file, which belongs to the answer.
    pub(crate) fn warn(&self, text: String) {
        self.warnings.lock().unwrap_or_else(PoisonError::into_inner).push(text);
    }

    /// The warnings about the files that were read since they were last taken.
    pub fn take_warnings(&self) -> Vec<String> {
        std::mem::take(&mut self.warnings.lock().unwrap_or_else(PoisonError::into_inner))
    }
}

/// Files in memory, by name: what a page or a test lends.
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
