//! An instance compiled for windows and program: passes in lanes, with times, hops, sizes and limits.
//!
//! A *lane* is the passes of one kind and chunk, which run in microbatch order. The lanes of a stage
//! are numbered chunk by chunk, kind by kind; passes are numbered stage by stage, lane by lane,
//! microbatch by microbatch. R has a lane behind the others of its chunk where that recomputes.

use std::ops::Range;

use pipeline::{Footprint, Kind, Pass};
use search::{Instance, Objective};

/// The kinds of passes, in the order of the lanes of a chunk.
pub(crate) const KINDS: [Kind; 4] = [Kind::F, Kind::B, Kind::W, Kind::R];

/// The passes of one kind and chunk.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Lane {
    pub(crate) stage: usize,
    /// Which of the lanes of its stage it is.
    pub(crate) place: usize,
    pub(crate) chunk: u16,
    pub(crate) kind: Kind,
    pub(crate) time: i64,
    /// The lane whose pass of the same microbatch must have ended some time earlier.
    pub(crate) input: Option<(usize, i64)>,
    /// The lane that waits for this one, with the hop.
    pub(crate) output: Option<(usize, i64)>,
    /// The lane of its own chunk whose pass of the same microbatch runs before.
    pub(crate) behind: Option<usize>,
    /// Peak memory that a pass adds to what was held before it, at its start or its end.
    pub(crate) takes: i64,
    /// Net change of the memory held, from before the pass to after its end.
    pub(crate) leaves: i64,
}

/// A chunk of a stage.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Home {
    /// The lane of F; those of B and W are the next.
    pub(crate) forward: usize,
    /// The lane of R.
    pub(crate) again: Option<usize>,
    /// Allocated by F, allocated by R, and M_W.
    pub(crate) held: [i64; 3],
}

/// All lanes, and the memory limits of the stages.
#[derive(Clone, Debug)]
pub(crate) struct CompiledInstance {
    pub(crate) stages: usize,
    pub(crate) microbatches: usize,
    /// The most lanes of a stage.
    pub(crate) width: usize,
    /// Stage by stage.
    pub(crate) lanes: Vec<Lane>,
    /// By stage, its first lane; and the number of all.
    firsts: Vec<usize>,
    /// By stage, its chunks in model order.
    pub(crate) homes: Vec<Vec<Home>>,
    /// By stage; nothing without limits.
    pub(crate) limits: Option<Vec<i64>>,
    pub(crate) makespan: bool,
    /// By stage, pairs of lanes of W that take as long and free as much.
    pub(crate) twins: Vec<Vec<[usize; 2]>>,
    /// By stage, the passes whose order is open, with their lanes: all, if not a neighbourhood.
    pub(crate) open: Vec<Vec<(usize, usize)>>,
}

impl CompiledInstance {
    /// `instance` must be looped or a V, and checked as [`Instance::new`] does.
    pub(crate) fn of(instance: &Instance) -> Self {
        let Instance { shape, placement, limits, objective, .. } = instance;
        let limits = limits
            .as_ref()
            .map(|limits| limits.by_stage().iter().map(|limit| signed(limit.0)).collect());
        let mut compiled = Self {
            stages: shape.stages(),
            microbatches: shape.microbatches() as usize,
            width: 0,
            lanes: Vec::new(),
            firsts: vec![0],
            homes: Vec::new(),
            limits,
            makespan: *objective == Objective::Makespan,
            twins: Vec::new(),
            open: Vec::new(),
        };
        for stage in 0..shape.stages() {
            let chunks = placement.chunks_of(*shape, stage);
            let homes = chunks.map(|chunk| compiled.add(instance, stage, chunk)).collect();
            compiled.homes.push(homes);
            compiled.firsts.push(compiled.lanes.len());
            compiled.width = compiled.width.max(compiled.lanes_of(stage).len());
        }
        compiled.connect(instance);
        compiled.twins = (0..compiled.stages).map(|stage| compiled.twins_of(stage)).collect();
        compiled.open = (0..compiled.stages).map(|stage| compiled.passes_of(stage)).collect();
        compiled
    }

