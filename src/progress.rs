//! Progress of long work, on stderr: a bar where a person watches a terminal, else a line now and
//! then. Nothing that takes over two seconds is silent.

use std::io::{IsTerminal, stderr};
use std::sync::atomic::{AtomicU64, AtomicUsize, Ordering};
use std::sync::mpsc::{self, Receiver, RecvTimeoutError, Sender};
use std::sync::{Arc, Mutex, PoisonError};
use std::thread::{self, JoinHandle};
use std::time::{Duration, Instant};

use indicatif::{ProgressBar, ProgressDrawTarget, ProgressStyle};

use question::format::length;

use crate::messages;

/// Work that ends before it needs no line.
const FIRST: Duration = Duration::from_secs(2);
/// The least time between two lines.
const LEAST_GAP: Duration = Duration::from_secs(5);
/// How far some work is; shown until it is dropped.
pub struct Progress(Shown);

/// Number of live progress displays: while there is one, no other sign of life is needed.
static ALIVE: AtomicUsize = AtomicUsize::new(0);

enum Shown {
    /// Another process shows it.
    Nothing,
    Bar {
        bar: ProgressBar,
        printer: Option<Printer>,
    },
    Lines {
        count: Arc<Count>,
        printer: Option<Printer>,
    },
}

/// A thread that shows progress until it is dropped.
struct Printer(Option<(Sender<()>, JoinHandle<()>)>);

impl Printer {
    /// Runs `print`, which ends once nothing can be received. Without a thread the work is silent, and done all the same.
    fn start(print: impl FnOnce(&Receiver<()>) + Send + 'static) -> Option<Self> {
        let (stop, stopped) = mpsc::channel();
        let thread =
            thread::Builder::new().name("progress".to_owned()).spawn(move || print(&stopped));
        thread.ok().map(|thread| Self(Some((stop, thread))))
    }
}

impl Drop for Printer {
    fn drop(&mut self) {
        let Some((stop, thread)) = self.0.take() else { return };
        drop(stop);
        // A thread that broke down printed what it could.
        let _ = thread.join();
    }
}

/// Progress over `steps` of `what`.
pub fn bar(steps: u64, what: &str) -> Progress {
    begin(steps, 0, what, "{spinner} {wide_bar} {pos}/{len} {msg}, {eta} left")
}

/// Progress over `total` of `what`, of which `done` were done before, with its rate.
pub fn rated_bar(total: u64, done: u64, what: &str) -> Progress {
    begin(total, done, what, "{spinner} {wide_bar} {pos}/{len} {msg}, {per_sec}, {eta} left")
}

/// Progress that another process shows.
pub fn hidden() -> Progress {
    ALIVE.fetch_add(1, Ordering::Relaxed);
    Progress(Shown::Nothing)
}

/// Says now and then that the program still works, while nothing shows how far it is.
pub fn watch() {
    let print = || {
        let (begun, mut due) = (Instant::now(), FIRST);
        let mut quiet_since = Duration::ZERO;
        loop {
            thread::sleep(FIRST / 8);
            let elapsed = begun.elapsed();
            if ALIVE.load(Ordering::Relaxed) > 0 {
                (quiet_since, due) = (elapsed, elapsed + FIRST);
            } else if elapsed >= due {
                messages::progress(&format!("working, {} so far", length(elapsed)));
                due = elapsed + gap(elapsed.saturating_sub(quiet_since));
            }
        }
    };
    // Without a thread the work is silent, and done all the same.
    let _ = thread::Builder::new().name("watch".to_owned()).spawn(print);
}

fn begin(total: u64, done: u64, what: &str, template: &str) -> Progress {
    ALIVE.fetch_add(1, Ordering::Relaxed);
    if !stderr().is_terminal() {
        return Progress(lines(Count::new(total, done, what)));
    }
    let bar = ProgressBar::with_draw_target(Some(total), ProgressDrawTarget::hidden());
    let bar = bar.with_position(done);
    if let Ok(style) = ProgressStyle::with_template(template) {
        bar.set_style(style);
    }
    bar.set_message(what.to_owned());
    bar.reset_eta();
    let hidden = bar.clone();
    // Work that ends before shows no bar.
    let printer = Printer::start(move |stopped| {
        if stopped.recv_timeout(FIRST) == Err(RecvTimeoutError::Timeout) {
            hidden.set_draw_target(ProgressDrawTarget::stderr_with_hz(1));
            hidden.enable_steady_tick(FIRST);
        }
    });
    Progress(Shown::Bar { bar, printer })
}

/// Prints lines about `count` from a thread of their own, so that a step that takes long is not silent
/// either.
fn lines(count: Count) -> Shown {
    let count = Arc::new(count);
    let watched = Arc::clone(&count);
    let print = move |stopped: &Receiver<()>| {
        let begun = Instant::now();
        let mut due = FIRST;
        while stopped.recv_timeout(due.saturating_sub(begun.elapsed()))
            == Err(RecvTimeoutError::Timeout)
        {
            let elapsed = begun.elapsed();
            messages::progress(&watched.line(elapsed));
            due = elapsed + gap(elapsed);
        }
    };
    Shown::Lines { count, printer: Printer::start(print) }
}

