//! Replay where stages that are busy at the same time change each other's speed: parts of one GPU, or cores
//! of one CPU, share memory bandwidth, caches and power.
//!
//! Every slot has two durations: alone, while no other stage is busy, and beside others, while so many of
//! them are as were busy when it was measured, the neighbours. While b other stages are busy, its duration
//! is the mean of both, weighted by min(b, neighbours) of the neighbours. Where b changes while a slot runs,
//! the share of its work that is left proceeds at the speed of the new b. Only which stages are busy
//! counts, not what they compute; transfers and waiting stages slow no stage down. Links are never
//! shared, as in [`Replay`](crate::Replay).

#[cfg(test)]
mod tests;

use std::num::NonZeroU32;

use pipeline::{Costs, Fault, Nanos, Order, Pass, Schedule, Slot, Span, Timeline};
use thiserror::Error;

/// The whole work of a slot, as the unit of the work left. Finer than a nanosecond of the longest
/// slot, and times the latest end it fits 128 bits.
const WHOLE: u128 = 1 << 62;

/// Why a schedule cannot be timed by its busy stages.
#[derive(Clone, PartialEq, Eq, Debug, Error)]
pub enum ContentionError {
    /// Costs of another pipeline, or so large that the clock overflows.
    #[error(transparent)]
    Costs(#[from] Fault),
    /// An output layer in shards, whose collectives join all stages.
    #[error(
        "durations by busy stages are for output layers on one stage: collectives of shards occupy devices during passes"
    )]
    Shards,
    /// Activations that go to the host.
    #[error(
        "durations by busy stages are for activations that stay on the device: copies to the host \
         share memory bandwidth with passes"
    )]
    Copies,
    /// Collectives of parameters and gradients.
    #[error(
        "durations by busy stages are for parameters that stay on their stage: their collectives share \
         memory bandwidth with passes"
    )]
    Collectives,
}

/// Durations that depend on how many stages are busy.
#[derive(Clone, Copy, Debug)]
pub struct Contention<'a> {
    /// Durations while no other stage is busy, and the hops.
    pub alone: &'a Costs,
    /// Durations while `neighbours` other stages are busy; shorter ones than alone are taken as they are.
    pub beside: &'a Costs,
    /// How many other stages are busy when a slot takes as long as `beside` says. More of them change
    /// nothing further.
    pub neighbours: NonZeroU32,
}

impl Contention<'_> {
    /// When every slot of `schedule` runs. Times are whole nanoseconds: the duration beside so many others
    /// and the end of a slot are each rounded to the nearest, and no slot takes less than the shorter of its
    /// two durations or more than the longer.
    ///
    /// # Errors
    /// If costs are those of another pipeline or overflow the clock, or something runs beside the passes:
    /// collectives, or copies to the host.
    pub fn timeline(&self, schedule: &Schedule) -> Result<Timeline, ContentionError> {
        self.check(schedule)?;
        let mut run = Run::new(self, schedule);
        while let Some(now) = run.next_event() {
            run.settle(now);
        }
        Ok(Timeline { stages: run.stages.into_iter().map(|stage| stage.done).collect() })
    }

    fn check(&self, schedule: &Schedule) -> Result<(), ContentionError> {
        let shape = schedule.shape();
        if shape.has_shards() {
            return Err(ContentionError::Shards);
        }
        if schedule.copies().is_some() {
            return Err(ContentionError::Copies);
        }
        if schedule.parameter_ops().is_some() {
            return Err(ContentionError::Collectives);
        }
        self.alone.check(shape)?;
        self.beside.check(shape)?;
        Ok(self.alone.hops().check_placed(shape, schedule.placement())?)
    }
}

/// A duration between `alone` and `beside`, by `part` of `whole` of the way, rounded to the nearest
/// nanosecond; `alone` where there is no whole. A part above the whole counts as the whole. The product of a
/// duration and `whole` must be below 2^127.
#[must_use]
pub fn interpolated(alone: Nanos, beside: Nanos, part: u128, whole: u128) -> Nanos {
    if whole == 0 {
        return alone;
    }
    let part = part.min(whole);
    let sum = u128::from(alone.0) * (whole - part) + u128::from(beside.0) * part;
    Nanos(u64::try_from((sum + whole / 2) / whole).unwrap_or(u64::MAX))
}

/// A slot that runs.
struct Running {
    slot: Slot,
    start: u64,
    alone: Nanos,
    beside: Nanos,
    /// How many other stages are busy since `since`, as far as they count.
    others: u32,
    /// How long all of it takes beside them.
    duration: u64,
    since: u64,
    /// How much of [`WHOLE`] was left then.
    left: u128,
    /// When it ends if no other stage begins or ends before.
    end: u64,
}

