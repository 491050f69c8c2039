//! The exact timing of an order where transfers never wait for each other.
//!
//! A slot starts when its stage is free and everything it needs is there. A value made on another
//! stage is there one hop after the pass that makes it has ended, and one that all stages make, or
//! wait for, when the collective behind the last pass that takes part has; neither occupies a
//! stage. The schedule carries a walk in which every value is made before it is used, so timing
//! is one pass over it: no queue, and no allocation but for what is returned. What copies to the
//! host, or has collectives behind its passes, is timed by [`timed`], which follows those streams too; so
//! is what goes both ways over links that differ.

use pipeline::{
    Costs, Fault, Kind, Metrics, Nanos, Order, Pass, Placement, Schedule, Shape, Slot, Span,
    StageTimes, Timeline,
};

use crate::timed::{self, Nominal};

/// A value that need not be waited for, because the pass needs none from another stage: time 0.
const NOTHING_NEEDED: usize = 0;
/// The row for values that no pass needs.
const NOTHING_MADE: usize = 1;
/// Values begin behind these two rows.
const VALUES: usize = 2;

/// The facts about a kind of pass in a chunk that the loop of replay uses.
#[derive(Clone, Copy, Default)]
struct Step {
    duration: u64,
    /// Time from the end of the pass that makes what is needed to its arrival.
    hop: u64,
    /// Where the end of the pass that makes what is needed stands, for microbatch 0.
    needs: usize,
    /// Where the end of this pass goes, for microbatch 0.
    makes: usize,
    /// Whether passes of other stages make the same, so that the last one counts.
    is_shared: bool,
}

/// Times schedules. Keeps its tables, so that one `Replay` times many schedules without asking for
/// memory again.
#[derive(Default)]
pub struct Replay {
    steps: Vec<Step>,
    /// By step, its part of the place of a pair in the table of pairs, see [`pair_of`]; empty like that.
    parts: Vec<u64>,
    made: Made,
    /// How long pairs take whose segments share the streams of the device, [`UNKNOWN`] until one is met;
    /// empty if passes of pairs run one after the other.
    pairs: Vec<u64>,
    at: Vec<usize>,
    /// Number of pairs of each stage that are behind it.
    pairs_at: Vec<usize>,
    stages: Vec<StageTimes>,
}

/// End of the last pass that makes each value: rows as in [`pipeline::Value::row`], behind the two special ones, with
/// the columns of [`Schedule::columns`].
#[derive(Default)]
struct Made {
    ends: Vec<u64>,
    /// The bits of a microbatch that are its column.
    mask: u32,
}

impl Made {
    #[inline]
    fn get(&self, row: usize, pass: Pass) -> u64 {
        self.ends[row + (pass.microbatch & self.mask) as usize]
    }

    #[inline]
    fn at(&mut self, row: usize, pass: Pass) -> &mut u64 {
        &mut self.ends[row + (pass.microbatch & self.mask) as usize]
    }
}

/// A pair whose duration has not been asked for.
const UNKNOWN: u64 = u64::MAX;

impl Replay {
    /// A replay with empty tables.
    #[must_use]
    pub fn new() -> Self {
        Self::default()
    }

    /// Duration of `schedule` under `costs`, stage by stage.
    ///
    /// # Errors
    /// If `costs` are those of another pipeline, or so large that the clock overflows.
    pub fn metrics(&mut self, schedule: &Schedule, costs: &Costs) -> Result<Metrics, Fault> {
        if is_special(schedule, costs) {
            costs.check(schedule.shape())?;
            return Ok(timed::metrics(schedule, &Nominal(costs)));
        }
        self.run(schedule, costs, |_, _, _, _| {})?;
        Ok(Metrics { stages: self.stages.clone() })
    }

