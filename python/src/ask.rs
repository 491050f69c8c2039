//! Asking the library: work runs on threads of this package without the interpreter's lock, while the
//! thread that asked hears Ctrl-C and shows the progress.

// A clock and the disk belong to the host.
#![allow(clippy::disallowed_methods)]

use std::collections::BTreeMap;
use std::panic::{AssertUnwindSafe, catch_unwind};
use std::path::{Path, PathBuf};
use std::sync::atomic::{AtomicBool, AtomicU64, Ordering};
use std::sync::mpsc::{self, Receiver, RecvTimeoutError};
use std::sync::{Arc, Mutex, PoisonError, TryLockError};
use std::time::{Duration, Instant};

use pyo3::exceptions::PyKeyboardInterrupt;
use pyo3::prelude::*;
use pyo3::types::PyBool;
use question::{Context, Diagnostic, Host, Improvement, ReadError, Work};
use rayon::{ThreadPool, ThreadPoolBuilder};

use crate::ending::{self, LookUp};
use crate::error::{InternalError, broken, raised};
use crate::wording::said;

/// How often the thread that asked looks for signals and shows the progress.
const TICK: Duration = Duration::from_millis(50);

/// Files in memory by name, which come before those of the disk.
pub(crate) type Files = BTreeMap<PathBuf, Vec<u8>>;

/// An answer with its warnings.
pub(crate) struct Answered<T> {
    /// The answer.
    pub(crate) answer: T,
    /// Warnings for the user.
    pub(crate) warnings: Vec<String>,
    /// Whether a Ctrl-C came while it was worked out.
    pub(crate) interrupted: bool,
}

/// Functions that are called while work goes on.
#[derive(Clone, Copy, Default)]
pub(crate) struct Told<'a> {
    /// With the name, the count and the total of the current work, the total `None` where it is unknown.
    pub(crate) progress: Option<&'a Py<PyAny>>,
    /// With the parts of every [`Improvement`], in their order, and the nanoseconds since the work began; work is asked
    /// to end where it returns `False`.
    pub(crate) improved: Option<&'a Py<PyAny>>,
}

/// [`ask_and_tell`] with `progress` alone.
///
/// # Errors
/// As there.
pub(crate) fn ask<T: Send + 'static>(
    py: Python<'_>,
    files: Arc<Files>,
    progress: Option<&Py<PyAny>>,
    work: impl FnOnce(&Context<'_>) -> Result<T, Diagnostic> + Send + 'static,
) -> PyResult<Answered<T>> {
    ask_and_tell(py, files, Told { progress, improved: None }, work)
}

/// Lets `work` answer on threads of this package, with `files` and those of the disk, and tells `told`.
///
/// # Errors
/// The error of `work` as an exception, exceptions of what is told or of a signal handler, and a panic of
/// the library. After a first Ctrl-C `work` is asked to end; a second one is raised at once.
pub(crate) fn ask_and_tell<T: Send + 'static>(
    py: Python<'_>,
    files: Arc<Files>,
    told: Told<'_>,
    work: impl FnOnce(&Context<'_>) -> Result<T, Diagnostic> + Send + 'static,
) -> PyResult<Answered<T>> {
    let lent = Arc::new(Lent::new(files));
    let (answer, come) = mpsc::sync_channel(1);
    let host = Arc::clone(&lent);
    pool()?.spawn(move || {
        let context = Context::new(&*host);
        let made = catch_unwind(AssertUnwindSafe(|| work(&context)));
        // There is no receiver any more after a second Ctrl-C.
        let _ = answer.send((made, context.take_warnings()));
    });
    let ((made, warnings), interrupted) = wait(py, &lent, &Mutex::new(come), told)?;
    match made {
        Ok(Ok(answer)) => {
            let warnings = warnings.iter().map(|text| said(text)).collect();
            Ok(Answered { answer, warnings, interrupted })
        }
        Ok(Err(_)) if interrupted => Err(PyKeyboardInterrupt::new_err(())),
        Ok(Err(diagnostic)) => Err(raised(py, &diagnostic)),
        Err(panic) => Err(broken(&*panic)),
    }
}