impl Running {
    /// Continues from `now` at the speed of a slot that takes `duration` in all. Where that is unchanged, its end
    /// is not rounded again.
    fn change_speed(&mut self, now: u64, duration: u64) {
        if duration == self.duration {
            return;
        }
        let passed = u128::from(now - self.since);
        let done = (passed * WHOLE).checked_div(u128::from(self.duration)).unwrap_or(0);
        self.left = self.left.saturating_sub(done);
        (self.since, self.duration) = (now, duration);
        let rest = (self.left * u128::from(duration) + WHOLE / 2) / WHOLE;
        let [one, other] = [self.alone, self.beside].map(|duration| self.start + duration.0);
        let end = now + u64::try_from(rest).unwrap_or(u64::MAX / 2);
        self.end = end.clamp(one.min(other), one.max(other));
    }
}

/// A stage while the schedule runs.
#[derive(Default)]
struct Stage {
    /// Number of passes of its order that have begun.
    begun: usize,
    running: Option<Running>,
    /// When its last slot ended.
    free: u64,
    done: Vec<Span>,
}

/// A schedule while it runs.
struct Run<'a> {
    contention: &'a Contention<'a>,
    schedule: &'a Schedule,
    stages: Vec<Stage>,
    /// When the pass ended that makes each value, once it has.
    made: Vec<Option<u64>>,
}

impl<'a> Run<'a> {
    fn new(contention: &'a Contention<'a>, schedule: &'a Schedule) -> Self {
        let stage = |order: &Order| Stage {
            done: Vec::with_capacity(order.passes().len()),
            ..Stage::default()
        };
        let stages = schedule.orders().iter().map(stage).collect();
        Self { contention, schedule, stages, made: vec![None; schedule.shape().value_cells()] }
    }

    /// The next time at which a slot ends or begins; none when all is done.
    fn next_event(&self) -> Option<u64> {
        let of = |(at, stage): (usize, &Stage)| match &stage.running {
            Some(running) => Some(running.end),
            None => self.ready(at).map(|(_, start)| start),
        };
        self.stages.iter().enumerate().filter_map(of).min()
    }

    /// The next slot of an idle stage, and when it can begin, if all that it needs has been made.
    fn ready(&self, stage: usize) -> Option<(Slot, u64)> {
        let (shape, placement) = (self.schedule.shape(), self.schedule.placement());
        let order = &self.schedule.orders()[stage];
        let Stage { begun, free, .. } = self.stages[stage];
        if begun == order.passes().len() {
            return None;
        }
        let slot = order.slot_at(begun);
        let mut start = free;
        for value in slot.received((shape, placement), stage) {
            let made = self.made[shape.value_cell(value)]?;
            let hop = self.contention.alone.arrival(value, (shape, placement), stage);
            start = start.max(made + hop.0);
        }
        Some((slot, start))
    }

    /// Ends and starts the slots that end or start at `now`. Slots of zero time may let further ones start, so this
    /// repeats to a fixed point; speeds change after all slots of a round have started.
    fn settle(&mut self, now: u64) {
        while self.end(now) | self.begin(now) {
            self.change_speeds(now);
        }
    }

    /// Ends the slots whose end is `now`; whether there was any.
    fn end(&mut self, now: u64) -> bool {
        let mut any = false;
        for stage in &mut self.stages {
            let Some(ended) = stage.running.take_if(|running| running.end <= now) else { continue };
            for value in ended.slot.passes().filter_map(Pass::makes) {
                self.made[self.schedule.shape().value_cell(value)] = Some(now);
            }
            stage.free = now;
            stage.done.push(Span { slot: ended.slot, start: Nanos(ended.start), end: Nanos(now) });
            any = true;
        }
        any
    }

    /// Begins the slots that can begin at `now`; whether there was any.
    fn begin(&mut self, now: u64) -> bool {
        let mut any = false;
        for at in 0..self.stages.len() {
            if self.stages[at].running.is_some() {
                continue;
            }
            let Some((slot, _)) = self.ready(at).filter(|&(_, start)| start <= now) else {
                continue;
            };
            let Contention { alone, beside, .. } = self.contention;
            let [alone, beside] = [alone, beside].map(|costs| costs.of_slot(slot));
            let (duration, end) = (alone.0, now + alone.0);
            let (start, since, left) = (now, now, WHOLE);
            let running =
                Running { slot, start, alone, beside, others: 0, duration, since, left, end };
            let stage = &mut self.stages[at];
            stage.running = Some(running);
            stage.begun += slot.passes().count();
            any = true;
        }
        any
    }

    /// Gives every slot that runs the speed that it has from `now` on.
    fn change_speeds(&mut self, now: u64) {
        let neighbours = self.contention.neighbours.get();
        let busy = self.stages.iter().filter(|stage| stage.running.is_some()).count();
        let others = u32::try_from(busy.saturating_sub(1)).unwrap_or(u32::MAX).min(neighbours);
        for running in self.stages.iter_mut().filter_map(|stage| stage.running.as_mut()) {
            if running.others != others {
                let Running { alone, beside, .. } = *running;
                let duration = interpolated(alone, beside, others.into(), neighbours.into());
                running.others = others;
                running.change_speed(now, duration.0);
            }
        }
    }
}
