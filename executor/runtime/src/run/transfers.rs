//! The order of the transfers between stages: all stages know it, so that it is not negotiated.

use pipeline::{Schedule, Value};

use super::parts::Parts;

/// The side of a transfer that a stage takes.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum Direction {
    /// Sends the value to the peer.
    Send,
    /// Receives the value from the peer.
    Receive,
}

/// One side of a transfer. In torch's schedules these are SEND_F and RECV_F for an output, SEND_B and
/// RECV_B for a gradient.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct P2pAction {
    /// Index of the slot of its stage before which it stands; the number of slots if it comes after
    /// the last.
    pub before: usize,
    /// Send or receive.
    pub direction: Direction,
    /// The other stage.
    pub peer: usize,
    pub value: Value,
    /// Actions of one round run at once: a stage may begin them as one group.
    pub round: u64,
}

/// All transfers of one step.
///
/// They are ordered by the time at which they would happen if every pass took the same time, and
/// each stage has its part of this one order. Even where a transfer blocks both ends until both are
/// ready (rendezvous, as with NCCL), the earliest unfinished transfer has both ends free, so that
/// no stage deadlocks.
#[derive(Clone, PartialEq, Eq, Debug)]
pub struct Transfers {
    actions: Vec<Vec<P2pAction>>,
}

/// A value that crosses between stages, and when it is made.
struct Crossing {
    time: u64,
    value: Value,
    from: usize,
    to: usize,
}

impl Transfers {
    #[must_use]
    pub fn of(schedule: &Schedule) -> Self {
        let (starts, mut crossings) = replay(schedule);
        // The sort is stable: values made at once stay in the order of their slots on a stage.
        crossings.sort_by_key(|crossing| crossing.time);
        let mut actions = vec![Vec::new(); schedule.shape().stages()];
        for Crossing { time, value, from, to } in crossings {
            let before = starts[to].partition_point(|&start| start < time);
            actions[to].push(P2pAction {
                before,
                direction: Direction::Receive,
                peer: from,
                value,
                round: time,
            });
            let before = starts[from].partition_point(|&start| start < time);
            actions[from].push(P2pAction {
                before,
                direction: Direction::Send,
                peer: to,
                value,
                round: time,
            });
        }
        Self { actions }
    }

    /// The actions of `stage`, in order.
    ///
    /// # Panics
    /// If there is no such stage.
    #[must_use]
    pub fn of_stage(&self, stage: usize) -> &[P2pAction] {
        &self.actions[stage]
    }

    /// The values that `from` sends to `to`, in order.
    ///
    /// # Panics
    /// If there is no stage `from`.
    #[must_use]
    pub fn between(&self, from: usize, to: usize) -> Vec<Value> {
        let sent = |action: &&P2pAction| action.direction == Direction::Send && action.peer == to;
        self.actions[from].iter().filter(sent).map(|action| action.value).collect()
    }
}

/// The start of each slot if every pass takes one unit of time and every transfer none, and the
/// values that cross.
fn replay(schedule: &Schedule) -> (Vec<Vec<u64>>, Vec<Crossing>) {
    let (shape, placement) = (schedule.shape(), schedule.placement());
    let chunks = shape.chunks();
    let home = |chunk, value: Value| placement.stage(shape, chunk, value.microbatch());
    let parts = Parts::of(schedule);
    let mut made = vec![0u64; shape.value_cells()];
    let mut starts = vec![Vec::new(); shape.stages()];
    let mut free = vec![0u64; shape.stages()];
    let mut at = vec![0usize; shape.stages()];
    let mut crossings = Vec::new();
    for run in schedule.walk() {
        let stage = run.stage as usize;
        let until = at[stage] + run.passes as usize;
        while at[stage] < until {
            let slot = schedule.orders()[stage].slot_at(at[stage]);
            let needs = slot.passes().flat_map(|pass| pass.needs(shape));
            let start =
                needs.map(|value| made[shape.value_cell(value)]).fold(free[stage], u64::max);
            let passes = slot.passes().count();
            let end = start + passes as u64;
            for pass in slot.passes() {
                let Some(value) = pass.makes() else { continue };
                let made = &mut made[shape.value_cell(value)];
                *made = end.max(*made);
                let taker = value.taken_by(chunks).map(|chunk| (value, home(chunk, value)));
                let taken = taker.filter(|&(_, to)| to != stage).into_iter();
                let all = taken.chain(parts.sent(stage, pass));
                crossings.extend(all.map(|(value, to)| {
                    let (time, from) = (end, stage);
                    Crossing { time, value, from, to }
                }));
            }
            starts[stage].push(start);
            free[stage] = end;
            at[stage] += passes;
        }
    }
    (starts, crossings)
}
