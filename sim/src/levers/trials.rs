//! Trials of levers: those that change times alone are timed in lanes.

use pipeline::Costs;

use super::{Baseline, Levers, Variant};
use crate::lanes::{CompiledOrder, SCENARIOS, Scenarios};
use crate::simulation::SimulationError;

/// The order of a baseline, and the variants of it that wait for each other.
pub(super) struct Trials<'o> {
    scenarios: Option<Scenarios<&'o CompiledOrder>>,
    waiting: Vec<Variant>,
}

impl<'o> Trials<'o> {
    /// Trials of `order`, the baseline's where lanes can time it.
    pub(super) fn new(order: Option<&'o CompiledOrder>) -> Self {
        Self { scenarios: order.map(Scenarios::new), waiting: Vec::new() }
    }

    /// Tries `variant`, or lets it wait for others; in either case behind all those before it.
    pub(super) fn add(
        &mut self,
        levers: &mut Levers,
        baseline: &Baseline<'_>,
        variant: Variant,
    ) -> Result<(), SimulationError> {
        let same_order = variant.schedule.is_none() && variant.hardware.is_none();
        if self.scenarios.is_none() || !same_order {
            self.finish(levers, baseline)?;
            let step = baseline.step(&variant)?;
            return levers.rank(variant, step);
        }
        self.waiting.push(variant);
        if self.waiting.len() == SCENARIOS { self.finish(levers, baseline) } else { Ok(()) }
    }

    /// Tries all that wait.
    pub(super) fn finish(
        &mut self,
        levers: &mut Levers,
        baseline: &Baseline<'_>,
    ) -> Result<(), SimulationError> {
        let Some(scenarios) = &mut self.scenarios else { return Ok(()) };
        let mut is_set = [false; SCENARIOS];
        for (lane, (variant, is_set)) in self.waiting.iter().zip(&mut is_set).enumerate() {
            let costs: &Costs = variant.costs.as_ref().unwrap_or(baseline.simulation.costs());
            let hop = |from, to, time| variant.links.shorten(time, from, to);
            *is_set = scenarios.set_with(lane, costs, hop).unwrap_or(false);
        }
        let times = if self.waiting.is_empty() { [None; SCENARIOS] } else { scenarios.replay() };
        for ((variant, times), is_set) in self.waiting.drain(..).zip(times).zip(is_set) {
            let step = match times.filter(|_| is_set) {
                Some(times) => times.span,
                None => baseline.step(&variant)?,
            };
            levers.rank(variant, step)?;
        }
        Ok(())
    }
}