    /// When every slot of `schedule` runs under `costs`.
    ///
    /// # Errors
    /// If `costs` are those of another pipeline, or so large that the clock overflows.
    pub fn timeline(&mut self, schedule: &Schedule, costs: &Costs) -> Result<Timeline, Fault> {
        if is_special(schedule, costs) {
            costs.check(schedule.shape())?;
            return Ok(timed::timeline(schedule, &Nominal(costs)));
        }
        let room = |order: &Order| Vec::with_capacity(order.passes().len());
        let mut stages: Vec<Vec<Span>> = schedule.orders().iter().map(room).collect();
        self.run(schedule, costs, |stage, slot, start, end| {
            stages[stage].push(Span { slot, start: Nanos(start), end: Nanos(end) });
        })?;
        Ok(Timeline { stages })
    }

    /// When each stage ends its last pass, in nanoseconds, if it is free from `begins` on, which lie no further
    /// apart than a step is long; `None` for what [`timed`] times.
    pub(crate) fn ends(
        &mut self,
        schedule: &Schedule,
        costs: &Costs,
        begins: &[u64],
    ) -> Result<Option<Vec<u64>>, Fault> {
        Self::check(schedule, costs)?;
        if is_special(schedule, costs) {
            return Ok(None);
        }
        self.prepare(schedule, costs);
        for (stage, &begin) in self.stages.iter_mut().zip(begins) {
            stage.last_end = Nanos(begin);
        }
        self.walk(schedule, costs, |_, _, _, _| {});
        Ok(Some(self.stages.iter().map(|stage| stage.last_end.0).collect()))
    }

    fn check(schedule: &Schedule, costs: &Costs) -> Result<(), Fault> {
        costs.check(schedule.shape())?;
        costs.hops().check_placed(schedule.shape(), schedule.placement())
    }

    #[inline]
    fn run(
        &mut self,
        schedule: &Schedule,
        costs: &Costs,
        record: impl FnMut(usize, Slot, u64, u64),
    ) -> Result<(), Fault> {
        Self::check(schedule, costs)?;
        self.prepare(schedule, costs);
        self.walk(schedule, costs, record);
        Ok(())
    }

    /// Times `schedule` by the tables, each stage from its `last_end` on.
    #[inline]
    fn walk(
        &mut self,
        schedule: &Schedule,
        costs: &Costs,
        mut record: impl FnMut(usize, Slot, u64, u64),
    ) {
        let (steps, made) = (&self.steps[..], &mut self.made);
        // Without pairs and shards each value has one maker, and the loop below needs no checks.
        let has_shards = schedule.shape().has_shards();
        for run in schedule.walk() {
            let stage = run.stage as usize;
            let order = &schedule.orders()[stage];
            let begin = self.at[stage];
            self.at[stage] = begin + run.passes as usize;
            let passes = &order.passes()[begin..self.at[stage]];
            let times = &mut self.stages[stage];
            let (mut free, mut busy) = (times.last_end.0, times.busy.0);
            if begin == 0 {
                times.first_start = Nanos(arrival(steps, made, order.slot_at(0)));
            }
            if order.is_unpaired() && !has_shards {
                let record = |pass, start, end| record(stage, Slot::One(pass), start, end);
                (free, busy) = walk_unpaired(steps, made, passes, (free, busy), record);
            } else {
                let pairs = order.pairs();
                let mut next = self.pairs_at[stage];
                let mut at = 0;
                while at < passes.len() {
                    let pass = passes[at];
                    let step = &steps[step_of(pass)];
                    let mut start = free.max(ready(made, step, pass));
                    if pairs.get(next) == Some(&(begin + at)) {
                        let other = passes[at + 1];
                        let beside = &steps[step_of(other)];
                        start = start.max(ready(made, beside, other));
                        let duration = match &mut self.pairs[..] {
                            [] => step.duration + beside.duration,
                            known => pair_duration(known, &self.parts, costs, [pass, other]),
                        };
                        free = start + duration;
                        busy += duration;
                        make(made, beside, other, free);
                        record(stage, Slot::Pair(pass, other), start, free);
                        (at, next) = (at + 2, next + 1);
                    } else {
                        free = start + step.duration;
                        busy += step.duration;
                        record(stage, Slot::One(pass), start, free);
                        at += 1;
                    }
                    make(made, step, pass, free);
                }
                self.pairs_at[stage] = next;
            }
            (times.last_end, times.busy) = (Nanos(free), Nanos(busy));
        }
    }

