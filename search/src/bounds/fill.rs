//! The fill of the pipeline: how much each stage must idle before its first B, where forwards are
//! not cut short.

use super::knapsack_bound::{ItemType, knapsack_bound};
use super::line::{Line, Part, Station};
use super::tail::Tail;

/// The idle time that is counted besides the time before the first B.
#[derive(Clone, Copy)]
pub(super) struct Counted {
    /// The idle time between the last F and the last B.
    pub(super) tails: bool,
    /// The way from earlier stages and back to them.
    pub(super) paths: bool,
}

/// The smallest cost that [`stuck`] does not rule out, and the stage at which the cost one
/// nanosecond below fails. By bisection, for what is ruled out at a cost is ruled out below.
pub(super) fn least_cost(line: &Line, tails: &[Tail], counted: Counted) -> (u64, usize) {
    let first_guess = line.stations.iter().map(|one| line.cost_of_span(one, one.work)).max();
    let (mut low, mut high) = (0, first_guess.unwrap_or(0));
    let mut culprit = 0;
    // The cost of a real schedule is never ruled out, and one such is `longest` at most.
    while let Some(stage) = stuck(line, tails, counted, high).filter(|_| high < line.longest) {
        (low, high) = (high + 1, line.longest.min(2 * high + 1));
        culprit = stage;
    }
    while low < high {
        let middle = low + (high - low) / 2;
        match stuck(line, tails, counted, middle) {
            Some(stage) => (low, culprit) = (middle + 1, stage),
            None => high = middle,
        }
    }
    (high, culprit)
}

/// A stage that shows that no schedule costs `cost` or less, if one does.
///
/// *Proof.* Let a schedule cost `cost` or less, and let every pass start as soon as it can. Stage i then idles at
/// most β_i before its first B: what its span leaves beside its work and the idle time of its tail, and what the
/// paths over it leave to the spans of earlier stages.
///
/// Follow the first microbatch. The first pass of a stage is its F in the stage's first chunk, as it is of all
/// stages before: it starts when it arrives. F of a later chunk starts a hop after the end of F of the chunk before.
/// Where it runs, nothing but whole F of the stage's lower chunks ran before, as many as its limit holds beside
/// it, and the stage has idled at most β_i. So it starts [no sooner](soonest) than they end one way or other. On the
/// way back, from the last chunk to as many before it as there are stages, its B is the first of its stage; nothing
/// but whole F ran there before, and so on. (Where a stage recomputes, F and R together take what they can.)
///
/// The soonest start that is allowed is a bound for the true one, as each follows from the one before and grows
/// with it. Where none is allowed there is no such schedule.
///
/// A higher cost makes every β_i greater and so allows more.
pub(super) fn stuck(line: &Line, tails: &[Tail], counted: Counted, cost: u64) -> Option<usize> {
    match budgets(line, tails, counted, cost) {
        Ok(budgets) => first_trip(line, &budgets).err(),
        Err(stage) => Some(stage),
    }
}

/// Follows the first microbatch where each stage may idle so long before its first B; the stage where it is stuck.
fn first_trip(line: &Line, budgets: &[u64]) -> Result<(), usize> {
    let (stages, chunks) = (line.stations.len(), line.way.len());
    // The start of `chunk` if it comes at `at`, behind F of the stage's first `below` chunks.
    let wait = |chunk: usize, below: usize, at: u64| {
        let (stage, _) = line.way[chunk];
        let station = &line.stations[stage];
        let least = at - station.down;
        let start = soonest(line, (station, below), least, budgets[stage]);
        start.map(|start| station.down + start).ok_or(stage)
    };
    let part = |chunk: usize| &line.stations[line.way[chunk].0].parts[chunk / stages];
    let mut at = line.stations[stages - 1].down;
    for chunk in stages..chunks {
        at += part(chunk - 1).f + line.way[chunk - 1].1;
        at = wait(chunk, chunk / stages, at)?;
    }
    at += part(chunks - 1).f + part(chunks - 1).r;
    for chunk in (chunks - stages..chunks).rev() {
        at = wait(chunk, chunks / stages, at)?;
        let hop = if chunk == 0 { 0 } else { line.way[chunk - 1].1 };
        at += part(chunk).b + hop;
    }
    Ok(())
}

