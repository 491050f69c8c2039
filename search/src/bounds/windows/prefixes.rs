//! Which heads are raised next: those of the B of the first chunk, one microbatch after the other.

use super::passes::Passes;
use super::state::Windows;

/// How often a step that was too long is cut.
const CUTS: u32 = 2;

/// By how much it is cut.
const CUT: i64 = 4;

/// A head that may be raised.
#[derive(Clone, Copy, Debug)]
pub(super) struct Next {
    pub(super) lane: usize,
    pub(super) microbatch: usize,
    /// The pass is to be shown not to start sooner.
    pub(super) start: i64,
}

/// How far the heads are raised.
pub(super) struct Prefixes {
    microbatch: usize,
    /// How far a head is raised at once.
    step: i64,
    cuts: u32,
    first_step: i64,
    /// Every start that matters is a multiple of it.
    tick: i64,
    microbatches: usize,
}

impl Prefixes {
    pub(super) fn of(passes: &Passes) -> Self {
        let times: i64 = passes.lanes[..passes.width].iter().map(|lane| lane.time).sum();
        let tick = passes.tick();
        let step = (times / i64::try_from(passes.width).unwrap_or(1)) / tick * tick;
        let step = step.max(tick);
        let microbatches = passes.microbatches;
        Self { microbatch: 1, step, cuts: 0, first_step: step, tick, microbatches }
    }

    pub(super) fn is_over(&self) -> bool {
        self.microbatch >= self.microbatches
    }

    pub(super) fn next(&self, passes: &Passes, windows: &Windows) -> Option<Next> {
        if self.is_over() {
            return None;
        }
        let (lane, microbatch) = (passes.backwards(0), self.microbatch);
        let head = windows.heads[windows.at(lane, microbatch)];
        Some(Next { lane, microbatch, start: head + self.step })
    }

    /// Whether the last step was shown.
    pub(super) fn tell(&mut self, shown: bool) {
        if shown {
            return;
        }
        (self.cuts, self.step) = (self.cuts + 1, self.step / CUT / self.tick * self.tick);
        if self.cuts == CUTS || self.step == 0 {
            (self.cuts, self.step) = (0, self.first_step);
            self.microbatch += 1;
        }
    }
}
