//! When a chain of a search ends before its steps are spent.

use std::sync::atomic::{AtomicUsize, Ordering};

/// Tells a chain when to end before its steps are spent.
pub(crate) struct Halt<'a> {
    /// Whether the caller wants the search to stop.
    pub(crate) stop: &'a (dyn Fn() -> bool + Sync),
    /// The lowest number of a chain that has reached the goal: the result no longer depends on chains
    /// with higher numbers.
    pub(crate) solved: &'a AtomicUsize,
    /// The number of this chain.
    pub(crate) number: usize,
}

impl Halt<'_> {
    pub(crate) fn now(&self) -> bool {
        self.solved.load(Ordering::Relaxed) < self.number || (self.stop)()
    }

    pub(crate) fn solved(&self) {
        self.solved.fetch_min(self.number, Ordering::Relaxed);
    }
}
