//! Microbatches of unequal work: which goes when, and the order of passes for it, in turn.

use pipeline::{Nanos, Schedule};
use search::{Effort, climb, order_microbatches};

use super::{Candidate, Done, Simulator};

/// Candidates for which an order of microbatches is searched.
const STARTS: usize = 3;
/// How often passes and microbatches are ordered in turn.
const TURNS: u32 = 2;

/// An order of passes, and microbatch `microbatches[i]` in the place of its microbatch i.
struct Dealt {
    value: f64,
    order: Schedule,
    microbatches: Vec<u32>,
}

impl Dealt {
    /// The same where its microbatches were already dealt as `before` says.
    fn after(self, before: &[u32]) -> Self {
        let microbatches = self.microbatches.iter().map(|&at| before[at as usize]).collect();
        Self { microbatches, ..self }
    }
}

/// Searches from the best candidates of `done`, whose microbatches have `work`, until an order has the value `goal`: the
/// best order found, if it is better than all candidates, and the number of orders simulated.
pub(super) fn improve(
    done: &Done,
    work: &[Nanos],
    (effort, goal): (Effort, f64),
    stop: &(dyn Fn() -> bool + Sync),
) -> (Option<Schedule>, u64) {
    let simulator = Simulator::new(&done.case, done.goal);
    let mut starts: Vec<&(Candidate, f64)> = done.candidates.iter().collect();
    starts.sort_by(|(_, one), (_, other)| one.total_cmp(other));
    let (mut runs, mut best) = (0, None::<Dealt>);
    let keep = |new: Option<Dealt>, best: &mut Option<Dealt>| {
        let Some(new) = new else { return false };
        let is_better = best.as_ref().is_none_or(|best| new.value < best.value);
        if is_better {
            *best = Some(new);
        }
        is_better
    };
    for (one, _) in starts.iter().take(STARTS) {
        let found = dealt(&simulator, &one.order, work, effort, stop);
        runs += found.as_ref().map_or(0, |(_, runs)| *runs);
        keep(found.map(|(dealt, _)| dealt), &mut best);
    }
    for _ in 0..TURNS {
        let Some(now) = &best else { break };
        if now.value <= goal || stop() {
            break;
        }
        let ordered = simulator.with_microbatches(&now.microbatches);
        let budget = (effort, goal);
        let (order, climbed) = climb(&done.instance, &ordered, &now.order, budget, stop);
        runs += climbed;
        let Some(order) = order else { break };
        let work: Vec<Nanos> = now.microbatches.iter().map(|&at| work[at as usize]).collect();
        let found = dealt(&ordered, &order, &work, effort, stop);
        let found = found.map(|(one, runs)| (one.after(&now.microbatches), runs));
        runs += found.as_ref().map_or(0, |(_, runs)| *runs);
        if !keep(found.map(|(dealt, _)| dealt), &mut best) {
            break;
        }
    }
    let least = starts.first().map_or(f64::INFINITY, |(_, value)| *value);
    let better = best.filter(|best| best.value < least);
    (better.and_then(|best| best.order.with_microbatches(&best.microbatches).ok()), runs)
}

/// The best order of microbatches in the passes of `order`, and how many were simulated.
fn dealt(
    simulator: &Simulator<'_>,
    order: &Schedule,
    work: &[Nanos],
    effort: Effort,
    stop: &(dyn Fn() -> bool + Sync),
) -> Option<(Dealt, u64)> {
    let prepared = simulator.case.prepared(order.clone()).ok()?;
    let evaluate = |microbatches: &[u32]| {
        let ordered = simulator.with_microbatches(microbatches);
        ordered.value_in(&prepared, ordered.climbed()).ok()
    };
    let (microbatches, value, runs) = order_microbatches(work, &evaluate, effort, stop)?;
    Some((Dealt { value, order: order.clone(), microbatches }, runs))
}