/// Lets `see` work out something of an `answer` that is there, on threads of this package.
///
/// # Errors
/// As [`ask`].
pub(crate) fn look<A: Send + Sync + 'static, T: Send + 'static>(
    py: Python<'_>,
    answer: &Arc<A>,
    see: impl FnOnce(&A) -> Result<T, Diagnostic> + Send + 'static,
) -> PyResult<T> {
    let answer = Arc::clone(answer);
    Ok(ask(py, Arc::default(), None, move |_| see(&answer))?.answer)
}

/// Result of the work, unless it panicked, and its warnings.
type WorkResult<T> = (std::thread::Result<Result<T, Diagnostic>>, Vec<String>);

/// Waits for the answer, and says whether a Ctrl-C came meanwhile.
fn wait<T: Send>(
    py: Python<'_>,
    lent: &Lent,
    come: &Mutex<Receiver<WorkResult<T>>>,
    told: Told<'_>,
) -> PyResult<(WorkResult<T>, bool)> {
    let mut error: Option<PyErr> = None;
    loop {
        // The look ends with this round, before the next wait.
        let (next, _look) = py.detach(|| rest(come));
        match next {
            Ok(made) => {
                // A pending Ctrl-C belongs to this work.
                let heard = py.check_signals();
                let last = if error.is_some() { Ok(()) } else { tell_improvements(py, lent, told) };
                let interrupted = match error.or(heard.err()).or(last.err()) {
                    None => false,
                    Some(error) if error.is_instance_of::<PyKeyboardInterrupt>(py) => true,
                    Some(error) => return Err(error),
                };
                return Ok((made, interrupted));
            }
            Err(RecvTimeoutError::Disconnected) => {
                return Err(InternalError::new_err("a thread of debubble ended without an answer"));
            }
            Err(RecvTimeoutError::Timeout) => {}
        }
        if let Err(raised) = tick(py, lent, told) {
            lent.stop.store(true, Ordering::Relaxed);
            if error.is_some() {
                leave_to_itself();
                return Err(raised);
            }
            error = Some(raised);
        }
    }
}

/// Waits for the answer or for the time to look up, which never comes once the interpreter begins to end.
fn rest<T>(come: &Mutex<Receiver<T>>) -> (Result<T, RecvTimeoutError>, Option<LookUp>) {
    let come = come.lock().unwrap_or_else(PoisonError::into_inner);
    loop {
        let next = come.recv_timeout(TICK);
        let look = LookUp::begin();
        if look.is_some() {
            return (next, look);
        }
        if !matches!(next, Err(RecvTimeoutError::Timeout)) {
            ending::go_back();
            return (next, None);
        }
    }
}

/// Calls `told` with the improvements that it has not heard of, and asks the work to end where it says so.
fn tell_improvements(py: Python<'_>, lent: &Lent, told: Told<'_>) -> PyResult<()> {
    let Some(improved) = told.improved else { return Ok(()) };
    let new = std::mem::take(&mut *lent.improved.lock().unwrap_or_else(PoisonError::into_inner));
    new.into_iter().try_for_each(|(Improvement { search, cost, bound, steps }, after)| {
        let bound = bound.map(|bound| bound.0);
        let nanoseconds = u64::try_from(after.as_nanos()).unwrap_or(u64::MAX);
        let said = improved.call1(py, (search, cost.0, bound, steps, nanoseconds))?;
        if said.bind(py).is(PyBool::new(py, false)) {
            lent.stop.store(true, Ordering::Relaxed);
        }
        Ok(())
    })
}

fn tick(py: Python<'_>, lent: &Lent, told: Told<'_>) -> PyResult<()> {
    py.check_signals()?;
    tell_improvements(py, lent, told)?;
    let (Some(progress), Some((what, done, of))) = (told.progress, lent.seen()) else {
        return Ok(());
    };
    progress.call1(py, (what, done, of)).map(drop)
}

/// The threads of this package, with the process that they belong to.
static POOL: Mutex<Option<(u32, Arc<ThreadPool>)>> = Mutex::new(None);

/// Attempts on a held lock before giving up.
const TRIES: usize = 1_000;

/// The threads of this package. A process that was forked has none of its parent's threads, so it makes
/// its own; if a thread that it does not have holds the lock, for each question anew.
fn pool() -> PyResult<Arc<ThreadPool>> {
    let process = std::process::id();
    for _ in 0..TRIES {
        let mut known = match POOL.try_lock() {
            Ok(known) => known,
            Err(TryLockError::Poisoned(known)) => known.into_inner(),
            Err(TryLockError::WouldBlock) => {
                std::thread::yield_now();
                continue;
            }
        };
        match &*known {
            Some((owner, pool)) if *owner == process => return Ok(Arc::clone(pool)),
            _ => {
                let pool = Arc::new(new_pool()?);
                // The threads of another process cannot be stopped.
                std::mem::forget(known.replace((process, Arc::clone(&pool))));
                return Ok(pool);
            }
        }
    }
    new_pool().map(Arc::new)
}

