//! The dependency graph of a step, and the length of the step that follows.

use crate::dependency::{ALONE, Meeting, Parts, Wait, Waits};
use crate::error::TraceError;
use crate::hops::Edge;
use crate::operation::{OpType, Operation};
use crate::values::wait_for_values;
use crate::waits::{meetings, wait_in_rank};

/// The dependency graph of a step. Operations are named by their place in it.
pub(crate) struct Graph {
    /// All operations, each behind those that it waits for.
    order: Vec<u32>,
    /// Where the waits of each operation begin, and the end of all.
    waits_at: Vec<u32>,
    waits: Vec<Wait>,
    meeting: Vec<u32>,
    meetings: Vec<Meeting>,
    members: Vec<u32>,
    /// The values that cross to another rank without a transfer in the trace.
    edges: Vec<Edge>,
}

impl Graph {
    /// Infers the dependencies between operations.
    pub(crate) fn new(parts: &Parts<'_>) -> Result<Self, TraceError> {
        let mut waits = Waits::new();
        for rank in &parts.ranks {
            wait_in_rank(parts.operations, rank.clone(), &mut waits)?;
        }
        let edges = wait_for_values(parts, &mut waits)?;
        let (meeting, meetings, members) = meetings(parts)?;
        let (waits_at, waits) = by_operation(parts.operations.len(), &waits);
        let mut graph =
            Self { order: Vec::new(), waits_at, waits, meeting, meetings, members, edges };
        graph.find_order();
        if graph.order.len() < parts.operations.len() {
            let mut posted = vec![false; parts.operations.len()];
            graph.order.iter().for_each(|&one| posted[one as usize] = true);
            let stuck = posted.iter().position(|posted| !posted).unwrap_or_default();
            let Operation { step, dp_rank, stage, .. } = parts.operations[stuck];
            let operation = parts.operations[stuck].to_string();
            return Err(TraceError::Deadlock { step, dp_rank, stage, operation });
        }
        Ok(graph)
    }

    /// Orders the operations so that each comes behind those that it waits for, as far as that is
    /// possible.
    fn find_order(&mut self) {
        let count = self.meeting.len();
        let mut open: Vec<u32> = self.waits_at.windows(2).map(|at| at[1] - at[0]).collect();
        let users: Waits = (0..count)
            .flat_map(|one| self.waits(one).iter().map(move |wait| (wait.on, one, wait)))
            .map(|(on, one, wait)| (on, Wait { on: u32::try_from(one).unwrap_or(ALONE), ..*wait }))
            .collect();
        let (users_at, users) = by_operation(count, &users);
        let mut to_come: Vec<u32> = self.meetings.iter().map(|meeting| meeting.count).collect();
        let all = 0..u32::try_from(count).unwrap_or(ALONE);
        let mut ready: Vec<u32> = all.rev().filter(|&one| open[one as usize] == 0).collect();
        let mut release = |ready: &mut Vec<u32>, one: u32, at_start: bool| {
            let [from, to] = [0, 1].map(|next| users_at[one as usize + next] as usize);
            for user in users[from..to].iter().filter(|user| user.start_is_enough == at_start) {
                open[user.on as usize] -= 1;
                if open[user.on as usize] == 0 {
                    ready.push(user.on);
                }
            }
        };
        while let Some(one) = ready.pop() {
            self.order.push(one);
            release(&mut ready, one, true);
            match self.meeting[one as usize] {
                ALONE => release(&mut ready, one, false),
                at => {
                    let meeting = &mut self.meetings[at as usize];
                    to_come[at as usize] -= 1;
                    if to_come[at as usize] == 0 {
                        meeting.last = one;
                        let members = meeting.first as usize..;
                        for &member in &self.members[members][..meeting.count as usize] {
                            release(&mut ready, member, false);
                        }
                    }
                }
            }
        }
    }

    /// The values that cross to another rank without a transfer in the trace.
    pub(crate) fn edges(&self) -> &[Edge] {
        &self.edges
    }

