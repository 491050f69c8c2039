//! An instance compiled for speed: its precedence graph, durations and memory in flat arrays.
//!
//! The passes of one kind and chunk form a *lane* and run in microbatch order. The order of a stage
//! is then a sequence of its lanes.
//!
//! *Whole backwards.* Where BW takes another time than B and W, each backward is split or whole. A whole one is
//! the B of its lane that does both, and a W that does nothing, wherever it stands behind it; its code in a
//! sequence is the lane of B plus the number of lanes of a stage.

use pipeline::{Costs, Fault, Footprints, Kind, Limits, Order, Pass, Placement, Schedule, Shape};

use crate::instance::{Instance, Objective};

/// Stands for a lane or a stage that does not exist.
pub(crate) const NONE: u32 = u32::MAX;

/// The kinds of passes, in the order of the lanes of a stage; the last only where chunks recompute.
const KINDS: [Kind; 4] = [Kind::F, Kind::B, Kind::W, Kind::R];

/// How many of them there are.
pub(crate) const fn kinds(recomputes: bool) -> usize {
    if recomputes { KINDS.len() } else { KINDS.len() - 1 }
}

/// The effect of a pass on its stage. Times in nanoseconds, sizes in bytes.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(crate) struct Effect {
    pub(crate) duration: i64,
    /// The memory that it allocates when it starts.
    pub(crate) take: i64,
    /// The change of the memory held when it ends.
    pub(crate) leave: i64,
}

impl Effect {
    const NONE: Self = Self { duration: 0, take: 0, leave: 0 };

    /// The most that is held beside what was held before, if more.
    #[inline]
    pub(crate) fn taken(self) -> i64 {
        self.take.max(self.take + self.leave)
    }
}

/// All passes of one kind and chunk. Times in nanoseconds, sizes in bytes.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Lane {
    pub(crate) duration: i64,
    /// The lane whose pass of the same microbatch must have ended `hop` earlier.
    pub(crate) remote: u32,
    pub(crate) hop: i64,
    /// The lane of the same stage whose pass of the same microbatch must run before.
    pub(crate) local: u32,
    /// The other stage that waits for the passes of this lane, if there is one.
    pub(crate) wakes: u32,
    /// The lane whose `remote` is this one.
    pub(crate) feeds: u32,
    /// The memory that a pass allocates when it starts.
    pub(crate) take: i64,
    /// The change of the memory held when a pass ends.
    pub(crate) leave: i64,
    /// Memory to leave free after a pass that allocates, so that its microbatch can proceed.
    pub(crate) reserve: i64,
    /// The effect of its passes of whole backwards: that of BW in a lane of B, none in one of W.
    pub(crate) whole: Effect,
}

impl Lane {
    /// The effect of a pass of this lane, whose backward is whole or not.
    #[inline]
    pub(crate) const fn effect(&self, whole: bool) -> Effect {
        match whole {
            true => self.whole,
            false => Effect { duration: self.duration, take: self.take, leave: self.leave },
        }
    }
}

/// The lanes of all stages, and the memory limits.
#[derive(Clone, Debug)]
pub(crate) struct CompiledInstance {
    pub(crate) stages: usize,
    /// The number of lanes per stage, kinds times chunks; kind by kind.
    pub(crate) width: usize,
    /// The number of chunks per stage.
    pub(crate) chunks: usize,
    /// Whether there are lanes of R. Those of chunks that recompute nothing take neither time nor memory,
    /// and are not passes of an order.
    pub(crate) recomputes: bool,
    /// Whether backwards may be whole.
    pub(crate) mixes: bool,
    pub(crate) microbatches: u32,
    /// The lanes, stage by stage; where microbatches differ, with the durations of the mean one.
    pub(crate) lanes: Vec<Lane>,
    /// Where microbatches differ, the durations of each pass, split and of a whole backward: lane by lane, one column
    /// per microbatch. Else empty.
    pub(crate) own: Vec<[i64; 2]>,
    /// The memory limit of each stage.
    pub(crate) limit: Vec<i64>,
    /// The total duration of the passes of each stage.
    pub(crate) work: Vec<i64>,
    /// Whether the cost is the makespan rather than the longest span.
    pub(crate) makespan: bool,
}

