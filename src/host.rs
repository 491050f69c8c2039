//! The host that the command line lends the library: files on the disk, bars on stderr, Ctrl-C and
//! a clock.

use std::path::Path;
use std::time::{Duration, Instant};

use question::{Context, ReadError, Work};

use crate::error::Error;
use crate::interrupt;
use crate::messages::note;
use crate::progress::{self, Progress};

/// The command line as the host of a question.
pub struct Host {
    begun: Instant,
}

impl Default for Host {
    fn default() -> Self {
        Self { begun: Instant::now() }
    }
}

impl Host {
    /// A host whose first Ctrl-C asks long work to end with what there is.
    pub fn listening() -> Self {
        interrupt::listen();
        Self::default()
    }

    /// A host whose first Ctrl-C asks work to end, and a second later ends the program with `text` where it has not.
    pub fn listening_for_a_second(text: &'static str) -> Self {
        interrupt::listen_for_a_second(text);
        Self::default()
    }
}

impl question::Host for Host {
    fn read(&self, path: &Path, at_most: u64) -> Result<Vec<u8>, ReadError> {
        native::read(path, at_most)
    }

    fn exists(&self, path: &Path) -> bool {
        path.exists()
    }

    fn begin(&self, of: u64, what: &str) -> Box<dyn Work + '_> {
        Box::new(progress::bar(of, what))
    }

    fn announce(&self, text: &str) {
        note(text);
    }

    fn stopped(&self) -> bool {
        interrupt::asked()
    }

    fn clock(&self) -> Option<Duration> {
        Some(self.begun.elapsed())
    }

    fn spare_memory(&self) -> Option<u64> {
        native::memory::free()
    }
}

impl Work for Progress {
    fn inc(&self, steps: u64) {
        self.inc(steps);
    }

    fn add(&self, steps: u64) {
        self.add(steps);
    }

    fn set_length(&self, steps: u64) {
        self.set_length(steps);
    }

    fn set_position(&self, steps: u64) {
        self.set_position(steps);
    }

    fn set_message(&self, what: String) {
        self.set_message(what);
    }
}

/// Reads a file of at most `limit` bytes.
///
/// # Errors
/// If it cannot be read.
pub fn read_bytes(path: &Path, limit: u64) -> Result<Vec<u8>, Error> {
    let host = Host::default();
    Ok(Context::new(&host).read_bytes(path, limit)?)
}

/// Reads a text file of at most `limit` bytes.
///
/// # Errors
/// If it cannot be read, or is not UTF-8.
pub fn read_text(path: &Path, limit: u64) -> Result<String, Error> {
    let host = Host::default();
    Ok(Context::new(&host).read_text(path, limit)?)
}
