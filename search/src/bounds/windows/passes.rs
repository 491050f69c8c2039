//! The passes of all stages in flat arrays, and what they wait for.

use pipeline::{Kind, Pass, Placement};

use super::ways::{Chunk, Way, ways};
use crate::{Instance, Objective};

/// The kinds of passes in the order of the lanes of a chunk.
const KINDS: [Kind; 3] = [Kind::F, Kind::B, Kind::W];

/// A cost so high that no window is narrow: half of it is more than all passes take one after the
/// other.
pub(super) const NEVER: i64 = i64::MAX / 8;

/// The most pairs of passes of a stage, over all stages: more are not looked at.
const MOST_PAIRS: usize = 1 << 28;

/// The most ways to make room that are kept.
const MOST_WAYS: usize = 1 << 23;

/// The passes of one kind and chunk, which run in the order of their microbatches.
#[derive(Clone, Copy)]
pub(super) struct Lane {
    pub(super) time: i64,
    /// The lane whose pass of the same microbatch must have started so long before.
    pub(super) input: Option<(usize, i64)>,
    /// The lane that takes what this one makes, with the time from start to start.
    pub(super) output: Option<(usize, i64)>,
}

/// The passes of all stages. A stage has three lanes for each chunk in model order, F, B and W; a pass
/// is the place of its microbatch in its lane.
pub(super) struct Passes {
    pub(super) lanes: Vec<Lane>,
    /// Lanes of a stage.
    pub(super) width: usize,
    pub(super) microbatches: usize,
    pub(super) makespan: bool,
    /// By stage, when its first F arrives.
    pub(super) begins: Vec<i64>,
    /// By chunk of the model, its F lane.
    homes: Vec<usize>,
    /// Which table of ways each stage has, if it has a limit.
    tables: Vec<Option<usize>>,
    /// By table, chunk of the stage and microbatch.
    ways: Vec<Vec<Vec<Way>>>,
}

impl Passes {
    /// `None` where the proofs do not hold (microbatches that take different ways, passes that overlap or are
    /// recomputed), or where there are too many passes.
    pub(super) fn of(instance: &Instance) -> Option<Self> {
        let Instance { shape, placement, costs, footprints, objective, .. } = instance;
        let chunks = usize::from(shape.chunks_per_stage());
        let microbatches = usize::try_from(shape.microbatches()).ok()?;
        let each = (3 * chunks).checked_mul(microbatches)?;
        let plain = costs.overlap().is_none() && !costs.has_recompute() && !footprints.has_kept();
        if *placement == Placement::Mirrored || !plain {
            return None;
        }
        if each.checked_mul(each)?.checked_mul(shape.stages())? > MOST_PAIRS {
            return None;
        }
        let mut passes = Self {
            lanes: Vec::new(),
            width: 3 * chunks,
            microbatches,
            makespan: *objective == Objective::Makespan,
            begins: Vec::new(),
            homes: vec![0; usize::from(shape.chunks())],
            tables: Vec::new(),
            ways: Vec::new(),
        };
        for stage in 0..shape.stages() {
            for chunk in placement.chunks_of(*shape, stage) {
                passes.homes[usize::from(chunk)] = passes.lanes.len();
                let times = costs.chunks()[usize::from(chunk)];
                for time in [times.forward, times.backward_input, times.backward_weight] {
                    let time = i64::try_from(time.0).ok()?;
                    passes.lanes.push(Lane { time, input: None, output: None });
                }
            }
        }
        passes.connect(instance)?;
        passes.find_ways(instance)?;
        Some(passes)
    }

    /// Sets what every lane waits for, and when stages begin.
    fn connect(&mut self, instance: &Instance) -> Option<()> {
        let Instance { shape, placement, costs, .. } = instance;
        let hop = i64::try_from(costs.hop().0).ok()?;
        let mut start = 0;
        self.begins = vec![i64::MAX; shape.stages()];
        for chunk in 0..shape.chunks() {
            let own = self.homes[usize::from(chunk)];
            let stage = own / self.width;
            self.begins[stage] = self.begins[stage].min(start);
            let Some(&next) = self.homes.get(usize::from(chunk) + 1) else {
                self.link(own, own + 1, 0);
                break;
            };
            let hop = if placement.crosses(*shape, chunk) { hop } else { 0 };
            self.link(own, next, hop);
            self.link(next + 1, own + 1, hop);
            start += self.lanes[own].time + hop;
        }
        Some(())
    }

    fn link(&mut self, from: usize, to: usize, hop: i64) {
        let takes = self.lanes[from].time + hop;
        self.lanes[from].output = Some((to, takes));
        self.lanes[to].input = Some((from, takes));
    }

    /// Stages that hold alike under the same limit have the same ways.
    fn find_ways(&mut self, instance: &Instance) -> Option<()> {
        let Instance { shape, placement, footprints, limits, .. } = instance;
        let stages = shape.stages();
        self.tables = vec![None; stages];
        let Some(limits) = limits else { return Some(()) };
        let mut known: Vec<(Vec<Chunk>, u64)> = Vec::new();
        let mut kept = 0;
        for stage in 0..stages {
            let held = placement.chunks_of(*shape, stage).map(|chunk| {
                let held = footprints.of(chunk);
                Chunk { until_backward: held.until_backward.0, until_weight: held.until_weight.0 }
            });
            let one = (held.collect::<Vec<_>>(), limits.of(stage).0);
            let table = match known.iter().position(|other| *other == one) {
                Some(table) => table,
                None => {
                    let room = MOST_WAYS - kept;
                    let found = ways(&one.0, one.1, self.microbatches, room)?;
                    kept += found.iter().map(Vec::len).sum::<usize>();
                    self.ways.push(found);
                    known.push(one);
                    known.len() - 1
                }
            };
            self.tables[stage] = Some(table);
        }
        Some(())
    }

    pub(super) fn stages(&self) -> usize {
        self.lanes.len() / self.width
    }

    /// The ways to make room for F of a chunk of a stage; `None` where it has no limit.
    pub(super) fn ways(&self, stage: usize, chunk: usize, microbatch: usize) -> Option<&[Way]> {
        let table = self.tables[stage]?;
        Some(&self.ways[table][chunk * self.microbatches + microbatch])
    }

    /// The lane of `pass`, and its microbatch.
    pub(super) fn pass(&self, lane: usize, microbatch: usize) -> Option<Pass> {
        let forward = lane - lane % 3;
        let chunk = self.homes.iter().position(|&home| home == forward)?;
        Some(Pass {
            kind: KINDS[lane % 3],
            chunk: u16::try_from(chunk).ok()?,
            microbatch: u32::try_from(microbatch).ok()?,
        })
    }

    /// The lane of B of chunk `chunk` of the model.
    pub(super) fn backwards(&self, chunk: usize) -> usize {
        self.homes[chunk] + 1
    }

    /// The greatest time of which all times are multiples, and so every cost.
    pub(super) fn tick(&self) -> i64 {
        let takes = self.lanes.iter().flat_map(|lane| {
            let input = lane.input.map_or(0, |(_, takes)| takes);
            [lane.time, input]
        });
        takes.fold(0, divisor).max(1)
    }
}

/// The greatest common divisor.
fn divisor(one: i64, other: i64) -> i64 {
    if other == 0 { one } else { divisor(other, one % other) }
}