/// Converts a number that [`Instance::new`] has checked to a signed one.
fn signed(number: u64) -> i64 {
    i64::try_from(number).unwrap_or(i64::MAX / 4)
}

impl CompiledInstance {
    /// Compiles `instance`, whose backwards may be whole where that takes another time.
    pub(crate) fn of(instance: &Instance) -> Self {
        Self::with(instance, instance.mixes())
    }

    /// Compiles `instance`, all of whose backwards are split.
    pub(crate) fn split(instance: &Instance) -> Self {
        Self::with(instance, false)
    }

    fn with(instance: &Instance, mixes: bool) -> Self {
        let Instance { shape, placement, costs, footprints, limits, objective } = instance;
        let (stages, chunks) = (shape.stages(), usize::from(shape.chunks_per_stage()));
        let mean = costs.clone().of_mean_microbatch();
        let recomputes = costs.has_recompute();
        let width = kinds(recomputes) * chunks;
        let places = Places::of(*shape, *placement, recomputes);
        let mut lanes = Vec::with_capacity(stages * width);
        for stage in 0..stages {
            for &kind in &KINDS[..kinds(recomputes)] {
                for &chunk in &places.chunks[stage] {
                    lanes.push(lane(&places, &mean, footprints, kind, chunk));
                }
            }
        }
        let mut compiled = Self {
            stages,
            width,
            chunks,
            recomputes,
            mixes,
            microbatches: shape.microbatches(),
            lanes,
            own: own_durations(&places, costs, *shape),
            limit: limits_of(limits.as_ref(), stages),
            work: Vec::new(),
            makespan: *objective == Objective::Makespan,
        };
        compiled.work = (0..stages).map(|stage| compiled.work_of(stage)).collect();
        compiled.reserve();
        compiled.find_wakes();
        compiled
    }

    /// Sets `wakes` and `feeds` of every lane from the `remote` of the others.
    fn find_wakes(&mut self) {
        for lane in &mut self.lanes {
            (lane.wakes, lane.feeds) = (NONE, NONE);
        }
        for at in 0..self.lanes.len() {
            let remote = self.lanes[at].remote;
            if remote != NONE {
                self.lanes[remote as usize].feeds = narrow(at);
            }
            if remote != NONE && remote as usize / self.width != at / self.width {
                self.lanes[remote as usize].wakes = narrow(at / self.width);
            }
        }
    }

    /// This instance with time reversed: successors become predecessors, and allocations become
    /// releases. Slots and microbatches count from the end; lanes keep their places.
    pub(crate) fn reversed(&self) -> Self {
        let mut reversed = self.clone();
        for (at, lane) in reversed.lanes.iter_mut().enumerate() {
            let old = self.lanes[at];
            (lane.take, lane.leave) = (-old.leave, -old.take);
            (lane.whole.take, lane.whole.leave) = (-old.whole.leave, -old.whole.take);
            (lane.remote, lane.local) = (old.feeds, NONE);
            lane.hop = if old.feeds == NONE { 0 } else { self.lanes[old.feeds as usize].hop };
        }
        for (at, old) in self.lanes.iter().enumerate() {
            if old.local != NONE {
                reversed.lanes[old.local as usize].local = narrow(at);
            }
        }
        reversed.own.chunks_exact_mut(self.microbatches as usize).for_each(<[_]>::reverse);
        reversed.reserve_back();
        reversed.find_wakes();
        reversed
    }

