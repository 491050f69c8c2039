//! The host of the page: files that were dropped on it, a clock, a view of the progress, and a way to
//! stop.

use std::collections::BTreeMap;
use std::path::{Path, PathBuf};
use std::sync::atomic::{AtomicU64, Ordering};
use std::sync::{Mutex, PoisonError};
use std::time::Duration;

use question::{Host, ReadError, Work};
use wasm_bindgen::prelude::*;

/// Files by name.
pub type Files = BTreeMap<PathBuf, Vec<u8>>;

#[wasm_bindgen]
extern "C" {
    /// Shows that `done` of `of` steps of `what` are done; a total of 0 is unknown.
    #[wasm_bindgen(js_namespace = ["self", "page"])]
    fn progress(what: &str, done: f64, of: f64);

    /// Whether the user asked to stop.
    #[wasm_bindgen(js_namespace = ["self", "page"])]
    fn stopped() -> bool;

    /// Milliseconds since some moment.
    #[wasm_bindgen(js_namespace = ["self", "page"])]
    fn now() -> f64;

    /// Says that the library broke down, and why.
    #[wasm_bindgen(js_namespace = ["self", "page"])]
    pub(crate) fn broken(why: &str);
}

/// The memory that a question may take: a browser ends pages that take much more.
const MEMORY: u64 = 1 << 30;

/// How often progress is shown, and asked whether to end.
const TICK: Duration = Duration::from_millis(50);

/// The host of a request from the page.
pub(crate) struct Page {
    files: Files,
    looked: Mutex<Looked>,
}

/// Time of the last check for a stop, and its result.
#[derive(Default)]
struct Looked {
    at: Duration,
    stopped: bool,
}

impl Page {
    /// A host with `files`.
    pub(crate) fn new(files: Files) -> Self {
        Self { files, looked: Mutex::default() }
    }
}

fn time() -> Duration {
    Duration::try_from_secs_f64(now() / 1_000.0).unwrap_or_default()
}

impl Host for Page {
    fn read(&self, path: &Path, at_most: u64) -> Result<Vec<u8>, ReadError> {
        self.files.read(path, at_most)
    }

    fn exists(&self, path: &Path) -> bool {
        self.files.contains_key(path)
    }

    fn begin(&self, of: u64, what: &str) -> Box<dyn Work + '_> {
        let shown = Shown {
            done: AtomicU64::new(0),
            of: AtomicU64::new(of),
            what: Mutex::new(what.to_owned()),
            last: Mutex::new(time()),
        };
        shown.show();
        Box::new(shown)
    }

    fn stopped(&self) -> bool {
        let mut looked = self.looked.lock().unwrap_or_else(PoisonError::into_inner);
        let now = time();
        if !looked.stopped && now >= looked.at + TICK {
            *looked = Looked { at: now, stopped: stopped() };
        }
        looked.stopped
    }

    fn clock(&self) -> Option<Duration> {
        Some(time())
    }

    fn spare_memory(&self) -> Option<u64> {
        Some(MEMORY)
    }
}

/// Some work and how far it is.
struct Shown {
    done: AtomicU64,
    of: AtomicU64,
    what: Mutex<String>,
    last: Mutex<Duration>,
}

impl Shown {
    fn show(&self) {
        let what = self.what.lock().unwrap_or_else(PoisonError::into_inner);
        // Counts of steps are far below the numbers that a float cannot hold.
        let number = |count: &AtomicU64| count.load(Ordering::Relaxed) as f64;
        progress(&what, number(&self.done), number(&self.of));
    }

    fn tick(&self) {
        let mut last = self.last.lock().unwrap_or_else(PoisonError::into_inner);
        let now = time();
        if now >= *last + TICK {
            *last = now;
            self.show();
        }
    }
}

impl Work for Shown {
    fn inc(&self, steps: u64) {
        self.done.fetch_add(steps, Ordering::Relaxed);
        self.tick();
    }

    fn add(&self, steps: u64) {
        self.of.fetch_add(steps, Ordering::Relaxed);
        self.tick();
    }

    fn set_length(&self, steps: u64) {
        self.of.store(steps, Ordering::Relaxed);
        self.tick();
    }

    fn set_position(&self, steps: u64) {
        self.done.store(steps, Ordering::Relaxed);
        self.tick();
    }

    fn set_message(&self, what: String) {
        *self.what.lock().unwrap_or_else(PoisonError::into_inner) = what;
        self.tick();
    }
}
