//! Predicts the steps of a run from other durations of its operations.

use pipeline::Nanos;

use super::{Run, Step};
use crate::hops::{self, Edge};
use crate::times::Times;

impl Run {
    /// Duration of each step if its operations take `times`: from the moment at which all ranks
    /// begin to the end of the last operation of any.
    #[must_use]
    pub fn predict(&self, times: &Times) -> Vec<Nanos> {
        self.predict_with(times, &self.hops)
    }

    /// Duration of each step as [`Self::predict`] says, but with hops that are estimated from
    /// other steps than it: every second one from the rest, and those from it. None where no hops
    /// are estimated, or there is one step.
    #[must_use]
    pub fn predict_held_out(&self, times: &Times) -> Option<Vec<Nanos>> {
        let edges = self.edges();
        if edges.len() < 2 || edges.iter().all(|edges| edges.is_empty()) {
            return None;
        }
        let every_second = |first: usize| -> Vec<&[Edge]> {
            edges.iter().skip(first).step_by(2).copied().collect()
        };
        let [even, odd] = [0, 1].map(every_second);
        let mut hops = vec![Vec::new(); edges.len()];
        for (first, predicted, learned) in [(0, &even, &odd), (1, &odd, &even)] {
            let estimated = hops::estimate(predicted, learned);
            hops.iter_mut()
                .skip(first)
                .step_by(2)
                .zip(estimated)
                .for_each(|(hops, new)| *hops = new);
        }
        Some(self.predict_with(times, &hops))
    }

    fn predict_with(&self, times: &Times, hops: &[Vec<u64>]) -> Vec<Nanos> {
        let of = |(step, hops): (&Step, &Vec<u64>)| {
            let range = step.operations.clone();
            let launch = times.launch.get(range.clone()).unwrap_or_default();
            let hops = if times.free_links { &[][..] } else { hops };
            Nanos(step.graph.predict(&times.own[range], launch, hops))
        };
        self.steps.iter().zip(hops).map(of).collect()
    }
}
