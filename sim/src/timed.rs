//! Replay where every pass and every hop may take its own time: stragglers, jitter, the durations
//! of a real run. Links are still never shared.

use pipeline::sharding::ParameterTimes;
use pipeline::{
    CopyDirection, Costs, Footprints, Metrics, Nanos, Pass, Schedule, Slot, Span, StageTimes,
    Timeline, Value,
};

use crate::host_copy::{self, Clock, HostCopy};
use crate::sharded::{self, ParameterSpan};

/// Durations of passes, transfers, collectives and copies, in nanoseconds.
pub trait Timing {
    /// When `stage` may begin at the earliest.
    fn begin(&self, stage: usize) -> u64 {
        let _ = stage;
        0
    }

    /// Duration of `pass` on `stage`, whose clock shows `start`, with all it does one after the other.
    fn duration(&self, stage: usize, pass: Pass, start: u64) -> u64;

    /// Duration of `slot` on `stage`, whose clock shows `start`: its passes one after the other, unless
    /// their segments share the streams of the device ([`pipeline::overlap`]).
    fn slot(&self, stage: usize, slot: Slot, start: u64) -> u64 {
        let then = |time: u64, pass| {
            time.saturating_add(self.duration(stage, pass, start.saturating_add(time)))
        };
        slot.passes().fold(0, then)
    }

    /// How long `value` travels between two stages, from the end of the pass that makes it, at
    /// `start`.
    fn hop(&self, value: Value, from: usize, to: usize, start: u64) -> u64;

    /// How long the collective takes that hands on `value`, from the end of the last pass that takes
    /// part, at `start`.
    fn collective(&self, value: Value, start: u64) -> u64;

    /// How long an activation of `chunk`, all of it, takes to the host or back: no time unless said.
    fn copy(&self, chunk: u16, way: CopyDirection) -> u64 {
        let _ = (chunk, way);
        0
    }

    /// How long collectives of parameters and gradients take: no time unless said.
    fn parameters(&self) -> Option<&ParameterTimes> {
        None
    }
}

/// Every pass and hop takes its nominal time.
#[derive(Clone, Copy, Debug)]
pub struct Nominal<'a>(pub &'a Costs);

impl Timing for Nominal<'_> {
    fn duration(&self, _: usize, pass: Pass, _: u64) -> u64 {
        self.0.of(pass).0
    }

    fn slot(&self, _: usize, slot: Slot, _: u64) -> u64 {
        self.0.of_slot(slot).0
    }

    fn hop(&self, _: Value, from: usize, to: usize, _: u64) -> u64 {
        self.0.hops().between(from, to).0
    }

    fn collective(&self, value: Value, _: u64) -> u64 {
        self.0.collectives().of(value).0
    }

    fn copy(&self, chunk: u16, way: CopyDirection) -> u64 {
        self.0.copy(chunk, way).0
    }

    fn parameters(&self) -> Option<&ParameterTimes> {
        self.0.parameters()
    }
}

/// Operations that run concurrently with the slots of a step.
#[derive(Clone, Default, Debug)]
pub struct SideOps {
    /// Every activation that goes to the host and comes back, by forward.
    pub copies: Vec<HostCopy>,
    /// Every collective of parameters and gradients, by stage and time.
    pub parameters: Vec<ParameterSpan>,
}

/// When every slot of `schedule` runs under `timing`.
#[must_use]
pub fn timeline(schedule: &Schedule, timing: &impl Timing) -> Timeline {
    let mut stages: Vec<Vec<Span>> = vec![Vec::new(); schedule.shape().stages()];
    run(schedule, timing, |stage, slot, start, end| {
        stages[stage].push(Span { slot, start: Nanos(start), end: Nanos(end) });
    });
    Timeline { stages }
}

/// When every activation goes to the host and comes back under `timing`, and how much of it, where a
/// chunk keeps `footprints`.
///
/// # Panics
/// If the footprints are those of another pipeline.
#[must_use]
pub fn host_copies(
    schedule: &Schedule,
    timing: &impl Timing,
    footprints: &Footprints,
) -> Vec<HostCopy> {
    if schedule.copies().is_none() {
        return Vec::new();
    }
    sized(run(schedule, timing, |_, _, _, _| {}).copies, schedule, footprints)
}

/// When every slot of `schedule` runs under `timing`, and what happens beside them, where a chunk keeps
/// `footprints`.
///
/// # Panics
/// If the footprints are those of another pipeline.
#[must_use]
pub fn record(
    schedule: &Schedule,
    timing: &impl Timing,
    footprints: &Footprints,
) -> (Timeline, SideOps) {
    let mut stages: Vec<Vec<Span>> = vec![Vec::new(); schedule.shape().stages()];
    let SideOps { copies, parameters } = run(schedule, timing, |stage, slot, start, end| {
        stages[stage].push(Span { slot, start: Nanos(start), end: Nanos(end) });
    });
    let copies = sized(copies, schedule, footprints);
    (Timeline { stages }, SideOps { copies, parameters })
}

