//! Slots that run segment by segment: those whose all-to-alls are flows on the wires of the cluster.
//!
//! The two streams of the device run by the rule of [`pipeline::overlap`]. A segment of communication with
//! bytes is a flow over the ports of its device for what stays in the node and one through its NIC for what
//! leaves it ([`crate::ExpertGroup::loads`]), which share those wires with everything else that moves. It ends when
//! its own work is done, as in a composition, and the last byte of the last flow is there. Alone on its
//! wires it takes exactly its time; a slot none of whose segments is held up takes what replay says.

use std::sync::Arc;

use pipeline::overlap::{Execution, Pace, Program, TICKS};
use pipeline::{Bytes, Nanos, Slot, Span};

use super::numbers::{scale, small};
use super::queue::{Event, check_flow};
use super::state::{Carried, EventLoop};
use super::{Durations, Job};
use crate::network::LAST;

/// A moment that has not come.
const NEVER: u64 = u64::MAX;

/// The slot that a stage runs segment by segment.
struct Running {
    program: Arc<Program>,
    execution: Execution,
    /// How long its passes take one after the other, and by their segments.
    pace: Pace,
    begin: u64,
    /// Duration of the slot if no wire holds it up.
    alone: u64,
    /// How many flows of its present segment are under way.
    moving: u32,
    /// When its stage is to be woken.
    wake: u64,
}

/// By stage, the slot that it runs segment by segment; empty where no segment moves bytes.
#[derive(Default)]
pub(super) struct Segments {
    running: Vec<Running>,
    /// By wire, the bytes that they have moved.
    moved: Vec<Bytes>,
}

/// Whether slots of `job` have segments that move over its wires.
pub(super) fn move_bytes(job: &Job<'_>) -> bool {
    let has_wires = job.experts.is_some() && !job.cluster.wires().is_empty();
    has_wires && job.costs.overlap().is_some_and(pipeline::overlap::Overlap::moves_bytes)
}

impl Segments {
    pub(super) fn new(job: &Job<'_>) -> Self {
        let stages = if move_bytes(job) { job.schedule.shape().stages() } else { 0 };
        let running = (0..stages).map(|_| Running {
            program: Arc::default(),
            execution: Execution::default(),
            pace: Pace::NOMINAL,
            begin: 0,
            alone: 0,
            moving: 0,
            wake: NEVER,
        });
        let wires = if stages > 0 { job.cluster.wires().len() } else { 0 };
        Self { running: running.collect(), moved: vec![Bytes(0); wires] }
    }

    pub(super) fn into_moved(self) -> Vec<Bytes> {
        self.moved
    }
}

