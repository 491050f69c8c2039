//! One order in many scenarios at once.
//!
//! A [`CompiledOrder`] is a schedule as a list of operations, in which every value is made before it is used and its
//! place is free again once it has been read: an order of any length stays in the cache. Each operation is timed in
//! several scenarios, the lanes, by the same instructions.
//!
//! Lanes count whole nanoseconds in floats. Sums of whole numbers are exact below 2^53, and rounding keeps the order of
//! numbers: if the makespan of a lane, times the stages, is below 2^51, so was everything before it. A lane beyond
//! that has no result, and is timed by [`Replay`](crate::Replay) or [`timed`](crate::timed), which do not round.

mod noisy;
mod order;
mod scenarios;

#[cfg(test)]
mod tests;

use pipeline::{Metrics, Nanos};

pub use noisy::{NoisyOrder, NoisyTables, REPLICAS};
pub use order::CompiledOrder;
pub use scenarios::{SCENARIOS, Scenarios};

/// Busy times of all stages together, and durations before they are rounded, are exact below this many nanoseconds.
const EXACT: f64 = (1u64 << 51) as f64;

/// One number for each of `W` lanes, whole vectors apart.
#[derive(Clone, Copy)]
#[repr(align(32))]
struct Lanes<const W: usize>([f64; W]);

impl<const W: usize> Lanes<W> {
    const ZERO: Self = Self([0.0; W]);
}

/// The later of two times; neither is NaN.
#[inline(always)]
fn later(one: f64, other: f64) -> f64 {
    if one > other { one } else { other }
}

/// How long a step takes.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct StepTimes {
    /// [`Metrics::span`].
    pub span: Nanos,
    /// [`Metrics::makespan`].
    pub makespan: Nanos,
    /// Sum of all slots of all stages, in nanoseconds.
    pub busy: u128,
    /// Number of stages.
    pub stages: usize,
}

impl StepTimes {
    /// Share of `cost` in which the average stage waits, as [`Metrics::bubble_rate_of`].
    #[must_use]
    pub fn bubble_rate_of(&self, cost: Nanos) -> f64 {
        pipeline::bubble_rate(cost, self.stages, self.busy)
    }

    /// Busy time of the average stage, rounded down, as [`Metrics::work`].
    #[must_use]
    pub fn work(&self) -> Nanos {
        pipeline::mean_busy(self.stages, self.busy)
    }
}

impl From<&Metrics> for StepTimes {
    fn from(metrics: &Metrics) -> Self {
        Self {
            span: metrics.span(),
            makespan: metrics.makespan(),
            busy: metrics.total_busy(),
            stages: metrics.stages.len(),
        }
    }
}

/// The clocks of an order that is timed.
struct Clocks<const W: usize> {
    /// When each stage is free.
    free: Vec<Lanes<W>>,
    /// When values were made, and stages began.
    made: Vec<Lanes<W>>,
}

impl<const W: usize> Clocks<W> {
    fn new(order: &CompiledOrder) -> Self {
        let row = |count| vec![Lanes::ZERO; count];
        Self { free: row(order.stages), made: row(order.slots) }
    }

    /// Span and makespan of each lane; nothing where they may not be exact.
    #[allow(clippy::cast_precision_loss, clippy::cast_possible_truncation, clippy::cast_sign_loss)]
    fn ends(&self) -> [Option<[Nanos; 2]>; W] {
        let begun = &self.made[order::BEGUN as usize..];
        let of = |lane: usize| {
            let (mut span, mut makespan) = (0.0, 0.0);
            for (end, begin) in self.free.iter().zip(begun) {
                span = later(end.0[lane] - begin.0[lane], span);
                makespan = later(end.0[lane], makespan);
            }
            let exact = makespan * self.free.len() as f64 <= EXACT;
            exact.then_some([span, makespan].map(|time| Nanos(time as u64)))
        };
        std::array::from_fn(of)
    }
}