    /// Sets the memory that a W and a B of a reversed instance leave free: the memory that the rest of
    /// their microbatch allocates on the stage before its first F frees it.
    fn reserve_back(&mut self) {
        for lanes in self.lanes.chunks_exact_mut(self.width) {
            let mut room = 0i64;
            for chunk in (0..self.chunks).rev() {
                // R gives back what it made before the passes of later chunks come.
                if let Some(recompute) = lanes.get_mut(3 * self.chunks + chunk) {
                    room = (room + recompute.take + recompute.leave).max(0);
                    recompute.reserve = 0;
                }
                for kind in [1, 2] {
                    let lane = &mut lanes[kind * self.chunks + chunk];
                    lane.reserve = room;
                    room += lane.take + lane.leave.max(0);
                }
            }
            lanes[..self.chunks].iter_mut().for_each(|lane| lane.reserve = 0);
        }
    }

    /// The effect of pass number `number` of `lane`, whose backward is whole or not.
    #[inline]
    pub(crate) fn effect(&self, lane: usize, number: usize, whole: bool) -> Effect {
        let effect = self.lanes[lane].effect(whole);
        if self.own.is_empty() {
            return effect;
        }
        let own = self.own[lane * self.microbatches as usize + number];
        Effect { duration: own[usize::from(whole)], ..effect }
    }

    fn work_of(&self, stage: usize) -> i64 {
        if !self.own.is_empty() {
            return self.unequal_work_of(stage);
        }
        let lanes = &self.lanes[stage * self.width..(stage + 1) * self.width];
        let all: i64 = lanes.iter().map(|lane| lane.duration).sum();
        let [back, weight] =
            [1, 2].map(|kind| &lanes[kind * self.chunks..(kind + 1) * self.chunks]);
        let saved = back
            .iter()
            .zip(weight)
            .map(|(back, weight)| (back.duration + weight.duration - back.whole.duration).max(0));
        let saved: i64 = if self.mixes { saved.sum() } else { 0 };
        (all - saved) * i64::from(self.microbatches)
    }

    /// The same where microbatches differ.
    fn unequal_work_of(&self, stage: usize) -> i64 {
        let columns = self.microbatches as usize;
        let cells = |kind: usize| {
            let begin = (stage * self.width + kind * self.chunks) * columns;
            &self.own[begin..begin + self.chunks * columns]
        };
        let split =
            (0..self.width / self.chunks).flat_map(|kind| cells(kind).iter().map(|own| own[0]));
        let pairs = cells(1).iter().zip(cells(2));
        let saved = pairs.map(|(back, weight)| (back[0] + weight[0] - back[1]).max(0));
        split.sum::<i64>() - if self.mixes { saved.sum() } else { 0 }
    }

    /// Sets the memory that a forward leaves free: the most that the forward of a later chunk of the
    /// stage allocates, so that a microbatch in flight can come back.
    fn reserve(&mut self) {
        if self.recomputes {
            return self.reserve_for_recompute();
        }
        for lanes in self.lanes.chunks_exact_mut(self.width) {
            let mut room = 0;
            for forward in lanes[..self.chunks].iter_mut().rev() {
                forward.reserve = room;
                room = room.max(forward.take + forward.leave.max(0));
            }
        }
    }

    /// The same where chunks recompute: a forward leaves what the rest of its microbatch needs at most, and
    /// an R what those of later chunks make, whose backwards come before its own.
    fn reserve_for_recompute(&mut self) {
        for lanes in self.lanes.chunks_exact_mut(self.width) {
            let (mut rest, mut made) = (0, 0);
            for chunk in (0..self.chunks).rev() {
                let again = 3 * self.chunks + chunk;
                lanes[again].reserve = made;
                made = made.max(lanes[again].take);
                rest = lanes[again].take.max(rest);
                lanes[chunk].reserve = rest;
                rest += lanes[chunk].take;
            }
        }
    }