impl<C: Durations> EventLoop<'_, C> {
    /// Begins `slot` on `stage` segment by segment if it moves bytes, and says whether it does. Its passes
    /// take `apart` one after the other.
    pub(super) fn begin_segments(&mut self, stage: usize, slot: Slot, apart: u64) -> bool {
        let Some(running) = self.segments.running.get_mut(stage) else { return false };
        let costs = self.job.costs;
        let program = costs.overlap().and_then(|overlap| overlap.program(slot));
        let Some(program) = program.filter(|program| program.moves_bytes()) else { return false };
        let nominal: Nanos = slot.passes().map(|pass| costs.of(pass)).sum();
        let actual = Nanos(apart);
        running.pace = Pace { actual, nominal };
        running.alone = costs.slot_at_pace(slot, actual).0;
        running.execution.begin(&program, running.pace);
        running.program = program;
        (running.begin, running.moving, running.wake) = (self.now, 0, NEVER);
        // Its end is not known yet.
        let now = Nanos(self.now);
        self.timeline[stage].push(Span { slot, start: now, end: now });
        self.run_segments(stage);
        true
    }

    /// Whether `stage` is to be woken now.
    pub(super) fn is_awaited(&self, now: u64, stage: usize) -> bool {
        self.segments.running.get(stage).is_some_and(|running| running.wake == now)
    }

    /// Goes on with the segments of `stage` as far as the clock is.
    pub(super) fn run_segments(&mut self, stage: usize) {
        loop {
            let running = &mut self.segments.running[stage];
            let Running { program, execution, begin, wake, .. } = running;
            let mut moves = None;
            execution.start(program, &mut |step| {
                let bytes = program.bytes(step);
                if bytes.0 > 0 {
                    moves = Some(bytes.0);
                }
                bytes.0 > 0
            });
            if let Some(bytes) = moves {
                self.begin_flows(stage, bytes);
                continue;
            }
            match execution.next(program) {
                None if execution.is_over() => return self.end_segments(stage),
                // The wires will say.
                None => return,
                Some(moment) => {
                    let time = begin.saturating_add(whole(moment / TICKS)).min(LAST);
                    if time > self.now {
                        if *wake != time {
                            *wake = time;
                            self.queue.push(time, Event::Segment { stage: small(stage) });
                        }
                        return;
                    }
                    execution.advance(program, &mut |_| {});
                }
            }
        }
    }

    /// Sets the `bytes` of the segment that has started on their ways.
    fn begin_flows(&mut self, stage: usize, bytes: u64) {
        let Job { experts, cluster, seats, .. } = *self.job;
        let device = seats.device(stage);
        let loads = experts.map(|group| group.loads(cluster, device, Bytes(bytes)));
        let pace = self.segments.running[stage].pace;
        let mut moving = 0;
        for load in loads.into_iter().flatten().flatten() {
            let bytes = hastened(load.bytes, pace);
            if bytes == 0 {
                continue;
            }
            let queue = &mut self.queue;
            let look = &mut |one| check_flow(queue, one);
            let flow = self.network.begin(self.now, &load.wires, bytes, look);
            self.carry(flow, Carried::Segment(small(stage)));
            moving += 1;
            for wire in load.wires {
                let moved = &mut self.segments.moved[wire];
                *moved = Bytes(moved.0.saturating_add(bytes));
            }
        }
        let running = &mut self.segments.running[stage];
        running.moving = moving;
        if moving == 0 {
            running.execution.release(0);
        }
    }

    /// A flow of the present segment of `stage` has sent its last byte.
    pub(super) fn end_segment_flow(&mut self, stage: usize) {
        let latency = self.job.experts.map_or(Nanos(0), |group| group.latency(self.job.cluster));
        let running = &mut self.segments.running[stage];
        running.moving -= 1;
        if running.moving > 0 {
            return;
        }
        let there = self.now.saturating_add(hastened(latency.0, running.pace));
        running.execution.release(u128::from(there - running.begin) * TICKS);
        self.run_segments(stage);
    }

    /// All segments of the slot of `stage` have ended.
    fn end_segments(&mut self, stage: usize) {
        let running = &mut self.segments.running[stage];
        running.wake = NEVER;
        let time = match running.execution.is_delayed() {
            true => whole(running.execution.now().div_ceil(TICKS)),
            false => running.alone,
        };
        let begin = running.begin;
        // The slowdown by concurrent collectives of parameters is added at its end.
        let end = self.parameters.run(stage, begin, time).max(self.now);
        if let Some(span) = self.timeline[stage].last_mut() {
            span.end = Nanos(end);
        }
        self.queue.push(end, Event::SlotEnd { stage: small(stage) });
    }
}

/// `amount` of what moves for a slot at `pace`: passes that noise makes shorter move less, so that their
/// communication is shorter too; those that it makes longer wait elsewhere than on the wires.
fn hastened(amount: u64, pace: Pace) -> u64 {
    let Pace { actual, nominal } = pace;
    if actual >= nominal { amount } else { scale(amount, actual.0, nominal.0) }
}

fn whole(ticks: u128) -> u64 {
    u64::try_from(ticks).unwrap_or(u64::MAX)
}

#[cfg(test)]
mod tests;
