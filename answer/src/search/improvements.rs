//! The best costs of a search, from its beginning to its end.

use std::sync::{Mutex, PoisonError};

use pipeline::Nanos;
use question::{Host, Improvement};
use search::Milestone;

/// The improvements of one search, which the host hears of as they come.
pub(super) struct Improvements<'h> {
    host: Option<&'h dyn Host>,
    /// The number of the search.
    search: usize,
    seen: Mutex<Seen>,
}

#[derive(Default)]
struct Seen {
    all: Vec<Milestone>,
    bound: Option<Nanos>,
    steps: u64,
}

impl<'h> Improvements<'h> {
    pub(super) fn of(host: &'h dyn Host, search: usize) -> Self {
        Self { host: Some(host), search, seen: Mutex::default() }
    }

    /// Those of a search that is only a part of another.
    pub(super) fn unheard() -> Self {
        Self { host: None, search: 0, seen: Mutex::default() }
    }

    /// Takes in what the search has by now: its best cost, the bound if one is known, and its steps.
    pub(super) fn see(&self, cost: Nanos, bound: Option<Nanos>, steps: u64) {
        let mut seen = self.seen.lock().unwrap_or_else(PoisonError::into_inner);
        seen.steps = seen.steps.max(steps);
        seen.bound = bound.or(seen.bound);
        if seen.all.last().is_some_and(|last| last.cost <= cost) {
            return;
        }
        let (bound, steps) = (seen.bound, seen.steps);
        seen.all.push(Milestone { steps, cost, bound });
        drop(seen);
        if let Some(host) = self.host {
            host.improved(Improvement { search: self.search, cost, bound, steps });
        }
    }

    /// Takes in a cost that was found without further steps of the search.
    pub(super) fn see_beside(&self, cost: Nanos, bound: Option<Nanos>) {
        self.see(cost, bound, 0);
    }

    /// Every improvement with the steps by then, and what there is after the last step.
    pub(super) fn history(self) -> Vec<Milestone> {
        let Seen { mut all, steps, bound } =
            self.seen.into_inner().unwrap_or_else(PoisonError::into_inner);
        let is_later = |last: &&Milestone| last.steps < steps || last.bound < bound;
        let end = all.last().filter(is_later).map(|last| Milestone { steps, bound, ..*last });
        all.extend(end);
        all
    }
}