    /// The number of microbatches that `stage` can hold in all of its chunks, at least 1.
    #[allow(clippy::cast_possible_truncation)] // No more than there are microbatches.
    pub(crate) fn held(&self, stage: usize) -> usize {
        let lanes = &self.lanes[stage * self.width..stage * self.width + self.chunks];
        let taken: i64 =
            lanes.iter().map(|lane| lane.take.max(lane.take + lane.leave).max(0)).sum();
        let held = self.limit[stage].checked_div(taken).unwrap_or(i64::MAX);
        held.clamp(1, i64::from(self.microbatches)) as usize
    }

    /// Whether every stage can hold 1p: as many forwards of its first chunk as there are stages.
    pub(crate) fn is_roomy(&self) -> bool {
        let lanes = self.lanes.chunks_exact(self.width).zip(&self.limit);
        let mut held = lanes.map(|(lanes, limit)| limit / lanes[0].take.max(1));
        held.all(|held| held >= self.stages as i64)
    }

    /// The mean duration of a pass, in nanoseconds.
    #[allow(clippy::cast_precision_loss)]
    pub(crate) fn mean_pass(&self) -> f64 {
        let total: i64 = self.lanes.iter().map(|lane| lane.duration).sum();
        total as f64 / self.lanes.len() as f64
    }

    /// Whether `lane` is one of B.
    #[inline]
    pub(crate) fn is_backward(&self, lane: usize) -> bool {
        lane % self.width / self.chunks == 1
    }

    /// Whether `lane` is one of W.
    #[inline]
    pub(crate) fn is_weight(&self, lane: usize) -> bool {
        lane % self.width / self.chunks == 2
    }

    /// Whether `lane` is one of R.
    #[inline]
    pub(crate) fn is_recompute(&self, lane: usize) -> bool {
        self.recomputes && lane % self.width / self.chunks == 3
    }

    /// Number of passes of one stage.
    pub(crate) fn passes_per_stage(&self) -> usize {
        self.width * self.microbatches as usize
    }

    /// Number of passes of all stages.
    pub(crate) fn passes(&self) -> usize {
        self.stages * self.passes_per_stage()
    }

    /// The lane of a stage that `code` of a sequence stands for, and whether it is a whole backward.
    #[inline]
    pub(crate) const fn lane_of(&self, code: u16) -> (usize, bool) {
        let code = code as usize;
        if code < self.width { (code, false) } else { (code - self.width, true) }
    }

    /// The code of a pass of `lane` in a sequence.
    #[inline]
    #[allow(clippy::cast_possible_truncation)] // There are at most [`crate::MAX_CHUNKS_PER_STAGE`] chunks.
    pub(crate) fn code(&self, lane: usize, whole: bool) -> u16 {
        let own = lane % self.width;
        let is_marked = whole && self.is_backward(own);
        (own + if is_marked { self.width } else { 0 }) as u16
    }

    /// The sequence of lanes of `schedule`, if each lane is in microbatch order. A whole backward counts
    /// as B and W where none may be whole, and the passes of a pair as one after the other: they wait for no more
    /// than the pair does, end no later and never hold more.
    pub(crate) fn sequence(&self, schedule: &Schedule) -> Option<Vec<u16>> {
        let places = Places::of(schedule.shape(), schedule.placement(), self.recomputes);
        let mut sequence = Vec::with_capacity(self.passes());
        for (stage, order) in schedule.orders().iter().enumerate() {
            let mut next = vec![0; self.width];
            for pass in order.passes() {
                let chunk = places.chunks[stage].iter().position(|&one| one == pass.chunk)?;
                let kinds: &[usize] = match pass.kind {
                    Kind::F => &[0],
                    // A chunk that recomputes nothing has its R all the same, in front of B.
                    Kind::B if self.recomputes && !schedule.recomputes(pass.chunk) => &[3, 1],
                    Kind::BW if self.recomputes && !schedule.recomputes(pass.chunk) => &[3, 1, 2],
                    Kind::B => &[1],
                    Kind::W => &[2],
                    Kind::BW => &[1, 2],
                    Kind::R if self.recomputes => &[3],
                    Kind::S | Kind::T | Kind::R => return None,
                };
                for kind in kinds {
                    let lane = kind * self.chunks + chunk;
                    if next[lane] != pass.microbatch {
                        return None;
                    }
                    next[lane] += 1;
                    let whole = self.mixes && pass.kind == Kind::BW;
                    sequence.push(self.code(lane, whole));
                }
            }
        }
        (sequence.len() == self.passes()).then_some(sequence)
    }

