//! Who waits for whom in a step, and what follows for its length.

use std::collections::BTreeMap;

use pipeline::{Placement, Shape, Value};

use crate::error::TraceError;
use crate::operation::{Direction, OpType, Operation, Side};

/// What an operation waits for besides those it is done together with.
#[derive(Clone, Copy)]
struct Wait {
    /// The other operation, by its place in the step.
    on: u32,
    /// Whether its start is enough.
    start_is_enough: bool,
    /// Time from then on until it can start.
    hop: u64,
}

/// Operations that several ranks do together.
struct Meeting {
    /// Where its operations stand in [`Graph::members`].
    first: u32,
    count: u32,
    /// The one that comes last in [`Graph::order`].
    last: u32,
}

/// No meeting.
const ALONE: u32 = u32::MAX;

/// The most operations that a rank has under way at once.
const CROWD: usize = 64;

/// Who waits for whom in a step. Operations are named by their place in it.
pub(crate) struct Graph {
    /// All operations, each behind what it waits for.
    order: Vec<u32>,
    /// Where the waits of each operation begin, and the end of all.
    waits_at: Vec<u32>,
    waits: Vec<Wait>,
    meeting: Vec<u32>,
    meetings: Vec<Meeting>,
    members: Vec<u32>,
}

/// A step while its graph is made: its operations rank by rank, each rank's by start.
pub(crate) struct Parts<'a> {
    pub(crate) operations: &'a [Operation],
    /// The places of each rank's operations.
    pub(crate) ranks: Vec<std::ops::Range<usize>>,
    pub(crate) shape: Shape,
    pub(crate) placement: Placement,
}

type Waits = Vec<(u32, Wait)>;