    /// Fills the tables: the duration of each kind of pass, what it needs from another stage, and what it
    /// makes.
    fn prepare(&mut self, schedule: &Schedule, costs: &Costs) {
        let (shape, placement) = (schedule.shape(), schedule.placement());
        let columns = schedule.columns();
        self.made.mask = columns.map_or(u32::MAX, |columns| columns - 1);
        let columns = columns.unwrap_or(shape.microbatches()) as usize;
        let place = |row: usize| (VALUES + row) * columns;
        self.steps.clear();
        self.steps.resize(KINDS * usize::from(shape.chunks()), Step::default());
        for pass in passes(shape) {
            let here = placement.stage_of(shape, pass);
            // A value of the stage itself is made earlier in its own order, so only received ones are waited for.
            let needs = Slot::from(pass).received((shape, placement), here).next();
            let makes = pass.makes();
            self.steps[step_of(pass)] = Step {
                duration: costs.of_slot(Slot::One(pass)).0,
                hop: needs.map_or(0, |value| costs.arrival(value, (shape, placement), here).0),
                needs: needs.map_or(NOTHING_NEEDED * columns, |v| place(v.row(shape))),
                makes: makes.map_or(NOTHING_MADE * columns, |v| place(v.row(shape))),
                is_shared: makes.is_some_and(|value| value.chunk().is_none()),
            };
        }
        self.prepare_pairs(schedule, costs);
        // Every value is written before it is read; only "nothing needed" must be 0, and what
        // several passes make, the last of which counts.
        self.made.ends.resize((VALUES + shape.rows()) * columns, 0);
        self.made.ends[..columns].fill(0);
        self.made.ends[place(2 * usize::from(shape.chunks()))..].fill(0);
        self.at.clear();
        self.at.resize(shape.stages(), 0);
        self.pairs_at.clear();
        self.pairs_at.resize(shape.stages(), 0);
        let zero = Nanos(0);
        self.stages.clear();
        let unused = StageTimes { first_start: zero, last_end: zero, busy: zero };
        self.stages.resize(shape.stages(), unused);
    }

    /// Makes room for the durations of pairs that are not the sum of their passes'.
    fn prepare_pairs(&mut self, schedule: &Schedule, costs: &Costs) {
        self.pairs.clear();
        self.parts.clear();
        if costs.overlap().is_none() || schedule.orders().iter().all(Order::is_unpaired) {
            return;
        }
        self.pairs.resize(pairs_of(schedule), UNKNOWN);
        self.parts.resize(self.steps.len(), 0);
        for pass in passes(schedule.shape()) {
            self.parts[step_of(pass)] = pair_of(schedule, pass);
        }
    }
}

/// Whether the table of steps cannot time `schedule`: it knows neither streams beside slots, nor microbatches of
/// unequal work, nor links that differ by the way that a microbatch takes.
fn is_special(schedule: &Schedule, costs: &Costs) -> bool {
    let takes_ways = schedule.placement() == Placement::Mirrored;
    let unequal = costs.microbatch_work().is_some();
    schedule.has_streams() || unequal || (takes_ways && !costs.hops().are_alike())
}

/// Steps per chunk: the kinds, up to a power of two, so that a step is found by a shift.
const KINDS: usize = Kind::ALL.len().next_power_of_two();

#[inline]
fn step_of(pass: Pass) -> usize {
    usize::from(pass.chunk) * KINDS + pass.kind as usize
}

/// The number of pairs that a table must tell apart: of a forward of any chunk with a backward, whole or not,
/// of a chunk of the same stage.
fn pairs_of(schedule: &Schedule) -> usize {
    2 * usize::from(schedule.shape().chunks()) * laps(schedule)
}

