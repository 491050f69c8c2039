//! An instance as the windows see it: passes in lanes, with times, hops, sizes and limits.
//!
//! A *lane* is the passes of one kind and chunk, which run in microbatch order. The lanes of a stage
//! are numbered chunk by chunk, kind by kind; passes are numbered stage by stage, lane by lane,
//! microbatch by microbatch.

use pipeline::{Footprint, Kind, Pass};
use search::{Instance, Objective};

/// The kinds of passes, in the order of the lanes of a chunk.
pub(crate) const KINDS: [Kind; 3] = [Kind::F, Kind::B, Kind::W];

/// The passes of one kind and chunk.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Lane {
    pub(crate) stage: usize,
    pub(crate) chunk: u16,
    pub(crate) kind: Kind,
    pub(crate) time: i64,
    /// The lane whose pass of the same microbatch must have ended some time earlier.
    pub(crate) input: Option<(usize, i64)>,
    /// The lane that waits for this one, with the hop.
    pub(crate) output: Option<(usize, i64)>,
    /// What a pass adds to the memory held before it, at its start or its end, if that is more.
    pub(crate) takes: i64,
}

/// All lanes, and what the stages may hold.
#[derive(Clone, Debug)]
pub(crate) struct Line {
    pub(crate) stages: usize,
    pub(crate) microbatches: usize,
    /// Lanes of each stage.
    pub(crate) width: usize,
    /// Stage by stage.
    pub(crate) lanes: Vec<Lane>,
    /// M_B and M_W of every chunk of every stage, as the lanes lie.
    pub(crate) held: Vec<[i64; 2]>,
    /// By stage; nothing without limits.
    pub(crate) limits: Option<Vec<i64>>,
    pub(crate) makespan: bool,
    /// By stage, pairs of lanes of W that take as long and free as much.
    pub(crate) twins: Vec<Vec<[usize; 2]>>,
}

impl Line {
    /// `instance` must be looped or a V, and checked as [`Instance::new`] does.
    pub(crate) fn of(instance: &Instance) -> Self {
        let Instance { shape, placement, costs, footprints, limits, objective } = instance;
        let width = KINDS.len() * usize::from(shape.chunks_per_stage());
        let places: Vec<Vec<u16>> =
            (0..shape.stages()).map(|stage| placement.chunks_of(*shape, stage).collect()).collect();
        let home = |chunk: u16| placement.stage(*shape, chunk, 0);
        let number = |chunk: u16, kind: usize| {
            let stage = home(chunk);
            let place = places[stage].iter().position(|&one| one == chunk).unwrap_or(0);
            stage * width + KINDS.len() * place + kind
        };
        let last = shape.chunks() - 1;
        let hop = |from: u16, to: u16| signed(costs.hops().between(home(from), home(to)).0);
        let link = |neighbour: Option<u16>, chunk: u16, kind: usize| {
            neighbour.map(|other| (number(other, kind), hop(other, chunk)))
        };
        let mut lanes = Vec::with_capacity(shape.stages() * width);
        let mut held = Vec::new();
        for (stage, chunks) in places.iter().enumerate() {
            for &chunk in chunks {
                let Footprint { until_backward, until_weight } = footprints.of(chunk);
                let [most, rest] = [signed(until_backward.0), signed(until_weight.0)];
                held.push([most, rest]);
                let (below, above) = (chunk.checked_sub(1), Some(chunk + 1).filter(|&c| c <= last));
                let ends = [(below, above, most), (above, below, (rest - most).max(0))];
                let ends = ends.into_iter().chain([(None, None, 0)]);
                for (at, (from, to, takes)) in ends.enumerate() {
                    let kind = KINDS[at];
                    let time = signed(costs.of(Pass { kind, chunk, microbatch: 0 }).0);
                    let (input, output) = (link(from, chunk, at), link(to, chunk, at));
                    lanes.push(Lane { stage, chunk, kind, time, input, output, takes });
                }
            }
        }
        let limits = limits
            .as_ref()
            .map(|limits| limits.by_stage().iter().map(|limit| signed(limit.0)).collect());
        let twins = (0..shape.stages()).map(|stage| twins(&lanes, &held, stage, width)).collect();
        Self {
            stages: shape.stages(),
            microbatches: shape.microbatches() as usize,
            width,
            lanes,
            held,
            limits,
            makespan: *objective == Objective::Makespan,
            twins,
        }
    }

    pub(crate) fn passes(&self) -> usize {
        self.lanes.len() * self.microbatches
    }

    /// The number of the pass of `microbatch` in `lane`.
    pub(crate) fn pass(&self, lane: usize, microbatch: usize) -> usize {
        lane * self.microbatches + microbatch
    }

    /// The pass of that number.
    pub(crate) fn name(&self, number: usize) -> Pass {
        let Lane { chunk, kind, .. } = self.lanes[number / self.microbatches];
        let microbatch = u32::try_from(number % self.microbatches).unwrap_or(u32::MAX);
        Pass { kind, chunk, microbatch }
    }

    /// Whether a pass of lane `one` runs before that of the same microbatch in lane `other` of its
    /// stage, because of the way a microbatch takes: F by chunk, B against it, each W behind its B.
    pub(crate) fn leads(&self, one: usize, other: usize) -> bool {
        let (one, other) = (&self.lanes[one], &self.lanes[other]);
        let last = i32::from(u16::MAX);
        let leg = |kind: Kind, chunk: u16| match kind {
            Kind::F => i32::from(chunk),
            _ => 2 * last + 1 - i32::from(chunk),
        };
        match (one.kind, other.kind) {
            (Kind::W, _) => false,
            (kind, Kind::W) => leg(kind, one.chunk) <= leg(Kind::B, other.chunk),
            (kind, next) => leg(kind, one.chunk) < leg(next, other.chunk),
        }
    }
}

/// The pairs of lanes of W of `stage` that take as long and free as much.
fn twins(lanes: &[Lane], held: &[[i64; 2]], stage: usize, width: usize) -> Vec<[usize; 2]> {
    let kinds = KINDS.len();
    let weights = (stage * width..(stage + 1) * width).step_by(kinds).map(|forward| forward + 2);
    let alike = |&[one, other]: &[usize; 2]| {
        let freed = |lane: usize| held[lane / kinds][1];
        lanes[one].time == lanes[other].time && freed(one) == freed(other)
    };
    let behind = |one: usize| {
        weights.clone().filter(move |&other| one < other).map(move |other| [one, other])
    };
    weights.clone().flat_map(behind).filter(alike).collect()
}

/// A number that [`Instance::new`] has checked, as a signed one. Limits may be larger: none is
/// reached that is.
pub(crate) fn signed(number: u64) -> i64 {
    i64::try_from(number).unwrap_or(i64::MAX / 4).min(i64::MAX / 4)
}