/// How long to wait for the next line after one at `elapsed`: the longer work takes, the longer.
fn gap(elapsed: Duration) -> Duration {
    LEAST_GAP.max(elapsed / 10)
}

/// The count of how much of some work is done.
struct Count {
    done: AtomicU64,
    of: AtomicU64,
    /// The work done before it began here.
    before: u64,
    what: Mutex<String>,
}

impl Count {
    fn new(of: u64, before: u64, what: &str) -> Self {
        let what = Mutex::new(what.to_owned());
        Self { done: AtomicU64::new(before), of: AtomicU64::new(of), before, what }
    }

    /// The progress line after `elapsed`.
    fn line(&self, elapsed: Duration) -> String {
        let [done, of] = [&self.done, &self.of].map(|count| count.load(Ordering::Relaxed));
        let what = self.what.lock().unwrap_or_else(PoisonError::into_inner);
        // Where the total is not known in advance, the count may exceed the announced total.
        if done > of {
            return format!("{done} {what}, {} so far", length(elapsed));
        }
        let here = done.saturating_sub(self.before);
        if here == 0 {
            return format!("{done} of {of} {what}, {} so far", length(elapsed));
        }
        #[allow(clippy::cast_precision_loss)]
        let left = elapsed.mul_f64((of - done) as f64 / here as f64);
        format!("{done} of {of} {what}, about {} left", length(left))
    }
}

impl Progress {
    /// So many steps more are done.
    pub fn inc(&self, steps: u64) {
        match &self.0 {
            Shown::Nothing => {}
            Shown::Bar { bar, .. } => bar.inc(steps),
            Shown::Lines { count, .. } => drop(count.done.fetch_add(steps, Ordering::Relaxed)),
        }
    }

    /// So many steps more are to be done than was known.
    pub fn add(&self, steps: u64) {
        match &self.0 {
            Shown::Nothing => {}
            Shown::Bar { bar, .. } => bar.inc_length(steps),
            Shown::Lines { count, .. } => drop(count.of.fetch_add(steps, Ordering::Relaxed)),
        }
    }

    /// So many steps are to be done.
    pub fn set_length(&self, steps: u64) {
        match &self.0 {
            Shown::Nothing => {}
            Shown::Bar { bar, .. } => bar.set_length(steps),
            Shown::Lines { count, .. } => count.of.store(steps, Ordering::Relaxed),
        }
    }

    /// So many steps are done.
    pub fn set_position(&self, steps: u64) {
        match &self.0 {
            Shown::Nothing => {}
            Shown::Bar { bar, .. } => bar.set_position(steps),
            Shown::Lines { count, .. } => count.done.store(steps, Ordering::Relaxed),
        }
    }

    /// The work that is being done.
    pub fn set_message(&self, what: String) {
        match &self.0 {
            Shown::Nothing => {}
            Shown::Bar { bar, .. } => bar.set_message(what),
            Shown::Lines { count, .. } => {
                *count.what.lock().unwrap_or_else(PoisonError::into_inner) = what;
            }
        }
    }

    /// The work is over.
    pub fn finish_and_clear(self) {
        drop(self);
    }
}

impl Drop for Progress {
    fn drop(&mut self) {
        ALIVE.fetch_sub(1, Ordering::Relaxed);
        match &mut self.0 {
            Shown::Nothing => {}
            Shown::Bar { bar, printer } => {
                drop(printer.take());
                bar.finish_and_clear();
            }
            Shown::Lines { printer, .. } => drop(printer.take()),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const fn seconds(count: u64) -> Duration {
        Duration::from_secs(count)
    }

    #[test]
    fn a_line_says_what_is_done_and_how_long_the_rest_takes() {
        let count = Count::new(1000, 0, "replicas");
        assert_eq!(count.line(seconds(2)), "0 of 1000 replicas, 2 s so far");
        count.done.store(250, Ordering::Relaxed);
        assert_eq!(count.line(seconds(20)), "250 of 1000 replicas, about 60 s left");
        assert_eq!(count.line(seconds(200)), "250 of 1000 replicas, about 10 min left");
        count.done.store(1000, Ordering::Relaxed);
        assert_eq!(count.line(seconds(80)), "1000 of 1000 replicas, about 0 s left");
        // An earlier run did half: its time is not counted.
        let count = Count::new(100, 50, "questions");
        assert_eq!(count.line(seconds(3)), "50 of 100 questions, 3 s so far");
        count.done.store(75, Ordering::Relaxed);
        assert_eq!(count.line(seconds(10)), "75 of 100 questions, about 10 s left");
        let count = Count::new(1, 0, "passes");
        count.done.store(5_000, Ordering::Relaxed);
        assert_eq!(count.line(seconds(7)), "5000 passes, 7 s so far");
    }

    #[test]
    fn lines_come_every_few_seconds_at_most_and_ever_more_seldom() {
        let (mut at, mut count) = (FIRST, 1);
        while at < seconds(3600) {
            let next = at + gap(at);
            assert!(next - at >= seconds(5));
            (at, count) = (next, count + 1);
        }
        assert!((30..60).contains(&count), "{count}");
    }
}
