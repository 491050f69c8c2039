//! The steady state of a pipeline that never flushes: how long an update takes in the middle of a
//! run.

use crate::gcd::gcd;
use crate::pass::Kind;
use crate::shape::Shape;
use crate::timeline::{Metrics, Span, StageTimes, Timeline};
use crate::units::Nanos;

/// The run that shows the steady state of p stages that update their weights every m microbatches:
/// it fills, settles, is measured, and drains.
///
/// In 1F1B's order p microbatches are under way on stage 0, and between equal stages what holds the
/// pipeline up is one stage, or the ring of passes and hops around those p: the pattern repeats
/// after p microbatches, and the time of a whole number of updates and of patterns is exact. Between
/// unequal stages a shorter ring may hold it up, and the time is that of the updates measured.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct SteadyState {
    /// Updates before the measured ones: 4p microbatches, rounded up.
    pub lead: u32,
    /// Measured updates: as few as have a multiple of p microbatches, at most p.
    pub measured: u32,
    /// Updates after the measured ones: p microbatches, rounded up.
    pub tail: u32,
}

impl SteadyState {
    /// The run for `stages` stages and `microbatches` microbatches an update, both at least 1.
    #[must_use]
    pub fn of(stages: u64, microbatches: u64) -> Self {
        let count = |updates: u64| u32::try_from(updates).unwrap_or(u32::MAX);
        let updates = |passes: u64| count(passes.div_ceil(microbatches));
        let measured = count(stages / gcd(stages, microbatches));
        Self { lead: updates(stages.saturating_mul(4)), measured, tail: updates(stages) }
    }

    /// Updates of the whole run.
    #[must_use]
    pub const fn updates(self) -> u32 {
        self.lead.saturating_add(self.measured).saturating_add(self.tail)
    }

    /// The mean of the measured updates, for each stage from the start of the first backward of one
    /// update to that of another, where `timeline` is that of the whole run in `shape`. Times are
    /// rounded up, and the clock of each stage starts with its first measured update.
    #[must_use]
    pub fn metrics(self, shape: Shape, timeline: &Timeline) -> Metrics {
        let microbatches = shape.microbatches() / self.updates().max(1);
        let [from, to] = [self.lead, self.lead + self.measured].map(|update| update * microbatches);
        let mean = |time: Nanos| Nanos(time.0.div_ceil(u64::from(self.measured.max(1))));
        let stage = |spans: &Vec<Span>| {
            let [from, to] = [from, to].map(|first| start_of_backward(spans, first));
            let inside = spans.iter().filter(|span| from <= span.start && span.start < to);
            StageTimes {
                first_start: Nanos(0),
                last_end: mean(to - from),
                busy: mean(inside.map(|span| span.end - span.start).sum()),
            }
        };
        Metrics { stages: timeline.stages.iter().map(stage).collect() }
    }
}

/// When the backward of `microbatch` starts on the stage of `spans`; 0 if it has none.
fn start_of_backward(spans: &[Span], microbatch: u32) -> Nanos {
    let is_it = |span: &&Span| {
        span.slot.passes().any(|pass| pass.kind == Kind::BW && pass.microbatch == microbatch)
    };
    spans.iter().find(is_it).map_or(Nanos(0), |span| span.start)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_run_measures_whole_updates_and_whole_patterns() {
        for (stages, microbatches, [lead, measured, tail]) in
            [(4, 8, [2, 1, 1]), (4, 6, [3, 2, 1]), (8, 3, [11, 8, 3]), (1, 5, [1, 1, 1])]
        {
            let steady = SteadyState::of(stages, microbatches);
            assert_eq!(steady, SteadyState { lead, measured, tail });
            assert_eq!(u64::from(measured) * microbatches % stages, 0);
        }
        assert_eq!(SteadyState::of(65_535, 1).updates(), 6 * 65_535);
    }
}