    fn waits(&self, one: usize) -> &[Wait] {
        &self.waits[self.waits_at[one] as usize..self.waits_at[one + 1] as usize]
    }

    fn members(&self, meeting: u32) -> &[u32] {
        let Meeting { first, count, .. } = self.meetings[meeting as usize];
        &self.members[first as usize..][..count as usize]
    }

    /// Duration of each operation by itself: a collective from its last start, and a transfer
    /// until its first end; clamped at zero, since the clocks of two ranks may differ.
    pub(crate) fn own_times(&self, operations: &[Operation]) -> Vec<u64> {
        let mut own: Vec<u64> = operations.iter().map(|one| one.duration.0).collect();
        for at in (0u32..).take(self.meetings.len()) {
            let members = self.members(at);
            let of = |member: &u32| &operations[*member as usize];
            let last_start = members.iter().map(|member| of(member).start).max();
            let first_end = members.iter().map(|member| of(member).end()).min();
            let (last_start, first_end) =
                (last_start.unwrap_or_default(), first_end.unwrap_or_default());
            for member in members {
                let end = match of(member).optype {
                    OpType::Transfer(..) => first_end,
                    _ => of(member).end(),
                };
                own[*member as usize] = end.0.saturating_sub(last_start.0);
            }
        }
        own
    }

    /// How long after everything it waits for was there each operation really started.
    pub(crate) fn launch_delays(
        &self,
        operations: &[Operation],
        begin: u64,
        hops: &[u64],
    ) -> Vec<u64> {
        let ready = |one: usize| {
            let of = |wait: &Wait| {
                let on = &operations[wait.on as usize];
                let reached = if wait.start_is_enough { on.start } else { on.end() };
                reached.0.saturating_add(wait.hop(hops))
            };
            self.waits(one).iter().map(of).max().unwrap_or(begin)
        };
        let all = operations.iter().enumerate();
        all.map(|(one, operation)| operation.start.0.saturating_sub(ready(one))).collect()
    }

    /// When the last operation ends, where each takes its time of `own` and starts `launch` after
    /// it could, and each edge its hop, none where there are no `hops`. All ranks begin at 0.
    pub(crate) fn predict(&self, own: &[u64], launch: &[u64], hops: &[u64]) -> u64 {
        let mut start = vec![0u64; own.len()];
        let mut end = vec![0u64; own.len()];
        for &at in &self.order {
            let one = at as usize;
            let reached = |wait: &Wait| {
                let times = if wait.start_is_enough { &start } else { &end };
                times[wait.on as usize].saturating_add(wait.hop(hops))
            };
            let ready = self.waits(one).iter().map(reached).max().unwrap_or(0);
            start[one] = ready.saturating_add(launch.get(one).copied().unwrap_or(0));
            let meeting = self.meeting[one];
            if meeting == ALONE {
                end[one] = start[one].saturating_add(own[one]);
            } else if self.meetings[meeting as usize].last == at {
                let members = self.members(meeting);
                let begin = members.iter().map(|&member| start[member as usize]).max();
                for &member in members {
                    let own = own[member as usize];
                    end[member as usize] = begin.unwrap_or(0).saturating_add(own);
                }
            }
        }
        end.into_iter().max().unwrap_or(0)
    }
}

/// Sorts waits by the operation that waits: where those of each begin, and all of them.
fn by_operation(count: usize, waits: &Waits) -> (Vec<u32>, Vec<Wait>) {
    let mut at = vec![0u32; count + 1];
    waits.iter().for_each(|(one, _)| at[*one as usize + 1] += 1);
    for one in 0..count {
        at[one + 1] += at[one];
    }
    let mut next = at.clone();
    let none = Wait { on: 0, start_is_enough: false, edge: ALONE };
    let mut sorted = vec![none; waits.len()];
    for &(one, wait) in waits {
        let place = &mut next[one as usize];
        sorted[*place as usize] = wait;
        *place += 1;
    }
    (at, sorted)
}