impl Graph {
    /// Finds out who waited for whom.
    pub(crate) fn new(parts: &Parts<'_>) -> Result<Self, TraceError> {
        let mut waits = Waits::new();
        for rank in &parts.ranks {
            wait_in_rank(parts.operations, rank.clone(), &mut waits)?;
        }
        wait_for_values(parts, &mut waits)?;
        let (meeting, meetings, members) = meetings(parts)?;
        let (waits_at, waits) = by_operation(parts.operations.len(), &waits);
        let mut graph = Self { order: Vec::new(), waits_at, waits, meeting, meetings, members };
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

    /// Puts every operation behind what it waits for, as far as that is possible.
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

    /// The longest hop on a link whose transfers are not in the trace.
    pub(crate) fn hop(&self) -> u64 {
        self.waits.iter().map(|wait| wait.hop).max().unwrap_or(0)
    }

    fn waits(&self, one: usize) -> &[Wait] {
        &self.waits[self.waits_at[one] as usize..self.waits_at[one + 1] as usize]
    }

    fn members(&self, meeting: u32) -> &[u32] {
        let Meeting { first, count, .. } = self.meetings[meeting as usize];
        &self.members[first as usize..][..count as usize]
    }

    /// How long each operation took by itself: a meeting from its last start on, and a transfer
    /// until its first end; never less than nothing, whatever the clocks of two ranks say.
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
    pub(crate) fn launch_delays(&self, operations: &[Operation], begin: u64) -> Vec<u64> {
        let ready = |one: usize| {
            let of = |wait: &Wait| {
                let on = &operations[wait.on as usize];
                let reached = if wait.start_is_enough { on.start } else { on.end() };
                reached.0.saturating_add(wait.hop)
            };
            self.waits(one).iter().map(of).max().unwrap_or(begin)
        };
        let all = operations.iter().enumerate();
        all.map(|(one, operation)| operation.start.0.saturating_sub(ready(one))).collect()
    }

    /// When the last operation ends, where each takes its time of `own` and starts `launch` after
    /// it could. All ranks begin at 0.
    pub(crate) fn predict(&self, own: &[u64], launch: &[u64], free_links: bool) -> u64 {
        let mut start = vec![0u64; own.len()];
        let mut end = vec![0u64; own.len()];
        for &at in &self.order {
            let one = at as usize;
            let reached = |wait: &Wait| {
                let times = if wait.start_is_enough { &start } else { &end };
                let hop = if free_links { 0 } else { wait.hop };
                times[wait.on as usize].saturating_add(hop)
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
    let none = Wait { on: 0, start_is_enough: false, hop: 0 };
    let mut sorted = vec![none; waits.len()];
    for &(one, wait) in waits {
        let place = &mut next[one as usize];
        sorted[*place as usize] = wait;
        *place += 1;
    }
    (at, sorted)
}

/// Whether `first` was over when `second` started, but for what clocks and rounding do: an overlap
/// of at most a quarter of the shorter one.
fn was_over(first: &Operation, second: &Operation) -> bool {
    let slack = first.duration.0.min(second.duration.0) / 4;
    first.end().0 <= second.start.0.saturating_add(slack)
}

/// Whether two passes share their rank from start to end.
pub(crate) fn together(first: &Operation, second: &Operation) -> bool {
    let times = |one: &Operation| (one.start, one.duration);
    let passes = first.pass().is_some() && second.pass().is_some();
    passes && times(first) == times(second) && first.duration.0 > 0
}

/// What is done on a rank starts in the order in which it started, and waits for all that was over
/// by then. The two sides of a transfer that a rank posted at once do not wait for each other.
fn wait_in_rank(
    operations: &[Operation],
    rank: std::ops::Range<usize>,
    waits: &mut Waits,
) -> Result<(), TraceError> {
    let begin = rank.start;
    let mut under_way: Vec<usize> = Vec::new();
    for at in rank {
        let one = &operations[at];
        let Operation { step, dp_rank, stage, .. } = *one;
        let place = |at: usize| u32::try_from(at).unwrap_or(ALONE);
        let mut wait = |on: usize, start_is_enough| {
            waits.push((place(at), Wait { on: place(on), start_is_enough, hop: 0 }));
        };
        if at > begin {
            wait(at - 1, !was_over(&operations[at - 1], one));
        }
        under_way.retain(|&other| {
            let over = was_over(&operations[other], one);
            if over && other + 1 < at {
                wait(other, false);
            }
            !over
        });
        let is_pass = |other: &&usize| one.pass().is_some() && operations[**other].pass().is_some();
        let mut passes = under_way.iter().filter(is_pass);
        if let Some(&other) = passes.find(|&&other| !together(&operations[other], one)) {
            let (first, second) = (operations[other].to_string(), one.to_string());
            return Err(TraceError::Overlap { step, dp_rank, stage, first, second });
        }
        if under_way.len() >= CROWD {
            return Err(TraceError::Crowd { step, dp_rank, stage, limit: CROWD });
        }
        under_way.push(at);
    }
    Ok(())
}

/// The value that `user` needs comes from `maker`.
struct Need {
    user: usize,
    maker: usize,
    link: Link,
}

/// Between which stages, and which way.
type Link = (u16, u16, Direction);

/// Passes wait for the values they need. On a link whose transfers are not in the trace, a hop
/// takes the shortest time seen between the end of a maker and the start of its user.
fn wait_for_values(parts: &Parts<'_>, waits: &mut Waits) -> Result<(), TraceError> {
    let operations = parts.operations;
    let needs = needs(parts);
    let mut hops: BTreeMap<Link, u64> = BTreeMap::new();
    for &Need { user, maker, link } in &needs {
        let (maker, user) = (&operations[maker], &operations[user]);
        if user.end() <= maker.start && maker.duration.0 > 0 {
            let Operation { step, dp_rank, .. } = *user;
            let (user, maker) = (user.to_string(), maker.to_string());
            return Err(TraceError::Backwards { step, dp_rank, user, maker });
        }
        let gap = user.start.0.saturating_sub(maker.end().0);
        hops.entry(link).and_modify(|hop| *hop = gap.min(*hop)).or_insert(gap);
    }
    let sends = operations.iter().filter_map(|one| match one.optype {
        OpType::Transfer(direction, Side::Send) => Some((one.stage, direction)),
        _ => None,
    });
    let recorded: std::collections::BTreeSet<_> = sends.collect();
    let place = |at: usize| u32::try_from(at).unwrap_or(ALONE);
    for &Need { user, maker, link } in &needs {
        let (from, to, direction) = link;
        let free = from == to || recorded.contains(&(from, direction));
        let hop = if free { 0 } else { hops[&link] };
        let wait = Wait { on: place(maker), start_is_enough: false, hop };
        waits.push((place(user), wait));
        // The first of two passes that share a rank waits for what the second needs.
        if user > 0 && together(&operations[user - 1], &operations[user]) {
            waits.push((place(user - 1), wait));
        }
    }
    Ok(())
}

/// Every value that a pass needs, but for what its own rank made just before.
fn needs(parts: &Parts<'_>) -> Vec<Need> {
    let (shape, placement) = (parts.shape, parts.placement);
    let (chunks, columns) = (shape.chunks(), shape.microbatches() as usize);
    let cell = |value: Value| value.row(chunks) * columns + value.microbatch() as usize;
    let mut made = vec![0usize; 2 * shape.cells()];
    let mut needs = Vec::new();
    // A pipeline is as many ranks as it has stages, one after the other.
    for ranks in parts.ranks.chunks(shape.stages()) {
        let places = || ranks.iter().cloned().flatten();
        let passes = || places().filter_map(|at| Some((at, parts.operations[at].pass()?)));
        for (at, pass) in passes() {
            pass.makes().into_iter().for_each(|value| made[cell(value)] = at);
        }
        for (user, pass) in passes() {
            for value in pass.needs(chunks) {
                let home = placement.stage(shape, value.chunk(), value.microbatch());
                let from = u16::try_from(home).unwrap_or(u16::MAX);
                let to = parts.operations[user].stage;
                let direction = match value {
                    Value::Output { .. } => Direction::Forward,
                    Value::Gradient { .. } => Direction::Backward,
                };
                if from != to {
                    needs.push(Need {
                        user,
                        maker: made[cell(value)],
                        link: (from, to, direction),
                    });
                }
            }
        }
    }
    needs
}

/// Which operations are one thing done by several ranks: the same number of the same operation.
type Key = (OpType, u32, u32, u32);

/// The meeting of each operation, all meetings, and their members.
type Meetings = (Vec<u32>, Vec<Meeting>, Vec<u32>);

fn meetings(parts: &Parts<'_>) -> Result<Meetings, TraceError> {
    let mut keys: Vec<(Key, u32)> = Vec::new();
    for (number, rank) in parts.ranks.iter().enumerate() {
        let pipeline = u32::try_from(number / parts.shape.stages()).unwrap_or(ALONE);
        let mut counts: BTreeMap<OpType, u32> = BTreeMap::new();
        for at in rank.clone() {
            let one = &parts.operations[at];
            let Some((optype, a, b)) = meets(one, pipeline, parts.shape) else { continue };
            let count = counts.entry(one.optype).or_default();
            keys.push(((optype, a, b, *count), u32::try_from(at).unwrap_or(ALONE)));
            *count += 1;
        }
    }
    keys.sort_unstable();
    let mut meeting = vec![ALONE; parts.operations.len()];
    let mut meetings = Vec::new();
    let mut first = 0;
    for members in keys.chunk_by(|one, other| one.0 == other.0) {
        let (key, at) = members[0];
        if matches!(key.0, OpType::Transfer(..)) && members.len() != 2 {
            let Operation { step, dp_rank, stage, optype, .. } = parts.operations[at as usize];
            let (optype, number) = (optype.name(), key.3);
            return Err(TraceError::Unmatched { step, dp_rank, stage, optype, number });
        }
        let number = u32::try_from(meetings.len()).unwrap_or(ALONE);
        members.iter().for_each(|&(_, at)| meeting[at as usize] = number);
        let count = u32::try_from(members.len()).unwrap_or(ALONE);
        meetings.push(Meeting { first, count, last: at });
        first += count;
    }
    Ok((meeting, meetings, keys.into_iter().map(|(_, at)| at).collect()))
}

/// Who takes part in `one`: those with the same answer. `None` if it needs no other rank.
fn meets(one: &Operation, pipeline: u32, shape: Shape) -> Option<(OpType, u32, u32)> {
    let (stage, stages) = (u32::from(one.stage), u32::try_from(shape.stages()).unwrap_or(1));
    match one.optype {
        OpType::Transfer(direction, side) => {
            let sender = match (direction, side) {
                (_, Side::Send) => stage,
                (Direction::Forward, Side::Recv) => (stage + stages - 1) % stages,
                (Direction::Backward, Side::Recv) => (stage + 1) % stages,
            };
            Some((OpType::Transfer(direction, Side::Send), pipeline, sender))
        }
        OpType::ParamsAllGather | OpType::GradsReduceScatter => Some((one.optype, stage, 0)),
        OpType::EmbeddingAllReduce => Some((one.optype, pipeline, 0)),
        OpType::ClipGradients => Some((one.optype, 0, 0)),
        OpType::Pass(_)
        | OpType::LayernormAllReduce
        | OpType::Optimizer
        | OpType::GarbageCollection => None,
    }
}
