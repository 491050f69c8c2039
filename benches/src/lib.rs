//! Questions that the benches share, of the size that the published tables ask.

use pipeline::overlap::{
    Chain, Interleaving, Layer, Overlap, Rule, Segment, SegmentName, WeightSegment,
};
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
/// If the question is not a legal one.
#[must_use]
pub fn problem(family: Family, size: Size) -> Problem {
    let chunks = family.about().chunks.of(None);
    let shape = Shape::new(size.stages, chunks, size.microbatches).expect("a legal shape");
    let share = |us: u64| Nanos(us * 1000).share(0, chunks);
    let times = PassTimes::new(share(10_402), share(10_248), share(7_698));
    let (hidden, heads, seq) = (6144, 48, 1024);
    let footprint = Footprint {
        until_backward: Bytes(34 * hidden + 5 * heads * seq).share(0, chunks),
        until_weight: Bytes(32 * hidden).share(0, chunks),
    };
    Problem::new(shape, Costs::uniform(shape, times, Nanos(460_000)))
        .and_then(|problem| problem.with_footprints(Footprints::uniform(shape, footprint)))
        .expect("legal costs")
}

/// The same shape with layers of experts in place of passes of one piece, two or four of them on each
/// stage: a pair hides most of their all-to-all.
///
/// # Panics
/// If the question is not a legal one.
#[must_use]
pub fn overlapped(family: Family, size: Size) -> Problem {
    let shape = problem(family, size).shape();
    let name = |name: &str| name.parse::<SegmentName>().expect("a name");
    let compute = |text: &str, us: u64| Segment::compute(name(text), Nanos(us * 1000));
    let moved = |text: &str, us: u64| Segment::communication(name(text), Nanos(us * 1000));
    let weight = |text: &str, us: u64, behind| WeightSegment { segment: compute(text, us), behind };
    let layer = Layer {
        forward: vec![
            compute("attention", 4370),
            moved("dispatch", 6690),
            compute("experts", 4604),
            moved("combine", 8684),
        ],
        backward: vec![
            moved("combine", 5769),
            compute("experts", 5306),
            moved("dispatch", 7487),
            compute("attention", 9341),
        ],
        weight: vec![weight("experts", 6378, 1), weight("attention", 2389, 3)],
    };
    let chain = Chain::new(Layer::default(), vec![(layer, 2)], Layer::default()).expect("a chain");
    let rule = Rule { interleaving: Interleaving::Published, ..Rule::default() };
    let chains = vec![chain; usize::from(shape.chunks())];
    let overlap = Overlap::new(chains, rule).expect("an order that does not block");
    Problem::new(shape, Costs::overlapped(overlap, Nanos(460_000))).expect("legal costs")
}
