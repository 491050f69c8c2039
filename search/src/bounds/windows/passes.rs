//! The passes of all stages in flat arrays, and what they wait for.

use pipeline::{Footprint, Kind, Pass, Placement};

use crate::instance::{Instance, Objective};

/// The kinds of passes in the order of the lanes of a chunk; R only where a chunk recomputes.
const KINDS: [Kind; 4] = [Kind::F, Kind::B, Kind::W, Kind::R];

/// The place of R among them.
pub(super) const AGAIN: usize = 3;

/// A cost so high that no window is narrow: half of it is more than all passes take one after the
/// other.
pub(super) const NEVER: i64 = i64::MAX / 8;

/// The most pairs of passes of a stage, summed over all stages, for which windows are used.
const MOST_PAIRS: usize = 1 << 28;

/// The passes of one kind and chunk, which run in the order of their microbatches.
#[derive(Clone, Copy)]
pub(super) struct Lane {
    pub(super) time: i64,
    /// Whether its passes take memory when they start.
    pub(super) takes: bool,
    /// Whether it stands for passes R of a chunk that has none.
    pub(super) is_empty: bool,
    /// The lane whose pass of the same microbatch must have started so long before.
    pub(super) input: Option<(usize, i64)>,
    /// The lane that takes what this one makes, with the time from start to start.
    pub(super) output: Option<(usize, i64)>,
}

/// Bytes that a chunk holds for each microbatch.
#[derive(Clone, Copy)]
pub(super) struct Held {
    /// Allocated by F: M_B, or the part of it that is kept where the chunk recomputes.
    pub(super) kept: u64,
    /// The rest of M_B, which R takes.
    pub(super) rest: u64,
    /// M_W.
    pub(super) until_weight: u64,
}

/// The passes of all stages. A stage has three lanes for each chunk in model order, F, B and W, and where any chunk of
/// the pipeline recomputes a fourth, R; a pass is the place of its microbatch in its lane.
///
/// A chunk that does not recompute has an empty lane of R then. *Proof that it changes nothing.* Put an R that takes no time
/// and no memory right behind each F of the chunk: no pass starts at another time, and no more is held.
pub(super) struct Passes {
    pub(super) lanes: Vec<Lane>,
    /// Lanes of a chunk.
    pub(super) kinds: usize,
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
    /// `None` where the proofs do not hold (microbatches that take different ways, passes that overlap), or where there
    /// are too many passes.
    pub(super) fn of(instance: &Instance) -> Option<Self> {
        let Instance { shape, placement, costs, objective, .. } = instance;
        let chunks = usize::from(shape.chunks_per_stage());
        let microbatches = usize::try_from(shape.microbatches()).ok()?;
        let kinds = if costs.has_recompute() { KINDS.len() } else { AGAIN };
        let each = (kinds * chunks).checked_mul(microbatches)?;
        if *placement == Placement::Mirrored || costs.overlap().is_some() {
            return None;
        }
        if each.checked_mul(each)?.checked_mul(shape.stages())? > MOST_PAIRS {
            return None;
        }
        let mut passes = Self {
            lanes: Vec::new(),
            kinds,
            width: kinds * chunks,
            microbatches,
            makespan: *objective == Objective::Makespan,
            begins: Vec::new(),
            homes: vec![0; usize::from(shape.chunks())],
            held: Vec::new(),
            limits: Vec::new(),
        };
        for stage in 0..shape.stages() {
            for chunk in placement.chunks_of(*shape, stage) {
                passes.add(instance, chunk)?;
            }
        }
        passes.limits = (0..shape.stages())
            .map(|stage| instance.limits.as_ref().map(|limits| limits.of(stage).0))
            .collect();
        passes.connect(instance)?;
        Some(passes)
    }

    /// Adds the lanes of `chunk`.
    fn add(&mut self, instance: &Instance, chunk: u16) -> Option<()> {
        let Instance { costs, footprints, .. } = instance;
        self.homes[usize::from(chunk)] = self.lanes.len();
        let Footprint { until_backward, until_weight } = footprints.of(chunk);
        let kept = footprints.kept(chunk).unwrap_or(until_backward);
        let again = costs.recompute(chunk);
        let held =
            Held { kept: kept.0, rest: (until_backward - kept).0, until_weight: until_weight.0 };
        let times = costs.chunks()[usize::from(chunk)];
        let times =
            [times.forward, times.backward_input, times.backward_weight, again.unwrap_or_default()];
        for (kind, time) in times.into_iter().enumerate().take(self.kinds) {
            self.lanes.push(Lane {
                time: i64::try_from(time.0).ok()?,
                takes: kind == 0 || (kind == AGAIN && held.rest > 0),
                is_empty: kind == AGAIN && again.is_none(),
                input: None,
                output: None,
            });
        }
        self.held.push(held);
        Some(())
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
                let turn = (self.kinds > AGAIN).then_some(own + AGAIN);
                turn.into_iter().for_each(|again| self.link(own, again, 0));
                self.link(turn.unwrap_or(own), own + 1, 0);
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
        let forward = lane - lane % self.kinds;
        let chunk = self.homes.iter().position(|&home| home == forward)?;
        Some(Pass {
            kind: KINDS[lane % self.kinds],
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