    /// The pass of the first microbatch in each lane, lane by lane, and its stage.
    pub(crate) fn first_passes(
        &self,
        (shape, placement): (Shape, Placement),
    ) -> impl Iterator<Item = (usize, Pass)> + '_ {
        let places = Places::of(shape, placement, self.recomputes);
        (0..self.lanes.len()).map(move |lane| {
            let (stage, lane) = (lane / self.width, lane % self.width);
            let chunk = places.chunks[stage][lane % self.chunks];
            (stage, Pass { kind: KINDS[lane / self.chunks], chunk, microbatch: 0 })
        })
    }

    /// The schedule of `instance` that `sequence` stands for.
    pub(crate) fn schedule(
        &self,
        instance: &Instance,
        sequence: &[u16],
    ) -> Result<Schedule, Fault> {
        let Instance { shape, placement, costs, .. } = instance;
        let recomputes = |chunk| costs.recompute(chunk).is_some();
        let orders = self.orders(sequence, (*shape, *placement), recomputes);
        Schedule::new(*shape, *placement, orders)
    }

    /// The orders of all stages that `sequence` stands for; `recomputes` tells which chunks have an R.
    pub(crate) fn orders(
        &self,
        sequence: &[u16],
        (shape, placement): (Shape, Placement),
        recomputes: impl Fn(u16) -> bool,
    ) -> Vec<Order> {
        let places = Places::of(shape, placement, self.recomputes);
        let stages = sequence.chunks_exact(self.passes_per_stage()).enumerate();
        let order = |(stage, lanes): (usize, &[u16])| {
            let mut next = vec![0u32; self.width];
            let mut wholes = vec![false; self.chunks * self.microbatches as usize];
            let pass = |&code: &u16| {
                let (lane, whole) = self.lane_of(code);
                let microbatch = next[lane];
                next[lane] += 1;
                let chunk = places.chunks[stage][lane % self.chunks];
                let kind = KINDS[lane / self.chunks];
                let cell = lane % self.chunks * self.microbatches as usize + microbatch as usize;
                match kind {
                    Kind::B if whole => {
                        wholes[cell] = true;
                        Some(Pass::bw(chunk, microbatch))
                    }
                    Kind::W if wholes[cell] => None,
                    Kind::R if !recomputes(chunk) => None,
                    _ => Some(Pass { kind, chunk, microbatch }),
                }
            };
            lanes.iter().filter_map(pass).collect()
        };
        stages.map(order).collect()
    }
}

/// The limits as signed numbers; without limits, a number larger than any peak.
fn limits_of(limits: Option<&Limits>, stages: usize) -> Vec<i64> {
    match limits {
        Some(limits) => limits.by_stage().iter().map(|limit| signed(limit.0)).collect(),
        None => vec![i64::MAX / 2; stages],
    }
}

fn narrow(index: usize) -> u32 {
    u32::try_from(index).unwrap_or(NONE)
}

/// The placement of the chunks on the stages.
struct Places {
    shape: Shape,
    /// The chunks of each stage, in model order.
    chunks: Vec<Vec<u16>>,
    /// By chunk, its stage and its index among the chunks there.
    at: Vec<(usize, usize)>,
    recomputes: bool,
}

