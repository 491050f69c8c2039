//! The passes of all stages as places, and what they wait for; and the work that may still be done.

use std::cell::Cell;

use pipeline::{Kind, Pass};

use crate::critical_path::Pipe;
use crate::{Certificate, Objective};

/// Why no more is concluded.
#[derive(Clone, Copy, PartialEq, Eq)]
pub(super) enum End {
    /// Windows contradict each other.
    Empty,
    /// The work budget is spent.
    Spent,
}

/// The work budget is spent.
pub(crate) struct Spent;

/// The place of R among the kinds of passes, behind F, B and W.
pub(super) const RECOMPUTE: usize = 3;

/// The passes of all stages, and their inputs. A pass is a place: chunk by chunk of its stage in
/// model order, kind by kind, microbatch by microbatch. R are among them only where some chunk recomputes; then those of
/// chunks that do not recompute take neither time nor memory, and come directly after their F, so the rest is unchanged.
pub(crate) struct Stages {
    /// Chunks of a stage.
    pub(super) chunks: usize,
    /// Kinds of passes: F, B, W, and R where some chunk recomputes.
    pub(super) kinds: usize,
    pub(super) microbatches: usize,
    /// The microbatches of the whole pipeline, where the windows cover only the first ones.
    pub(super) all_microbatches: usize,
    /// By chunk of the model: its stage, and which of its chunks it is.
    homes: Vec<(usize, usize)>,
    /// By chunk of the model: whether it recomputes.
    again: Vec<bool>,
    /// By chunk of a stage: times of F, B, W, R.
    times: Vec<[i128; 4]>,
    /// By chunk of a stage, bytes: allocated by F, allocated by R, and M_W.
    pub(super) held: Vec<[i128; 3]>,
    pub(super) limits: Option<Vec<i128>>,
    /// By chunk of a stage: where F and B of microbatch 0 come from, and the hop.
    pub(super) inputs: Vec<[Option<(usize, i128)>; 2]>,
    /// By lane, chunk by chunk and kind by kind: the stage that waits for its passes, if another does.
    pub(super) takers: Vec<Option<usize>>,
    /// By chunk of a stage: starts of F, B, W, R where a microbatch is alone.
    pub(super) alone: Vec<[i128; 4]>,
    pub(super) makespan: bool,
    /// The work that may still be done, in pairs of passes.
    work: Cell<u64>,
}

/// How many kinds of passes windows are of.
pub(crate) fn kinds(certificate: &Certificate) -> usize {
    RECOMPUTE + usize::from(certificate.schedule.has_recompute())
}

impl Stages {
    pub(crate) fn of(certificate: &Certificate, pipe: &Pipe, work: u64) -> Self {
        let Certificate { schedule, costs, footprints, limits, objective, .. } = certificate;
        let (shape, placement) = (schedule.shape(), schedule.placement());
        let count = usize::from(shape.chunks());
        let mut lying = vec![Vec::new(); shape.stages()];
        let mut homes = Vec::new();
        for chunk in 0..shape.chunks() {
            let stage = placement.stage(shape, chunk, 0);
            homes.push((stage, lying[stage].len()));
            lying[stage].push(chunk);
        }
        let chunks = usize::from(shape.chunks_per_stage());
        let kinds = kinds(certificate);
        let mut stages = Self {
            chunks,
            kinds,
            microbatches: shape.microbatches() as usize,
            all_microbatches: shape.microbatches() as usize,
            homes,
            again: (0..shape.chunks()).map(|chunk| schedule.recomputes(chunk)).collect(),
            times: Vec::new(),
            held: Vec::new(),
            limits: limits
                .as_ref()
                .map(|limits| limits.by_stage().iter().map(|one| one.0.into()).collect()),
            inputs: Vec::new(),
            takers: vec![None; kinds * count],
            alone: Vec::new(),
            makespan: *objective == Objective::Makespan,
            work: Cell::new(work),
        };
        for chunk in lying.into_iter().flatten() {
            let one = costs.chunks()[usize::from(chunk)];
            let again = costs.recompute(chunk).unwrap_or_default();
            let times = [one.forward, one.backward_input, one.backward_weight, again];
            stages.times.push(times.map(|time| time.0.into()));
            let size = footprints.of(chunk);
            let kept = footprints.kept(chunk).unwrap_or(size.until_backward);
            let sizes = [kept, size.until_backward - kept, size.until_weight];
            stages.held.push(sizes.map(|size| size.0.into()));
            let at = usize::from(chunk);
            let hop = |from: usize| {
                i128::from(costs.hops().between(stages.homes[from].0, stages.homes[at].0).0)
            };
            let input = |from: usize, kind: usize| {
                let (stage, place) = stages.homes[from];
                (stages.first(stage * chunks + place, kind), hop(from))
            };
            let forward = at.checked_sub(1).map(|from| input(from, 0));
            let backward = (at + 1 < count).then(|| input(at + 1, 1));
            for (from, _) in [forward, backward].into_iter().flatten() {
                stages.takers[from / stages.microbatches] = Some(stages.homes[at].0);
            }
            stages.inputs.push([forward, backward]);
            let [down, up] = [at, 2 * count - 1 - at];
            stages.alone.push([pipe.start(down), pipe.start(up), pipe.end(up), pipe.end(down)]);
        }
        stages
    }

