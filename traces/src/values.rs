//! Finds out from a trace which pass waited for a value of which other, and for a transfer that the
//! trace does not show.

use std::collections::BTreeSet;

use pipeline::{Kind, Value};

use crate::dependency::{ALONE, Parts, Wait, Waits};
use crate::error::TraceError;
use crate::hops::{Edge, Link};
use crate::operation::{Direction, OpType, Operation, Side};
use crate::reader::Sends;
use crate::waits::{together, was_over};

/// The value that `user` needs comes from `maker`.
struct Need {
    user: usize,
    maker: usize,
    link: Link,
    /// Which of the pipelines it is in.
    pipeline: usize,
}

/// Passes wait for the values they need. Those that cross to another rank without a transfer in the
/// trace are the edges that are returned.
pub(crate) fn wait_for_values(
    parts: &Parts<'_>,
    waits: &mut Waits,
) -> Result<Vec<Edge>, TraceError> {
    let operations = parts.operations;
    let needs = needs(parts);
    for &Need { user, maker, .. } in &needs {
        let (maker, user) = (&operations[maker], &operations[user]);
        if user.end() <= maker.start && maker.duration.0 > 0 {
            let Operation { step, dp_rank, .. } = *user;
            let (user, maker) = (user.to_string(), maker.to_string());
            return Err(TraceError::Backwards { step, dp_rank, user, maker });
        }
    }
    let sends = operations.iter().filter_map(|one| match one.optype {
        OpType::Transfer(direction, Side::Send) => Some((one.stage, direction)),
        _ => None,
    });
    let recorded: BTreeSet<_> = sends.collect();
    let is_edge = |need: &Need| {
        let (from, to, direction) = need.link;
        from != to && !recorded.contains(&(from, direction))
    };
    let neighbours = Neighbours::of(parts);
    let crossings: Vec<Crossing> =
        needs.iter().filter(|need| is_edge(need)).map(|need| neighbours.crossing(need)).collect();
    wait_for_crossings(&crossings, operations, waits);
    for need in needs.iter().filter(|need| !is_edge(need)) {
        wait(need.user, need.maker, ALONE, operations, waits);
    }
    Ok(neighbours.edges(&needs, &crossings, &is_edge, operations))
}

/// A value in transfer: the operations that must have ended at its ends, and those that wait for its arrival.
struct Crossing {
    /// The operation that makes it, and the pass after which the other end is ready to receive.
    after: [Option<usize>; 2],
    /// The operation that uses it, and the next pass of the sender, if that waits until it is sent.
    until: [Option<usize>; 2],
}

fn wait_for_crossings(crossings: &[Crossing], operations: &[Operation], waits: &mut Waits) {
    for (edge, Crossing { after, until }) in (0u32..).zip(crossings) {
        for &user in until.iter().flatten() {
            for &on in after.iter().flatten() {
                wait(user, on, edge, operations, waits);
            }
        }
    }
}

fn wait(user: usize, on: usize, edge: u32, operations: &[Operation], waits: &mut Waits) {
    let place = |at: usize| u32::try_from(at).unwrap_or(ALONE);
    let wait = Wait { on: place(on), start_is_enough: false, edge };
    waits.push((place(user), wait));
    // The first of two passes that share a rank waits for what the second needs.
    if user > 0 && together(&operations[user - 1], &operations[user]) {
        waits.push((place(user - 1), wait));
    }
}

/// The passes beside each pass on its rank.
struct Neighbours {
    sends: Sends,
    /// The operation before it.
    before: Vec<Option<usize>>,
    /// The pass before it, and the one after it, of the same kind: forward or backward.
    alike: [Vec<Option<usize>>; 2],
}

impl Neighbours {
    fn of(parts: &Parts<'_>) -> Self {
        let count = parts.operations.len();
        let mut before = vec![None; count];
        let paired = if parts.sends == Sends::Paired { count } else { 0 };
        let mut alike = [vec![None; paired], vec![None; paired]];
        for rank in &parts.ranks {
            let mut last = [None; 2];
            for at in rank.clone() {
                before[at] = at.checked_sub(1).filter(|at| rank.contains(at));
                let kind = match parts.operations[at].optype {
                    OpType::Pass(Kind::F) => 0,
                    OpType::Pass(Kind::B | Kind::BW) => 1,
                    _ => continue,
                };
                if let (Some(previous), true) = (last[kind].replace(at), paired > 0) {
                    alike[0][at] = Some(previous);
                    alike[1][previous] = Some(at);
                }
            }
        }
        Self { sends: parts.sends, before, alike }
    }