impl Places {
    fn of(shape: Shape, placement: Placement, recomputes: bool) -> Self {
        let mut chunks = vec![Vec::new(); shape.stages()];
        let mut at = Vec::new();
        for chunk in 0..shape.chunks() {
            let stage = placement.stage(shape, chunk, 0);
            at.push((stage, chunks[stage].len()));
            chunks[stage].push(chunk);
        }
        Self { shape, chunks, at, recomputes }
    }

    /// The lane of `kind` and `chunk`.
    fn lane(&self, kind: usize, chunk: u16) -> u32 {
        let (stage, place) = self.at[usize::from(chunk)];
        let each = usize::from(self.shape.chunks_per_stage());
        narrow((stage * kinds(self.recomputes) + kind) * each + place)
    }
}

/// The durations of each pass where microbatches differ, split and of a whole backward; else nothing.
fn own_durations(places: &Places, costs: &Costs, shape: Shape) -> Vec<[i64; 2]> {
    if costs.microbatch_work().is_none() {
        return Vec::new();
    }
    let of_pass = |pass: Pass| match pass.kind {
        Kind::R if costs.recompute(pass.chunk).is_none() => [0; 2],
        Kind::B => [pass, Pass { kind: Kind::BW, ..pass }].map(|pass| signed(costs.of(pass).0)),
        Kind::W => [signed(costs.of(pass).0), 0],
        _ => [signed(costs.of(pass).0); 2],
    };
    let mut own = Vec::new();
    for chunks in &places.chunks {
        for &kind in &KINDS[..kinds(places.recomputes)] {
            for &chunk in chunks {
                let all = 0..shape.microbatches();
                own.extend(all.map(|microbatch| of_pass(Pass { kind, chunk, microbatch })));
            }
        }
    }
    own
}

fn lane(places: &Places, costs: &Costs, footprints: &Footprints, kind: Kind, chunk: u16) -> Lane {
    let (last, pass) = (places.shape.chunks() - 1, Pass { kind, chunk, microbatch: 0 });
    let neighbour = match kind {
        Kind::F => chunk.checked_sub(1),
        Kind::B if chunk < last => Some(chunk + 1),
        _ => None,
    };
    let row = usize::from(kind == Kind::B);
    let remote = neighbour.map_or(NONE, |other| places.lane(row, other));
    let here = places.at[usize::from(chunk)].0;
    let hop = neighbour
        .map_or(0, |other| signed(costs.hops().between(places.at[usize::from(other)].0, here).0));
    let local = match kind {
        Kind::F => NONE,
        Kind::B if places.recomputes => places.lane(3, chunk),
        Kind::B | Kind::R => places.lane(0, chunk),
        _ => places.lane(1, chunk),
    };
    let is_idle = kind == Kind::R && costs.recompute(chunk).is_none();
    let effect = |pass: Pass| {
        let change = footprints.change(pass);
        Effect {
            duration: signed(costs.of(pass).0),
            take: signed(change.taken_at_start.0),
            leave: signed(change.taken_at_end.0) - signed(change.freed_at_end.0),
        }
    };
    let own = effect(pass);
    let whole = match kind {
        Kind::B => effect(Pass { kind: Kind::BW, ..pass }),
        Kind::W => Effect::NONE,
        _ => own,
    };
    Lane {
        duration: if is_idle { 0 } else { own.duration },
        remote,
        hop,
        local,
        wakes: NONE,
        feeds: NONE,
        take: own.take,
        leave: own.leave,
        reserve: 0,
        whole,
    }
}

#[cfg(test)]
pub(crate) mod tests {
    use pipeline::{Bytes, Family, Footprint, Nanos, PassTimes, Problem};

    use super::*;

    /// An instance of unequal stages that can hold 2p, and the order of `family` for it.
    pub(crate) fn case(
        family: Family,
        size: [u64; 2],
        objective: Objective,
    ) -> (CompiledInstance, Vec<u16>) {
        case_of(family, size, objective, |_| false)
    }