/// The most chunks that a stage holds: two copies of the model make two.
fn laps(schedule: &Schedule) -> usize {
    let own = usize::from(schedule.shape().chunks_per_stage());
    if schedule.placement() == Placement::Mirrored { 2 * own } else { own }
}

/// The marks of a forward and of a backward: of two passes that are anything else, they do not add up to
/// [`PAIR`].
const FORWARD: u64 = 1 << 62;
const BACKWARD: u64 = 1 << 61;
const PAIR: u64 = FORWARD + BACKWARD;

/// The part of `pass` in the place of a pair in that table: the sum of those of both passes, less
/// [`PAIR`].
fn pair_of(schedule: &Schedule, pass: Pass) -> u64 {
    let (shape, chunk) = (schedule.shape(), usize::from(pass.chunk));
    let (lap, step) = (chunk / shape.stages(), chunk % shape.stages());
    let lap = match schedule.placement() {
        Placement::Mirrored => 2 * lap + usize::from(2 * step >= shape.stages()),
        Placement::Looped | Placement::Vee => lap,
    };
    match pass.kind {
        Kind::F => FORWARD + 2 * (laps(schedule) * chunk) as u64,
        Kind::B => BACKWARD + 2 * lap as u64,
        Kind::BW => BACKWARD + 2 * lap as u64 + 1,
        Kind::W | Kind::R | Kind::S | Kind::T => 0,
    }
}

/// How long the pair of `one` and `other` takes, by the table of those `known`.
#[inline]
fn pair_duration(known: &mut [u64], parts: &[u64], costs: &Costs, [one, other]: [Pass; 2]) -> u64 {
    let place = parts[step_of(one)] + parts[step_of(other)];
    let asked = || costs.of_slot(Slot::Pair(one, other)).0;
    let place = usize::try_from(place.wrapping_sub(PAIR)).unwrap_or(usize::MAX);
    let Some(known) = known.get_mut(place) else { return asked() };
    if *known == UNKNOWN {
        *known = asked();
    }
    *known
}

/// Notes that `pass` has made at `end` what it makes.
#[inline]
fn make(made: &mut Made, step: &Step, pass: Pass, end: u64) {
    let made = made.at(step.makes, pass);
    *made = if step.is_shared { end.max(*made) } else { end };
}

/// Times `passes` of a stage that is free at `free` and was `busy` before, each by its own value; the same afterwards.
#[inline]
fn walk_unpaired(
    steps: &[Step],
    made: &mut Made,
    passes: &[Pass],
    (mut free, mut busy): (u64, u64),
    mut record: impl FnMut(Pass, u64, u64),
) -> (u64, u64) {
    for &pass in passes {
        let step = steps[step_of(pass)];
        let start = free.max(ready(made, &step, pass));
        free = start + step.duration;
        busy += step.duration;
        *made.at(step.makes, pass) = free;
        record(pass, start, free);
    }
    (free, busy)
}

/// A pass of each kind in each chunk, and in each shard of the vocabulary where there are any.
fn passes(shape: Shape) -> impl Iterator<Item = Pass> {
    let shards = if shape.has_shards() { shape.stages() } else { 0 };
    let counts = move |kind: Kind| match kind.is_of_vocabulary() {
        true => u16::try_from(shards).unwrap_or(u16::MAX),
        false => shape.chunks(),
    };
    let of_kind =
        move |kind| (0..counts(kind)).map(move |chunk| Pass { kind, chunk, microbatch: 0 });
    Kind::ALL.into_iter().flat_map(of_kind)
}

/// When what `pass`, a pass of `step`, needs from another stage is there.
#[inline]
fn ready(made: &Made, step: &Step, pass: Pass) -> u64 {
    made.get(step.needs, pass) + step.hop
}

/// When everything the slot needs from other stages is there.
fn arrival(steps: &[Step], made: &Made, slot: Slot) -> u64 {
    let of = |pass: Pass| ready(made, &steps[step_of(pass)], pass);
    slot.passes().map(of).max().unwrap_or(0)
}
