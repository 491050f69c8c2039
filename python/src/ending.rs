//! The end of the interpreter, while threads still wait for answers.
//!
//! A thread that attaches to an interpreter that is taken apart is ended by it on the spot, or worse. So once
//! the interpreter begins to end, threads look up no more before they have their answers: nobody is there to
//! press Ctrl-C or to see the progress. With their answers they go back only as long as it is whole.

// How long the end waits is a matter of the clock.
#![allow(clippy::disallowed_methods)]

use std::sync::OnceLock;
use std::sync::atomic::{AtomicU64, Ordering};
use std::thread::{self, ThreadId};
use std::time::{Duration, Instant};

use pyo3::prelude::*;

/// The thread that ends the interpreter, once it has begun to.
static ENDED_BY: OnceLock<ThreadId> = OnceLock::new();

/// How many threads look up from their waiting: the process in the upper half, the count in the lower one. A
/// process that was forked has none of its parent's threads.
static LOOKING_UP: AtomicU64 = AtomicU64::new(0);

/// How long the end waits for threads that have looked up: a function that shows the progress may take as
/// long as it likes.
const PATIENCE: Duration = Duration::from_secs(1);

/// How long a thread with an answer waits, once the end has begun, before it goes back.
const GRACE: Duration = Duration::from_millis(50);

/// How often the end looks whether they have gone back to waiting.
const PAUSE: Duration = Duration::from_millis(1);

/// A look from the waiting for an answer, attached to the interpreter. The interpreter does not end meanwhile,
/// or waits for a second.
pub(crate) struct LookUp(());

impl LookUp {
    /// Begins a look, unless another thread has begun to end the interpreter.
    pub(crate) fn begin() -> Option<Self> {
        // Counted first: either the end sees this thread, or this thread sees the end.
        count(|threads| threads + 1);
        let look = Self(());
        ENDED_BY.get().is_none_or(|thread| *thread == thread::current().id()).then_some(look)
    }
}

impl Drop for LookUp {
    fn drop(&mut self) {
        count(|threads| threads.saturating_sub(1));
    }
}

/// Changes the count of this process, and returns the old one.
fn count(change: impl Fn(u64) -> u64) -> u64 {
    let process = u64::from(std::process::id()) << 32;
    let here =
        |known: u64| known.checked_sub(process).filter(|count| count >> 32 == 0).unwrap_or(0);
    let changed = |known| Some(process + change(here(known)));
    here(LOOKING_UP.fetch_update(Ordering::SeqCst, Ordering::SeqCst, changed).unwrap_or_default())
}

/// Waits until a thread with an answer may go back to an interpreter that has begun to end: never, once that
/// is taken apart. Functions of `atexit` are called before, and may have joined this thread: for theirs it
/// goes back, after a while in which an end without any is over.
pub(crate) fn go_back() {
    thread::sleep(GRACE);
    while Python::try_attach(|_| ()).is_none() {
        thread::park();
    }
}

/// Has the interpreter say when it begins to end.
pub(crate) fn announce(module: &Bound<'_, PyModule>) -> PyResult<()> {
    let begins = wrap_pyfunction!(begins, module)?;
    module.py().import("atexit")?.call_method1("register", (begins,)).map(drop)
}

/// The interpreter begins to end: sees to it that no thread looks up any more.
#[pyfunction]
fn begins(py: Python<'_>) {
    let ender = *ENDED_BY.get_or_init(|| thread::current().id());
    if ender != thread::current().id() {
        return;
    }
    let begun = Instant::now();
    // They need the interpreter to finish their looks.
    py.detach(|| {
        while count(|threads| threads) > 0 && begun.elapsed() < PATIENCE {
            thread::sleep(PAUSE);
        }
    });
}