    /// The same where the chunks for which `recomputes` is true recompute.
    pub(crate) fn case_of(
        family: Family,
        [p, m]: [u64; 2],
        objective: Objective,
        recomputes: fn(u16) -> bool,
    ) -> (CompiledInstance, Vec<u16>) {
        let about = family.about();
        let shape = Shape::new(p, about.chunks.of(None), m).unwrap();
        let times = (0..u64::from(shape.chunks())).map(|chunk| {
            PassTimes::new(
                Nanos(50 + 7 * chunk % 11),
                Nanos(60 + 5 * chunk % 13),
                Nanos(30 + 3 * chunk % 7),
            )
        });
        let again = |chunk| recomputes(chunk).then(|| Nanos(40 + 3 * u64::from(chunk) % 13));
        let kept = |chunk| recomputes(chunk).then_some(Bytes(4));
        let costs = Costs::new(times.collect(), Nanos(9))
            .with_recompute((0..shape.chunks()).map(again).collect());
        let held = Footprint { until_backward: Bytes(20), until_weight: Bytes(7) };
        let footprints =
            Footprints::uniform(shape, held).with_kept((0..shape.chunks()).map(kept).collect());
        let problem = Problem::new(shape, costs.clone()).unwrap();
        let problem = problem.with_footprints(footprints.clone()).unwrap();
        let schedule = family.schedule(&problem).unwrap();
        let limit = Bytes(2 * 20 * p * u64::from(shape.chunks_per_stage()));
        let limits = Some(Limits::new(shape, &[limit]).unwrap());
        let instance = Instance::new(shape, about.placement, costs, footprints, limits, objective);
        let compiled = CompiledInstance::of(&instance.unwrap());
        let sequence = compiled.sequence(&schedule).unwrap();
        (compiled, sequence)
    }

    const CASES: [(Family, [u64; 2]); 4] = [
        (Family::ZbH1, [4, 9]),
        (Family::ZbV, [5, 12]),
        (Family::VHalf, [4, 8]),
        (Family::Interleaved, [3, 6]),
    ];

    /// Of the chunks, none recompute, or those of even number, or all.
    const RECOMPUTE: [fn(u16) -> bool; 3] = [|_| false, |chunk| chunk % 2 == 0, |_| true];

    /// Every case with every choice of chunks.
    pub(crate) fn cases() -> impl Iterator<Item = (Family, [u64; 2], fn(u16) -> bool)> {
        let of = |(family, size)| RECOMPUTE.into_iter().map(move |again| (family, size, again));
        CASES.into_iter().flat_map(of)
    }

    #[test]
    fn orders_are_read_and_written() {
        for (family, [p, m], again) in cases() {
            let (compiled, sequence) = case_of(family, [p, m], Objective::Span, again);
            let shape = Shape::new(p, family.about().chunks.of(None), m).unwrap();
            let at = (shape, family.about().placement);
            let orders = compiled.orders(&sequence, at, again);
            let schedule = Schedule::new(shape, at.1, orders).unwrap();
            let told: Vec<bool> = (0..shape.chunks()).map(|one| schedule.recomputes(one)).collect();
            assert_eq!(told, (0..shape.chunks()).map(again).collect::<Vec<_>>(), "{family:?}");
            assert_eq!(compiled.sequence(&schedule), Some(sequence), "{family:?}");
        }
    }

    #[test]
    fn an_instance_reversed_twice_is_itself() {
        for (family, size, again) in cases() {
            let (compiled, _) = case_of(family, size, Objective::Span, again);
            let twice = compiled.reversed().reversed();
            let parts = |lane: &Lane| {
                let Lane { duration, remote, hop, local, feeds, take, leave, .. } = *lane;
                (duration, remote, hop, local, feeds, take, leave)
            };
            assert!(
                compiled.lanes.iter().map(parts).eq(twice.lanes.iter().map(parts)),
                "{family:?}"
            );
        }
    }
}
