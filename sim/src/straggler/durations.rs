//! NoiseSample for the engine: every step of a run is an iteration of its own.

use pipeline::{Costs, Pass, Value};

use super::Stragglers;
use crate::engine::Durations;

/// One replica of noise over the costs of a pipeline, step by step. Profiles run on through all
/// steps: their time is that of the engine's clock.
#[derive(Clone, Copy, Debug)]
pub struct NoisyDurations<'a> {
    stragglers: &'a Stragglers,
    replica: u64,
    costs: &'a Costs,
}

impl Stragglers {
    /// The durations that the engine uses in `replica`; `costs` are those of its job, and say how
    /// much of a BW is B and how much W.
    #[must_use]
    pub const fn durations<'a>(&'a self, replica: u64, costs: &'a Costs) -> NoisyDurations<'a> {
        NoisyDurations { stragglers: self, replica, costs }
    }
}

impl Durations for NoisyDurations<'_> {
    fn pass(&self, _: u64, stage: usize, pass: Pass, step: u32, start: u64) -> u64 {
        let sample = self.stragglers.sample(self.replica, u64::from(step));
        sample.duration_under(self.costs, stage, pass, start)
    }

    fn hop(
        &self,
        nominal: u64,
        value: Value,
        from: usize,
        to: usize,
        step: u32,
        start: u64,
    ) -> u64 {
        let sample = self.stragglers.sample(self.replica, u64::from(step));
        sample.hop_duration(nominal, from, to, value, start)
    }
}