    /// The same for the first `microbatches` alone.
    pub(super) fn first_only(&self, microbatches: usize) -> Self {
        let moved = |(place, hop): (usize, i128)| (place / self.microbatches * microbatches, hop);
        let inputs = self.inputs.iter().map(|inputs| inputs.map(|input| input.map(moved)));
        Self {
            microbatches,
            all_microbatches: self.all_microbatches,
            homes: self.homes.clone(),
            again: self.again.clone(),
            times: self.times.clone(),
            held: self.held.clone(),
            limits: self.limits.clone(),
            inputs: inputs.collect(),
            takers: self.takers.clone(),
            alone: self.alone.clone(),
            chunks: self.chunks,
            kinds: self.kinds,
            makespan: self.makespan,
            work: self.work.clone(),
        }
    }

    /// Takes over what `other`, made of it, has left of the work.
    pub(super) fn spend_as(&self, other: &Self) {
        self.work.set(other.work.get());
    }

    /// The place of microbatch 0 of a kind and a chunk of a stage.
    fn first(&self, chunk: usize, kind: usize) -> usize {
        self.lane(chunk, kind) * self.microbatches
    }

    /// The lane of a kind and a chunk of a stage.
    pub(super) fn lane(&self, chunk: usize, kind: usize) -> usize {
        self.kinds * chunk + kind
    }

    /// Bytes that a pass of `lane` allocates at its start.
    pub(super) fn takes(&self, lane: usize) -> i128 {
        let [kept, rest, _] = self.held[lane / self.kinds];
        [kept, 0, 0, rest][lane % self.kinds]
    }

    pub(super) fn passes_per_stage(&self) -> usize {
        self.kinds * self.chunks * self.microbatches
    }

    pub(super) fn passes(&self) -> usize {
        self.kinds * self.held.len() * self.microbatches
    }

    pub(crate) fn together(&self, one: usize, other: usize) -> bool {
        one / self.passes_per_stage() == other / self.passes_per_stage()
    }

    /// The place of `pass`, if the pipeline has it.
    pub(crate) fn place(&self, pass: Pass) -> Option<usize> {
        let &(stage, chunk) = self.homes.get(usize::from(pass.chunk))?;
        let microbatch =
            usize::try_from(pass.microbatch).ok().filter(|&one| one < self.microbatches)?;
        let kind = match pass.kind {
            Kind::F => 0,
            Kind::B => 1,
            Kind::W => 2,
            Kind::R if self.again[usize::from(pass.chunk)] => RECOMPUTE,
            Kind::BW | Kind::S | Kind::T | Kind::R => return None,
        };
        Some(self.first(stage * self.chunks + chunk, kind) + microbatch)
    }

    /// Whether W of two chunks take as long and free as much; not those of one chunk.
    pub(super) fn are_twins(&self, one: usize, other: usize) -> bool {
        let of = |chunk: usize| (self.times[chunk][2], self.held[chunk][2]);
        one != other && of(one) == of(other)
    }

    pub(super) fn time(&self, pass: usize) -> i128 {
        let lane = pass / self.microbatches;
        self.times[lane / self.kinds][lane % self.kinds]
    }

    pub(super) fn spend(&self, work: usize) -> Result<(), End> {
        let left = self.work.get().checked_sub(work as u64).ok_or(End::Spent)?;
        self.work.set(left);
        Ok(())
    }

    /// The passes of a stage that begins at `begin`, each with those that run right before it in every
    /// schedule; behind all of these.
    pub(super) fn given(&self, begin: usize) -> impl Iterator<Item = (usize, [Option<usize>; 3])> {
        let first = begin / self.passes_per_stage() * self.chunks;
        let chunks = first..first + self.chunks;
        let one = move |chunk: usize, kind: usize, k: usize| {
            let at = |chunk: usize, kind: usize| self.first(chunk, kind) + k;
            let pass = at(chunk, kind);
            let earlier = (k > 0).then(|| pass - 1);
            let own = match kind {
                0 => None,
                1 if self.kinds > RECOMPUTE => Some(at(chunk, RECOMPUTE)),
                RECOMPUTE => Some(at(chunk, 0)),
                kind => Some(at(chunk, kind - 1)),
            };
            let below = (kind == 0 && chunk > first).then(|| at(chunk - 1, 0));
            let above = (kind == 1 && chunk + 1 < first + self.chunks).then(|| at(chunk + 1, 1));
            (pass, [earlier, own, below.or(above)])
        };
        (0..self.microbatches).flat_map(move |k| {
            let again = (self.kinds > RECOMPUTE).then_some(RECOMPUTE);
            let down = chunks.clone().flat_map(move |chunk| {
                [Some(0), again].into_iter().flatten().map(move |kind| one(chunk, kind, k))
            });
            let up =
                chunks.clone().rev().flat_map(move |chunk| [one(chunk, 1, k), one(chunk, 2, k)]);
            down.chain(up)
        })
    }
}
