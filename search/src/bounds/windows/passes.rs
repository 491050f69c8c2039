//! The passes of all stages in flat arrays, and what they wait for.

use pipeline::{Kind, Pass, Placement};

use super::room::Held;
use crate::{Instance, Objective};

/// The kinds of passes in the order of the lanes of a chunk.
const KINDS: [Kind; 3] = [Kind::F, Kind::B, Kind::W];

/// A cost so high that no window is narrow: half of it is more than all passes take one after the
/// other.
pub(super) const NEVER: i64 = i64::MAX / 8;

/// The most pairs of passes of a stage, over all stages: more are not looked at.
const MOST_PAIRS: usize = 1 << 28;

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
    /// By stage and its chunks, what a microbatch holds.
    pub(super) held: Vec<Held>,
    /// By stage.
    pub(super) limits: Vec<Option<u64>>,
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
            held: Vec::new(),
            limits: Vec::new(),
        };
        for stage in 0..shape.stages() {
            for chunk in placement.chunks_of(*shape, stage) {
                passes.homes[usize::from(chunk)] = passes.lanes.len();
                let held = footprints.of(chunk);
                passes.held.push([held.until_backward.0, held.until_weight.0]);
                let times = costs.chunks()[usize::from(chunk)];
                for time in [times.forward, times.backward_input, times.backward_weight] {
                    let time = i64::try_from(time.0).ok()?;
                    passes.lanes.push(Lane { time, input: None, output: None });
                }
            }
        }
        passes.limits = (0..shape.stages())
            .map(|stage| instance.limits.as_ref().map(|limits| limits.of(stage).0))
            .collect();
        passes.connect(instance)?;
        Some(passes)
    }

    /// Sets what every lane waits for, and when stages begin.
    fn connect(&mut self, instance: &Instance) -> Option<()> {
        let Instance { shape, placement, costs, .. } = instance;
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
            let hop = i64::try_from(costs.hop_after((*shape, *placement), chunk).0).ok()?;
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

    pub(super) fn stages(&self) -> usize {
        self.lanes.len() / self.width
    }

    /// The pass of a lane and a microbatch.
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
