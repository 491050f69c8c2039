//! The step of many microbatches, timed by its steady state.
//!
//! Behind the warm-up of most schedules the same passes come again and again, each time of later microbatches: a round.
//! A round takes the clocks of stages and the values under way from one state to the next by sums and maxima. Once
//! each of these times has grown in some rounds by just as much as in the rounds before, and every maximum was reached by
//! the same term, it goes on so until another term catches up, and how many rounds that takes is known. That many are
//! skipped, and the result is that of [`Replay`](crate::Replay), to the nanosecond.
//!
//! ```
//! use pipeline::{Costs, Family, Nanos, PassTimes, Problem, Shape};
//! use sim::{Replay, Repeating};
//!
//! let ms = Nanos(1_000_000);
//! let problem = |microbatches| {
//!     let shape = Shape::new(4, 1, microbatches)?;
//!     Problem::new(shape, Costs::uniform(shape, PassTimes::new(ms, ms, ms), Nanos(500)))
//! };
//! let (short, long) = (problem(32)?, problem(10_000)?);
//! let (few, all) = (Family::ZbH1.schedule(&short)?, Family::ZbH1.schedule(&long)?);
//! let repeating = Repeating::of(&few, 1, 10_000).expect("its order repeats");
//! let metrics = repeating.metrics(long.costs())?;
//! assert_eq!(metrics, Replay::new().metrics(&all, long.costs())?);
//! # Ok::<(), pipeline::Fault>(())
//! ```

mod rounds;
mod stretch;
#[cfg(test)]
mod tests;

use pipeline::{Costs, Fault, Kind, Metrics, Nanos, Pass, Placement, Schedule, Shape, Slot};

use rounds::Rounds;
use stretch::Stretch;

/// Kinds of passes, up to a power of two.
const KINDS: usize = Kind::ALL.len().next_power_of_two();

/// A step of many microbatches, by an order of few whose middle repeats.
#[derive(Clone, Debug)]
pub struct Repeating {
    /// The pipeline with all microbatches.
    shape: Shape,
    placement: Placement,
    /// Passes before the first round.
    before: Vec<Op>,
    /// One round.
    round: Vec<Op>,
    /// Passes behind the last round; microbatches count as those of a round whose number is 0.
    behind: Vec<Op>,
    /// Number of rounds.
    rounds: u64,
    /// Microbatches of a round.
    period: u32,
    /// The values that are made before a round and read in it or later; microbatches as in `round`.
    live: Vec<Place>,
    /// The places of each row of values, a power of two: no value is lost before it is read.
    columns: u32,
}

/// A pass in a walk over all stages.
#[derive(Clone, Copy, Debug)]
struct Op {
    stage: u32,
    pass: Pass,
    /// The value of another stage that it waits for.
    needs: Place,
    /// The value that another stage waits for.
    makes: Place,
}

/// A value: its row, and its microbatch.
#[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash, Debug)]
struct Place {
    row: u32,
    microbatch: u32,
}

/// The row of what need not be waited for: time 0.
const NOTHING: u32 = 0;
/// The row of what no other stage waits for.
const SINK: u32 = 1;
/// Rows of values begin behind these two.
const VALUES: u32 = 2;

impl Repeating {
    /// The step of `microbatches` whose order is `schedule`, one of fewer, with more rounds of `period` microbatches in its
    /// middle. Nothing where no such round is found, where the difference in microbatches is not a number of whole
    /// rounds, and for orders with streams beside passes, pairs, shards of the vocabulary, recomputation or two copies
    /// of the model.
    ///
    /// Whether an order of more microbatches is this one with more rounds is a property of the family
    /// ([`Family::period`](pipeline::Family::period)).
    #[must_use]
    pub fn of(schedule: &Schedule, period: u32, microbatches: u32) -> Option<Self> {
        let (short, placement) = (schedule.shape(), schedule.placement());
        let is_plain = schedule.has_lone_passes() && !schedule.has_recompute();
        if !is_plain || placement == Placement::Mirrored {
            return None;
        }
        let more = microbatches.checked_sub(short.microbatches())?;
        if period == 0 || more % period != 0 {
            return None;
        }
        let stretch = Stretch::of(schedule, period)?;
        let held = u64::try_from(stretch.rounds()).ok()?;
        let moved = u32::try_from(held).ok()?.checked_mul(period)?;
        // A wrapping difference: what is behind the last round may be of a microbatch before it.
        let back =
            |place: Place| Place { microbatch: place.microbatch.wrapping_sub(moved), ..place };
        let behind = stretch.ops[stretch.end..].iter().map(|op| Op {
            pass: Pass { microbatch: op.pass.microbatch.wrapping_sub(moved), ..op.pass },
            needs: back(op.needs),
            makes: back(op.makes),
            ..*op
        });
        Some(Self {
            shape: short.with_microbatches(microbatches).ok()?,
            placement,
            before: stretch.ops[..stretch.begin].to_vec(),
            round: stretch.ops[stretch.begin..][..stretch.length].to_vec(),
            behind: behind.collect(),
            rounds: held + u64::from(more / period),
            period,
            live: stretch.live(period)?,
            columns: stretch.columns()?,
        })
    }

    /// Number of microbatches.
    #[must_use]
    pub const fn microbatches(&self) -> u32 {
        self.shape.microbatches()
    }

    /// When each stage works under `costs`, those of the same pipeline: as [`Replay::metrics`](crate::Replay::metrics)
    /// of the whole order.
    ///
    /// # Errors
    /// If `costs` are those of another pipeline, or so large that the clock overflows.
    ///
    /// # Panics
    /// If microbatches differ in `costs`.
    pub fn metrics(&self, costs: &Costs) -> Result<Metrics, Fault> {
        assert!(costs.microbatch_work().is_none(), "microbatches that differ do not repeat");
        costs.check(self.shape)?;
        costs.hops().check_placed(self.shape, self.placement)?;
        let mut rounds = Rounds::new(self, costs);
        rounds.all();
        let mut metrics = rounds.metrics();
        for op in self.before.iter().chain(&self.behind) {
            metrics.stages[op.stage as usize].busy += costs.of(op.pass);
        }
        for op in &self.round {
            let all = costs.of(op.pass).0 * self.rounds;
            metrics.stages[op.stage as usize].busy += Nanos(all);
        }
        Ok(metrics)
    }

    /// Time of each step: how long passes of a chunk and kind take, and what they need from another stage.
    fn steps(&self, costs: &Costs) -> Vec<Step> {
        let at = (self.shape, self.placement);
        let mut steps = vec![Step::default(); KINDS * usize::from(self.shape.chunks())];
        for op in self.before.iter().chain(&self.round).chain(&self.behind) {
            let stage = op.stage as usize;
            let pass = Pass { microbatch: 0, ..op.pass };
            let needs = Slot::from(pass).received(at, stage).next();
            steps[step_of(pass)] = Step {
                duration: costs.of(pass).0,
                hop: needs.map_or(0, |value| costs.arrival(value, at, stage).0),
            };
        }
        steps
    }
}

/// The times of passes of a chunk and kind, in nanoseconds.
#[derive(Clone, Copy, Default)]
struct Step {
    duration: u64,
    /// Time of what they need from another stage on its way.
    hop: u64,
}

#[inline]
fn step_of(pass: Pass) -> usize {
    usize::from(pass.chunk) * KINDS + pass.kind as usize
}
