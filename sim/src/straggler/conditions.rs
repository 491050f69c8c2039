//! Weather for the engine: every step of a run is an iteration of its own.

use pipeline::{Costs, Pass, Value};

use super::Stragglers;
use crate::engine::Conditions;

/// One replica of noise over the costs of a pipeline, step by step. Profiles run on through all
/// steps: their time is that of the engine's clock.
#[derive(Clone, Copy, Debug)]
pub struct WeatherConditions<'a> {
    stragglers: &'a Stragglers,
    replica: u64,
    costs: &'a Costs,
}

impl Stragglers {
    /// What the engine meets in `replica`; `costs` are those of its setup, and say how much of a
    /// BW is B and how much W.
    #[must_use]
    pub const fn conditions<'a>(&'a self, replica: u64, costs: &'a Costs) -> WeatherConditions<'a> {
        WeatherConditions { stragglers: self, replica, costs }
    }
}

impl Conditions for WeatherConditions<'_> {
    fn pass(&self, _: u64, stage: usize, pass: Pass, step: u32, start: u64) -> u64 {
        let weather = self.stragglers.weather(self.replica, u64::from(step));
        weather.duration_under(self.costs, stage, pass, start)
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
        let weather = self.stragglers.weather(self.replica, u64::from(step));
        weather.hop_duration(nominal, from, to, value, start)
    }
}
