//! Questions that the benches share, of the size that the published tables ask.

use pipeline::{Bytes, Costs, Family, Footprint, Footprints, Nanos, PassTimes, Problem, Shape};

/// Stages and microbatches of a question.
#[derive(Clone, Copy, Debug)]
pub struct Size {
    /// Stages, p.
    pub stages: u64,
    /// Microbatches, m.
    pub microbatches: u64,
}

/// The largest setting of the paper, 28.3B.
pub const FULL: Size = Size { stages: 32, microbatches: 256 };

/// The 28.3B model of table 5 of the Zero Bubble paper, cut for `family`.
///
/// # Panics
/// If the question is no legal one.
#[must_use]
pub fn problem(family: Family, size: Size) -> Problem {
    let chunks = family.about().chunks.of(None);
    let shape = Shape::new(size.stages, chunks, size.microbatches).expect("a legal shape");
    let share = |us: u64| Nanos(us * 1000).share(0, chunks);
    let times = PassTimes {
        forward: share(10_402),
        backward_input: share(10_248),
        backward_weight: share(7_698),
    };
    let (hidden, heads, seq) = (6144, 48, 1024);
    let footprint = Footprint {
        until_backward: Bytes(34 * hidden + 5 * heads * seq).share(0, chunks),
        until_weight: Bytes(32 * hidden).share(0, chunks),
    };
    Problem::new(shape, Costs::uniform(shape, times, Nanos(460_000)))
        .and_then(|problem| problem.with_footprints(Footprints::uniform(shape, footprint)))
        .expect("legal costs")
}