/// `done`, copies of `schedule`, with the bytes that each of them moves.
fn sized(mut done: Vec<HostCopy>, schedule: &Schedule, footprints: &Footprints) -> Vec<HostCopy> {
    if let Some(copies) = schedule.copies() {
        for copy in &mut done {
            copy.bytes = host_copy::bytes(copies, footprints, copy.pass.chunk);
        }
    }
    done
}

/// Duration of `schedule` under `timing`, stage by stage.
#[must_use]
pub fn metrics(schedule: &Schedule, timing: &impl Timing) -> Metrics {
    let zero = Nanos(0);
    let unused = StageTimes { first_start: zero, last_end: zero, busy: zero };
    let mut stages = vec![None; schedule.shape().stages()];
    let beside = run(schedule, timing, |stage, _, start, end| {
        let times = stages[stage].get_or_insert(StageTimes { first_start: Nanos(start), ..unused });
        times.last_end = Nanos(end);
        times.busy += Nanos(end - start);
    });
    let stages = stages.into_iter().map(|stage| stage.unwrap_or(unused)).collect();
    let mut metrics = Metrics { stages };
    sharded::widen(&mut metrics, beside.parameters);
    metrics
}

/// Times the slots in the order of the schedule's walk, in which every value is made before it is used. Copies to the
/// host and collectives of parameters and gradients depend only on their own stage.
pub(crate) fn run(
    schedule: &Schedule,
    timing: &impl Timing,
    mut record: impl FnMut(usize, Slot, u64, u64),
) -> SideOps {
    let mut parameters = sharded::Clock::new(schedule, timing.parameters());
    let mut copies = schedule.copies().and_then(|copies| {
        let part = copies.part();
        Clock::new(schedule, move |chunk, way| part.of_time(Nanos(timing.copy(chunk, way))).0)
    });
    let shape = schedule.shape();
    let mut made = vec![0u64; shape.value_cells()];
    let mut at = vec![0usize; shape.stages()];
    let mut free: Vec<u64> = (0..shape.stages()).map(|stage| timing.begin(stage)).collect();
    if let Some(parameters) = &mut parameters {
        free.iter().enumerate().for_each(|(stage, &begin)| parameters.begin(stage, 0, begin));
    }
    for run in schedule.walk() {
        let stage = run.stage as usize;
        let order = &schedule.orders()[stage];
        let end = at[stage] + run.passes as usize;
        while at[stage] < end {
            let slot = order.slot_at(at[stage]);
            let mut start = free[stage];
            if let Some(copies) = &mut copies {
                start = start.max(copies.ready(stage, slot));
            }
            start = start.max(inputs_ready(schedule, timing, &made, (stage, slot)));
            if let Some(parameters) = &mut parameters {
                start = parameters.ready(stage, start);
            }
            let work = timing.slot(stage, slot, start);
            let done = match &mut parameters {
                Some(parameters) => parameters.run(stage, start, work),
                None => start.saturating_add(work),
            };
            at[stage] += slot.passes().count();
            for value in slot.passes().filter_map(Pass::makes) {
                let made = &mut made[shape.value_cell(value)];
                *made = done.max(*made);
            }
            if let Some(copies) = &mut copies {
                copies.end(stage, done);
            }
            free[stage] = done;
            record(stage, slot, start, done);
        }
    }
    SideOps {
        copies: copies.map_or_else(Vec::new, Clock::into_done),
        parameters: parameters.map_or_else(Vec::new, sharded::Clock::into_spans),
    }
}

/// When the last input of a slot has arrived on its stage; `made` are the times at which values were made.
#[inline]
fn inputs_ready(
    schedule: &Schedule,
    timing: &impl Timing,
    made: &[u64],
    (stage, slot): (usize, Slot),
) -> u64 {
    let (shape, placement) = (schedule.shape(), schedule.placement());
    let arrival = |value: Value| {
        let made = made[shape.value_cell(value)];
        let hop = match placement.maker(shape, value) {
            Some(from) if from == stage => 0,
            Some(from) if !value.is_collective(shape) => timing.hop(value, from, stage, made),
            _ => timing.collective(value, made),
        };
        made.saturating_add(hop)
    };
    slot.passes().flat_map(|pass| pass.needs(shape)).map(arrival).max().unwrap_or(0)
}
