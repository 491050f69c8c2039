//! The exact timing of an order where transfers never wait for each other.
//!
//! A slot starts when its stage is free and everything it needs is there. A value made on another
//! stage is there one hop after the pass that makes it has ended; a transfer never occupies a
//! stage. The schedule carries a walk in which every value is made before it is used, so timing
//! is one pass over it: no queue, and no allocation but for what is returned. What copies to the
//! host is timed by [`timed`], which follows the copy streams too.

use pipeline::{
    Costs, Fault, Kind, Metrics, Nanos, Order, Pass, Schedule, Slot, Span, StageTimes, Timeline,
};

use crate::timed::{self, Nominal};

/// A value that need not be waited for, because the pass needs none from another stage: time 0.
const NOTHING_NEEDED: usize = 0;
/// The place for what a pass makes that nobody needs.
const NOTHING_MADE: usize = 1;
/// Values begin behind these two rows.
const VALUES: usize = 2;

/// What the loop must know of a kind of pass in a chunk.
#[derive(Clone, Copy, Default)]
struct Step {
    duration: u64,
    /// Time from the end of the pass that makes what is needed to its arrival.
    hop: u64,
    /// Where the end of the pass that makes what is needed stands, for microbatch 0.
    needs: usize,
    /// Where the end of this pass goes, for microbatch 0.
    makes: usize,
}

/// Times schedules. Keeps its tables, so that one `Replay` times many schedules without asking for
/// memory again.
#[derive(Default)]
pub struct Replay {
    steps: Vec<Step>,
    /// End of the pass that makes each value: rows as in [`pipeline::Value::row`], behind the two
    /// special ones, one column per microbatch.
    made: Vec<u64>,
    at: Vec<usize>,
    stages: Vec<StageTimes>,
}

impl Replay {
    /// A replay with empty tables.
    #[must_use]
    pub fn new() -> Self {
        Self::default()
    }

    /// How long `schedule` takes under `costs`, stage by stage.
    ///
    /// # Errors
    /// If `costs` are those of another pipeline, or so large that the clock overflows.
    pub fn metrics(&mut self, schedule: &Schedule, costs: &Costs) -> Result<Metrics, Fault> {
        if schedule.copies().is_some() {
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
        if schedule.copies().is_some() {
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

    #[inline]
    fn run(
        &mut self,
        schedule: &Schedule,
        costs: &Costs,
        mut record: impl FnMut(usize, Slot, u64, u64),
    ) -> Result<(), Fault> {
        costs.check(schedule.shape())?;
        self.prepare(schedule, costs);
        let (steps, made) = (&self.steps[..], &mut self.made[..]);
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
            if order.is_unpaired() {
                for &pass in passes {
                    let step = steps[step_of(pass)];
                    let microbatch = pass.microbatch as usize;
                    let start = free.max(made[step.needs + microbatch] + step.hop);
                    free = start + step.duration;
                    busy += step.duration;
                    made[step.makes + microbatch] = free;
                    record(stage, Slot::One(pass), start, free);
                }
            } else {
                let mut at = begin;
                while at < self.at[stage] {
                    let slot = order.slot_at(at);
                    let start = free.max(arrival(steps, made, slot));
                    let duration = costs.of_slot(slot).0;
                    free = start + duration;
                    busy += duration;
                    for pass in slot.passes() {
                        made[steps[step_of(pass)].makes + pass.microbatch as usize] = free;
                        at += 1;
                    }
                    record(stage, slot, start, free);
                }
            }
            (times.last_end, times.busy) = (Nanos(free), Nanos(busy));
        }
        Ok(())
    }

    /// Fills the tables: what each kind of pass takes, needs from another stage and makes.
    fn prepare(&mut self, schedule: &Schedule, costs: &Costs) {
        let (shape, placement) = (schedule.shape(), schedule.placement());
        let microbatches = shape.microbatches() as usize;
        let place = |row: usize| (VALUES + row) * microbatches;
        self.steps.clear();
        for chunk in 0..shape.chunks() {
            for kind in Kind::ALL {
                let pass = Pass { kind, chunk, microbatch: 0 };
                let here = placement.stage(shape, chunk, 0);
                // What the stage itself makes stands before in its own order: no wait for that.
                let remote =
                    |value: &pipeline::Value| placement.stage(shape, value.chunk(), 0) != here;
                let needs = pass.needs(shape.chunks()).find(remote);
                self.steps.push(Step {
                    duration: costs.of(pass).0,
                    hop: if needs.is_some() { costs.hop().0 } else { 0 },
                    needs: needs
                        .map_or(NOTHING_NEEDED * microbatches, |v| place(v.row(shape.chunks()))),
                    makes: pass
                        .makes()
                        .map_or(NOTHING_MADE * microbatches, |v| place(v.row(shape.chunks()))),
                });
            }
        }
        // Every value is written before it is read; only "nothing needed" must be 0.
        self.made.resize((VALUES + 2 * usize::from(shape.chunks())) * microbatches, 0);
        self.made[..microbatches].fill(0);
        self.at.clear();
        self.at.resize(shape.stages(), 0);
        let zero = Nanos(0);
        self.stages.clear();
        let unused = StageTimes { first_start: zero, last_end: zero, busy: zero };
        self.stages.resize(shape.stages(), unused);
    }
}

#[inline]
fn step_of(pass: Pass) -> usize {
    usize::from(pass.chunk) * Kind::ALL.len() + pass.kind as usize
}

/// When everything the slot needs from other stages is there.
fn arrival(steps: &[Step], made: &[u64], slot: Slot) -> u64 {
    let of = |pass: Pass| {
        let step = steps[step_of(pass)];
        made[step.needs + pass.microbatch as usize] + step.hop
    };
    slot.passes().map(of).max().unwrap_or(0)
}
