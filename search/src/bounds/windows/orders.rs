//! Both orders of pairs that windows leave open.
//!
//! Of two passes of a stage one is before the other. If windows contradict each other where the first is
//! before the second, the second is before the first in every order that costs as little; and from that more
//! follows. Of the passes of a lane that may be before or behind another pass, the first and the last are
//! tried: to run behind the first, or before the last, says most.

use super::passes::Passes;
use super::propagate::{End, Propagation};
use super::state::Windows;

/// A pass, as lane and microbatch.
pub(super) type Place = (usize, usize);

/// The pairs that are tried.
pub(super) struct Trials<'a> {
    pub(super) passes: &'a Passes,
    /// Number of steps that may still be made.
    pub(super) left: u64,
    /// The pairs of which the first was shown not to be before the second.
    pub(super) shown: Vec<[Place; 2]>,
    /// Whether the caller wants to stop.
    pub(super) stop: &'a dyn Fn() -> bool,
}

impl Trials<'_> {
    /// Tries the pairs of all stages until windows contradict each other or nothing more follows.
    pub(super) fn refute(&mut self, mut windows: Windows) -> Result<(), End> {
        let width = self.passes.width;
        loop {
            let before = self.shown.len();
            for stage in (0..self.passes.stages()).rev() {
                let lanes = stage * width..(stage + 1) * width;
                let lanes: Vec<usize> =
                    lanes.filter(|&lane| !self.passes.lanes[lane].is_empty).collect();
                for &own in &lanes {
                    for k in 0..windows.microbatches {
                        for &lane in lanes.iter().filter(|&&lane| lane != own) {
                            windows = self.pair(windows, (own, k), lane)?;
                        }
                    }
                }
            }
            if self.shown.len() == before {
                return Ok(());
            }
        }
    }

    /// Tries `pass` before the first pass of a lane that need not be before it.
    fn pair(&mut self, mut windows: Windows, pass: Place, lane: usize) -> Result<Windows, End> {
        let passes = self.passes;
        loop {
            let [own, local] = [pass.0, lane].map(|lane| lane % passes.width);
            let first = windows.row(passes, pass.0, pass.1)[local] as usize;
            let is_open = first < windows.microbatches
                && windows.row(passes, lane, first)[own] as usize <= pass.1;
            if !is_open {
                return Ok(windows);
            }
            let mut assumed = windows.clone();
            assumed.put_before(passes, pass, (lane, first));
            match self.run(assumed, pass.0 / passes.width).1 {
                Ok(()) => return Ok(windows),
                Err(End::Spent) => return Err(End::Spent),
                Err(End::Empty) => {}
            }
            self.shown.push([pass, (lane, first)]);
            windows.put_before(passes, (lane, first), pass);
            let (narrower, end) = self.run(windows, pass.0 / passes.width);
            end?;
            windows = narrower;
        }
    }

    fn run(&mut self, windows: Windows, stage: usize) -> (Windows, Result<(), End>) {
        let mut propagation = Propagation::new(self.passes, windows, self.left, self.stop);
        propagation.look_only_at(stage);
        let end = propagation.run();
        self.left = propagation.left;
        (propagation.windows, end)
    }
}