/// The soonest start, no sooner than `least` and from the first F of `station` on, of a pass before which only whole F
/// of its first `below` chunks have run, with at most `slack` idle time: F of the chunk that follows these, or where
/// none follows the first B.
fn soonest(
    line: &Line,
    (station, below): (&Station, usize),
    least: u64,
    slack: u64,
) -> Option<u64> {
    let parts = &station.parts[..below];
    let own = station.parts.get(below).map_or(0, |part| part.until_backward);
    let room = station.limit.saturating_sub(own);
    let count = line.microbatches;
    let item = |part: &Part, worth| ItemType { bytes: part.until_backward, worth, count };
    // Where all that is known is how much time can be filled.
    let after_some = |most: u64| (least.saturating_sub(most) <= slack).then_some(least);
    if station.recomputes() || parts.iter().any(|part| part.f == 0) {
        return after_some(station.most_before_backwards(count));
    }
    if parts.iter().all(|part| part.f == parts[0].f) {
        let whole = knapsack_bound(parts.iter().map(|part| item(part, 1)), room);
        return after_whole(parts[0].f, whole, least, slack);
    }
    let [one, other] = parts else {
        return after_some(knapsack_bound(parts.iter().map(|part| item(part, part.f)), room));
    };
    // Every number of the one, and of the other as many as it takes, if they fit beside these.
    let enough = least / one.f + 1;
    let starts = (1..=item(one, 1).fitting(room).min(enough)).filter_map(|whole| {
        let beside = item(other, 1).fitting(room - whole * one.until_backward);
        let done = whole * one.f;
        Some(done + after_whole(other.f, beside, least.saturating_sub(done), slack)?)
    });
    starts.min()
}

/// The soonest start, no sooner than `least`, behind at most `most` passes that take `time` each, with at most
/// `slack` idle time.
fn after_whole(time: u64, most: u64, least: u64, slack: u64) -> Option<u64> {
    let whole = (least / time).min(most);
    if least - whole * time <= slack {
        return Some(least);
    }
    (whole < most).then_some((whole + 1) * time)
}

/// The most idle time that each stage may spend before its first B, or a stage that cannot do with
/// `cost` at all.
fn budgets(line: &Line, tails: &[Tail], counted: Counted, cost: u64) -> Result<Vec<u64>, usize> {
    // Time after the first F of the tightest earlier stage that its span leaves.
    let mut tightest = i128::MAX;
    let mut budgets = Vec::with_capacity(line.stations.len());
    for (stage, (station, tail)) in line.stations.iter().zip(tails).enumerate() {
        let span = line.span_within(station, cost.into());
        let [work, down, back] = [station.work, station.down, station.back].map(i128::from);
        let over = if tightest == i128::MAX { tightest } else { tightest - work - down - back };
        let after = over.saturating_add(tail.after.into());
        let mut budget = span - work;
        let short = station.is_short(line.microbatches);
        let mut spare = budget;
        if counted.tails {
            spare = spare.min(span - work - i128::from(tail.idle));
        }
        if counted.paths {
            spare = spare.min(over.saturating_add(tail.after_less_idle));
            budget = budget.min(after);
        }
        // Head and tail are apart only where memory makes a B come before the last F.
        if short {
            budget = budget.min(spare);
        }
        if spare < 0 || budget < 0 {
            return Err(stage);
        }
        budgets.push(u64::try_from(budget).unwrap_or(u64::MAX));
        tightest = tightest.min(span + down + back - i128::from(station.first().w));
    }
    Ok(budgets)
}