/// Leaves the threads to abandoned work: the next question gets new ones. They end with it.
fn leave_to_itself() {
    if let Ok(mut known) = POOL.try_lock() {
        *known = None;
    }
}

fn new_pool() -> PyResult<ThreadPool> {
    let name = |number| format!("debubble-{number}");
    // 0: as many as the variable or the machine says.
    let threads = native::threads::too_many().map_or(0, |[_, most]| most);
    let pool = ThreadPoolBuilder::new().num_threads(threads).thread_name(name).build();
    pool.map_err(|error| InternalError::new_err(format!("no thread can be started: {error}")))
}

/// The host of the library: files in memory and on the disk, a clock, and a view of the progress that
/// the calling thread polls.
struct Lent {
    files: Arc<Files>,
    stop: AtomicBool,
    begun: Instant,
    shown: Mutex<Option<Arc<Shown>>>,
    /// Improvements that nobody has heard of, each with the time since the work began.
    improved: Mutex<Vec<(Improvement, Duration)>>,
}

impl Lent {
    fn new(files: Arc<Files>) -> Self {
        Self {
            files,
            stop: AtomicBool::new(false),
            begun: Instant::now(),
            shown: Mutex::default(),
            improved: Mutex::default(),
        }
    }

    /// The name, the count and the total of the work that goes on.
    fn seen(&self) -> Option<(String, u64, Option<u64>)> {
        let shown = self.shown.lock().unwrap_or_else(PoisonError::into_inner).clone()?;
        let what = shown.what.lock().unwrap_or_else(PoisonError::into_inner).clone();
        let (done, of) = (shown.done.load(Ordering::Relaxed), shown.of.load(Ordering::Relaxed));
        // A total below the steps done is unknown.
        Some((what, done, (of > 0 && of >= done).then_some(of)))
    }
}

impl Host for Lent {
    fn read(&self, path: &Path, at_most: u64) -> Result<Vec<u8>, ReadError> {
        match self.files.contains_key(path) {
            true => self.files.read(path, at_most),
            false => native::read(path, at_most),
        }
    }

    fn exists(&self, path: &Path) -> bool {
        self.files.contains_key(path) || path.exists()
    }

    fn begin(&self, of: u64, what: &str) -> Box<dyn Work + '_> {
        let shown = Arc::new(Shown {
            done: AtomicU64::new(0),
            of: AtomicU64::new(of),
            what: Mutex::new(what.to_owned()),
        });
        *self.shown.lock().unwrap_or_else(PoisonError::into_inner) = Some(Arc::clone(&shown));
        Box::new(Watched(shown))
    }

    fn improved(&self, now: Improvement) {
        let after = self.begun.elapsed();
        self.improved.lock().unwrap_or_else(PoisonError::into_inner).push((now, after));
    }

    fn stopped(&self) -> bool {
        self.stop.load(Ordering::Relaxed)
    }

    fn clock(&self) -> Option<Duration> {
        Some(self.begun.elapsed())
    }

    fn spare_memory(&self) -> Option<u64> {
        native::memory::free()
    }
}

/// Some work and its progress; a total of 0 is unknown.
struct Shown {
    done: AtomicU64,
    of: AtomicU64,
    what: Mutex<String>,
}

/// The same, as the library tells of it.
struct Watched(Arc<Shown>);

impl Work for Watched {
    fn inc(&self, steps: u64) {
        self.0.done.fetch_add(steps, Ordering::Relaxed);
    }

    fn add(&self, steps: u64) {
        self.0.of.fetch_add(steps, Ordering::Relaxed);
    }

    fn set_length(&self, steps: u64) {
        self.0.of.store(steps, Ordering::Relaxed);
    }

    fn set_position(&self, steps: u64) {
        self.0.done.store(steps, Ordering::Relaxed);
    }

    fn set_message(&self, what: String) {
        *self.0.what.lock().unwrap_or_else(PoisonError::into_inner) = what;
    }
}