    /// Adds the lanes of `chunk`.
    fn add(&mut self, instance: &Instance, stage: usize, chunk: u16) -> Home {
        let Instance { costs, footprints, .. } = instance;
        let Footprint { until_backward, until_weight } = footprints.of(chunk);
        let kept = footprints.kept(chunk).unwrap_or(until_backward);
        let [most, waiting, kept] = [until_backward, until_weight, kept].map(|size| signed(size.0));
        let recomputes = costs.recompute(chunk).is_some();
        let forward = self.lanes.len();
        let again = recomputes.then_some(forward + 3);
        let lanes = [
            (None, [kept, kept]),
            (again.or(Some(forward)), [(waiting - most).max(0), waiting - most]),
            (Some(forward + 1), [0, -waiting]),
            (Some(forward), [most - kept; 2]),
        ];
        let lanes = KINDS.into_iter().zip(lanes).take(3 + usize::from(recomputes));
        for (kind, (behind, [takes, leaves])) in lanes {
            let place = self.lanes.len() - self.firsts[stage];
            let time = signed(costs.of(Pass { kind, chunk, microbatch: 0 }).0);
            let [input, output] = [None; 2];
            self.lanes.push(Lane {
                stage,
                place,
                chunk,
                kind,
                time,
                input,
                output,
                behind,
                takes,
                leaves,
            });
        }
        Home { forward, again, held: [kept, most - kept, waiting] }
    }

    /// Sets the input and output of every lane.
    fn connect(&mut self, instance: &Instance) {
        let mut forwards = vec![(0, 0); usize::from(instance.shape.chunks())];
        for (number, lane) in self.lanes.iter().enumerate().filter(|(_, lane)| lane.kind == Kind::F)
        {
            forwards[usize::from(lane.chunk)] = (number, lane.stage);
        }
        for pair in forwards.windows(2) {
            let [(lower, from), (upper, to)] = [pair[0], pair[1]];
            let hop = |from, to| signed(instance.costs.hops().between(from, to).0);
            let links = [(lower, upper, hop(from, to)), (upper + 1, lower + 1, hop(to, from))];
            for (early, late, hop) in links {
                self.lanes[early].output = Some((late, hop));
                self.lanes[late].input = Some((early, hop));
            }
        }
    }

    pub(crate) fn lanes_of(&self, stage: usize) -> Range<usize> {
        self.firsts[stage]..self.firsts[stage + 1]
    }

    pub(crate) fn passes(&self) -> usize {
        self.lanes.len() * self.microbatches
    }

    /// The number of the pass of `microbatch` in `lane`.
    pub(crate) fn pass(&self, lane: usize, microbatch: usize) -> usize {
        lane * self.microbatches + microbatch
    }

    /// All passes of `stage`, with their lanes.
    pub(crate) fn passes_of(&self, stage: usize) -> Vec<(usize, usize)> {
        let of = |lane| (0..self.microbatches).map(move |i| (lane, self.pass(lane, i)));
        self.lanes_of(stage).flat_map(of).collect()
    }

    /// The lane of a pass, by its number.
    pub(crate) fn lane_of(&self, pass: usize) -> &Lane {
        &self.lanes[pass / self.microbatches]
    }

    /// The pass of that number.
    pub(crate) fn name(&self, number: usize) -> Pass {
        let Lane { chunk, kind, .. } = self.lanes[number / self.microbatches];
        let microbatch = u32::try_from(number % self.microbatches).unwrap_or(u32::MAX);
        Pass { kind, chunk, microbatch }
    }

    /// Whether the dependencies of a microbatch make its pass of lane `one` run before that of lane `other` of the
    /// same stage: F by chunk, B against it, each W behind its B, each R between F
    /// and B.
    pub(crate) fn leads(&self, one: usize, other: usize) -> bool {
        let (one, other) = (&self.lanes[one], &self.lanes[other]);
        match (one.kind, other.kind) {
            (Kind::F, Kind::F) => one.chunk < other.chunk,
            (Kind::F, Kind::R) => one.chunk <= other.chunk,
            (Kind::F, _) => true,
            (Kind::B, Kind::B) => one.chunk > other.chunk,
            (Kind::R, Kind::B | Kind::W) | (Kind::B, Kind::W) => one.chunk >= other.chunk,
            _ => false,
        }
    }

    /// The pairs of lanes of W of `stage` that take as long and free as much.
    fn twins_of(&self, stage: usize) -> Vec<[usize; 2]> {
        let weights: Vec<usize> = self.homes[stage].iter().map(|home| home.forward + 2).collect();
        let alike = |[one, other]: &[usize; 2]| {
            let of = |lane: usize| (self.lanes[lane].time, self.lanes[lane].leaves);
            of(*one) == of(*other)
        };
        let behind =
            |at: usize| weights[at + 1..].iter().map(|&other| [weights[at], other]).collect();
        let pairs = (0..weights.len()).flat_map(|at| -> Vec<[usize; 2]> { behind(at) });
        pairs.filter(alike).collect()
    }
}

/// A number that [`Instance::new`] has checked, as a signed one. Limits may be larger, and are clamped: no stage reaches
/// such a limit.
pub(crate) fn signed(number: u64) -> i64 {
    i64::try_from(number).unwrap_or(i64::MAX / 4).min(i64::MAX / 4)
}
