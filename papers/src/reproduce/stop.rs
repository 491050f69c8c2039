//! Whether an answer is cut short.

use std::sync::atomic::{AtomicBool, Ordering};

use question::Host;

/// Asks the host whether to end, and remembers that work was left out for it.
pub(super) struct Stop<'h> {
    host: &'h dyn Host,
    cut: AtomicBool,
}

impl<'h> Stop<'h> {
    /// Nothing was left out so far.
    pub(super) const fn new(host: &'h dyn Host) -> Self {
        Self { host, cut: AtomicBool::new(false) }
    }

    /// Whether to end. Whoever is told so leaves out what it would have done next.
    pub(super) fn asked(&self) -> bool {
        let asked = self.host.stopped();
        if asked {
            self.cut.store(true, Ordering::Relaxed);
        }
        asked
    }

    /// Whether something was left out.
    pub(super) fn cut_short(&self) -> bool {
        self.cut.load(Ordering::Relaxed)
    }
}