    fn crossing(&self, need: &Need) -> Crossing {
        let [previous, next] = match self.sends {
            Sends::Free => [None, None],
            Sends::Paired => [self.alike[0][need.user], self.alike[1][need.maker]],
        };
        Crossing { after: [Some(need.maker), previous], until: [Some(need.user), next] }
    }

    /// How long each crossing took at most, and of which that was all there was to wait for.
    fn edges(
        &self,
        needs: &[Need],
        crossings: &[Crossing],
        is_edge: &impl Fn(&Need) -> bool,
        operations: &[Operation],
    ) -> Vec<Edge> {
        let begin = |one: &Crossing| {
            one.after.iter().flatten().map(|&at| operations[at].end().0).max().unwrap_or(0)
        };
        // The crossing that began last of those that each operation waits for.
        let mut last: Vec<u64> = vec![0; operations.len()];
        for one in crossings {
            let began = begin(one);
            one.until.iter().flatten().for_each(|&at| last[at] = last[at].max(began));
        }
        let awaited = |at: usize, began: u64| {
            let idle_from = self.before[at].map_or(0, |before| operations[before].end().0);
            let start = operations[at].start.0;
            let shares =
                self.before[at].is_some_and(|one| together(&operations[one], &operations[at]));
            !shares && start > idle_from && began >= idle_from && began == last[at]
        };
        let edge = |(need, one): (&Need, &Crossing)| {
            let began = begin(one);
            let ends = || one.until.iter().flatten().copied();
            let over = ends().map(|at| operations[at].start.0).min().unwrap_or(0);
            let [_, next] = one.until;
            let [_, previous] = one.after;
            // A sender that went on before the other end was ready did not wait for it.
            let went_on = next.zip(previous).is_some_and(|(next, previous)| {
                !was_over(&operations[previous], &operations[next])
            });
            let value = &operations[need.maker];
            Edge {
                link: need.link,
                place: (
                    u32::try_from(need.pipeline).unwrap_or(ALONE),
                    value.chunk,
                    value.microbatch,
                ),
                gap: over.saturating_sub(began),
                awaited: ends().any(|at| awaited(at, began)),
                went_on,
            }
        };
        let needs = needs.iter().filter(|need| is_edge(need));
        needs.zip(crossings).map(edge).collect()
    }
}

/// Every value that a pass needs, but for what its own rank made just before.
fn needs(parts: &Parts<'_>) -> Vec<Need> {
    let (shape, placement) = (parts.shape, parts.placement);
    let mut made = vec![0usize; shape.value_cells()];
    let mut needs = Vec::new();
    // A pipeline is as many ranks as it has stages, one after the other.
    for (pipeline, ranks) in parts.ranks.chunks(shape.stages()).enumerate() {
        let places = || ranks.iter().cloned().flatten();
        let passes = || places().filter_map(|at| Some((at, parts.operations[at].pass()?)));
        for (at, pass) in passes() {
            pass.makes().into_iter().for_each(|value| made[shape.value_cell(value)] = at);
        }
        for (user, pass) in passes() {
            for value in pass.needs(shape) {
                let direction = match value {
                    Value::Output { .. } => Direction::Forward,
                    Value::Gradient { .. } => Direction::Backward,
                    // A trace has no passes of a vocabulary in shards.
                    Value::Statistics { .. } | Value::HiddenGradient { .. } => continue,
                };
                let Some(home) = placement.maker(shape, value) else { continue };
                let from = u16::try_from(home).unwrap_or(u16::MAX);
                let to = parts.operations[user].stage;
                if from != to {
                    let maker = made[shape.value_cell(value)];
                    needs.push(Need { user, maker, link: (from, to, direction), pipeline });
                }
            }
        }
    }
    needs
}
