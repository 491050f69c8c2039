//! The host of a question: the caller's files, progress display and stop signal.
//!
//! The library opens no path, shows no bar and hears no Ctrl-C itself. The command line reads files from
//! the disk, a web page from what was dropped on it, and a test from a map of names to bytes.

pub(crate) mod lent;

use std::collections::HashMap;
use std::path::{Path, PathBuf};
use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::{Arc, Mutex, PoisonError};
use std::time::Duration;

use profile::AnyProfile;

use crate::diagnostic::Diagnostic;
use crate::memory;
use crate::{format, quote};

pub use self::lent::{Host, Improvement, ReadError, Work};

/// Announces the estimated time of `steps` of work at `per_second`, if it is long.
pub fn announce_estimate(host: &dyn Host, steps: u128, per_second: u64, what: &str) {
    if let Some(text) = estimate(steps, per_second, what) {
        host.announce(&text);
    }
}

/// The shortest work that is announced.
const LONG: Duration = Duration::from_secs(60);

fn estimate(steps: u128, per_second: u64, what: &str) -> Option<String> {
    let seconds = u64::try_from(steps / u128::from(per_second.max(1))).unwrap_or(u64::MAX);
    let time = Duration::from_secs(seconds);
    (time >= LONG).then(|| {
        let about = format::length(time);
        format!("this takes about {about}: {what}; Ctrl-C ends it with what there is by then")
    })
}

/// A question being answered: the files of its host, and what must be remembered until the answer is
/// there. A profile is read and parsed once, however many questions of a sweep name it.
pub struct Context<'h> {
    host: &'h dyn Host,
    profiles: Mutex<HashMap<PathBuf, Arc<AnyProfile>>>,
    warnings: Mutex<Vec<String>>,
    cut_short: AtomicBool,
}

/// The most values of a TOML file.
const MAX_VALUES: u64 = 1 << 20;
/// Bytes that each of them takes while the file is parsed, measured and rounded up.
const OF_A_VALUE: u64 = 256;

impl<'h> Context<'h> {
    /// The context of a question that is answered with the files of `host`.
    pub fn new(host: &'h dyn Host) -> Self {
        Self {
            host,
            profiles: Mutex::default(),
            warnings: Mutex::default(),
            cut_short: AtomicBool::new(false),
        }
    }

    /// Who asks.
    pub const fn host(&self) -> &'h dyn Host {
        self.host
    }

    /// Whether the host asks to stop. A caller that receives `true` skips its remaining work: from then on the
    /// answer counts as cut short.
    pub fn stopped(&self) -> bool {
        let stopped = self.host.stopped();
        if stopped {
            self.cut_short.store(true, Ordering::Relaxed);
        }
        stopped
    }

    /// Whether the answer lacks something because the host asked to stop.
    pub fn cut_short(&self) -> bool {
        self.cut_short.load(Ordering::Relaxed)
    }

    /// Whether there is a file at `path`.
    pub fn exists(&self, path: &Path) -> bool {
        self.host.exists(path)
    }

    /// The content of the file at `path`, of at most `limit` bytes.
    pub fn read_bytes(&self, path: &Path, limit: u64) -> Result<Vec<u8>, Diagnostic> {
        self.host.read(path, limit).map_err(|error| match error {
            ReadError::Memory(diagnostic) => diagnostic,
            other => Diagnostic::unreadable(path, &other.to_string()),
        })
    }

    /// The text of the file at `path`, of at most `limit` bytes.
    pub fn read_text(&self, path: &Path, limit: u64) -> Result<String, Diagnostic> {
        let not_text = |_| Diagnostic::unreadable(path, "it is not UTF-8 text");
        String::from_utf8(self.read_bytes(path, limit)?).map_err(not_text)
    }

    /// The text of the TOML file at `path`, of at most `limit` bytes. A value of it may take only three
    /// bytes, and a hundred times as much once it is parsed: a file of too many is refused.
    pub fn read_toml(&self, path: &Path, limit: u64) -> Result<String, Diagnostic> {
        let text = self.read_text(path, limit)?;
        self.check_toml(path, &text)?;
        Ok(text)
    }

    /// Refuses `text`, TOML of the file at `path`, if it would take too much memory.
    pub fn check_toml(&self, path: &Path, text: &str) -> Result<(), Diagnostic> {
        let begins = |byte: &u8| matches!(byte, b',' | b'=' | b'[' | b'{' | b'\n');
        let values = text.as_bytes().iter().filter(|byte| begins(byte)).count() as u64;
        if values > MAX_VALUES {
            let cause = format!("it has some {values} values and lines: at most {MAX_VALUES}");
            return Err(Diagnostic::unreadable(path, &cause));
        }
        let name = quote::path(path);
        memory::demand(self.host, &name, values * OF_A_VALUE, "give the process more memory")
    }

    /// The profile at `path`, which `parse` makes of it the first time.
    pub(crate) fn profile(
        &self,
        path: &Path,
        parse: impl FnOnce() -> Result<AnyProfile, Diagnostic>,
    ) -> Result<Arc<AnyProfile>, Diagnostic> {
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
    pub fn warn(&self, text: String) {
        self.warnings.lock().unwrap_or_else(PoisonError::into_inner).push(text);
    }

    /// The warnings about the files that were read since they were last taken.
    pub fn take_warnings(&self) -> Vec<String> {
        std::mem::take(&mut self.warnings.lock().unwrap_or_else(PoisonError::into_inner))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn estimates_of_minutes_are_announced_and_of_seconds_are_not() {
        assert_eq!(estimate(59_000, 1_000, "a"), None);
        let text = estimate(600_000, 1_000, "1000 replicas").unwrap();
        assert!(text.starts_with("this takes about 10 min: 1000 replicas"), "{text}");
        assert!(estimate(u128::MAX, 0, "a").unwrap().contains("days"));
    }
}
