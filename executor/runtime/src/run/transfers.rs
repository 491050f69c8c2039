//! In which order values cross between stages: agreed on by all, so that it need not be negotiated.

use pipeline::{Schedule, Value};

use super::barrier::Parts;

/// One end of a transfer.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum Way {
    /// Hands the value to the peer.
    Send,
    /// Takes it from the peer.
    Receive,
}

/// One end of a transfer.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct Post {
    /// It stands before the slot of this index in the order of its stage; at the number of slots if
    /// behind the last.
    pub before: usize,
    /// To or from the peer.
    pub way: Way,
    /// The other stage.
    pub peer: usize,
    /// The value that crosses.
    pub value: Value,
    /// Those of one round cross at once: a stage may begin its ends of them as one.
    pub round: u64,
}

/// All transfers of one step.
///
/// They are ordered by when they would happen if every pass took the same time, and each stage has
/// its part of that one order. Even where a transfer holds up both ends until both are there
/// (rendezvous, as with NCCL), the earliest that is not done has both ends free to do it, so that
/// no stage waits for ever.
#[derive(Clone, PartialEq, Eq, Debug)]
pub struct Transfers {
    posts: Vec<Vec<Post>>,
}

/// A value that crosses, and when it is made.
struct Crossing {
    time: u64,
    value: Value,
    from: usize,
    to: usize,
}

impl Transfers {
    /// The transfers of `schedule`.
    #[must_use]
    pub fn of(schedule: &Schedule) -> Self {
        let (starts, mut crossings) = replay(schedule);
        // The sort keeps the order of those made at once, which is that of their slots on a stage.
        crossings.sort_by_key(|crossing| crossing.time);
        let mut posts = vec![Vec::new(); schedule.shape().stages()];
        for Crossing { time, value, from, to } in crossings {
            let before = starts[to].partition_point(|&start| start < time);
            posts[to].push(Post { before, way: Way::Receive, peer: from, value, round: time });
            let before = starts[from].partition_point(|&start| start < time);
            posts[from].push(Post { before, way: Way::Send, peer: to, value, round: time });
        }
        Self { posts }
    }

    /// The ends of `stage`, in order.
    ///
    /// # Panics
    /// If there is no such stage.
    #[must_use]
    pub fn of_stage(&self, stage: usize) -> &[Post] {
        &self.posts[stage]
    }

    /// The values that `from` sends to `to`, in order.
    ///
    /// # Panics
    /// If there is no stage `from`.
    #[must_use]
    pub fn between(&self, from: usize, to: usize) -> Vec<Value> {
        let sent = |post: &&Post| post.way == Way::Send && post.peer == to;
        self.posts[from].iter().filter(sent).map(|post| post.value).collect()
    }
}

/// When each slot starts if every pass takes one unit of time and transfers none, and what crosses.
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
                let all = taken.chain(parts.given(stage, pass));
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
