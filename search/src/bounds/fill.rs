//! The fill of the pipeline: how much each stage must idle before its first B, where forwards are
//! not cut short.

use super::line::{Line, Station};
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
/// *Proof.* Let a schedule cost `cost` or less. Stage i then idles at most β_i before its first B:
/// what its span leaves beside its work and the idle time of its tail, and what the paths over it
/// leave to the spans of earlier stages.
///
/// Let x_i be the time from the first F of stage i to its first B. It is no less than what the first
/// microbatch needs for its way. Where chunks are looped, the first B of stage i also comes a hop
/// after the end of the first B of stage i+1, whose first F comes no sooner than F and a hop after
/// that of stage i; so x_i >= f_i + hop + x_{i+1} + b_{i+1} + hop.
///
/// Before its first B a stage does nothing but whole F, at most as many as its limit holds at once,
/// and idles at most β_i: with k of them x_i lies between k f_i and k f_i + β_i. (Where it recomputes, F and
/// R together take what they can, and x_i is no more than that and β_i.) From the last stage
/// up, the smallest x_i that is allowed is a bound for the true one, as each follows from the one
/// below and grows with it. Where none is allowed there is no such schedule.
///
/// A higher cost makes every β_i greater and so allows more.
pub(super) fn stuck(line: &Line, tails: &[Tail], counted: Counted, cost: u64) -> Option<usize> {
    let budgets = match budgets(line, tails, counted, cost) {
        Ok(budgets) => budgets,
        Err(stage) => return Some(stage),
    };
    let mut below: Option<(&Station, u64)> = None;
    for (stage, station) in line.stations.iter().enumerate().rev() {
        let mut least = station.first_backward;
        if let Some((next, x)) = below.filter(|_| line.backwards_climb) {
            let there = next.down - station.down;
            // The top chunks of neighbours are as far apart as any neighbours: one hop.
            let top = next.parts[next.parts.len() - 1].b;
            let hop = there - station.first().f;
            least = least.max(there + x + top + hop);
        }
        match first_backward(line, station, least, budgets[stage]) {
            Some(x) => below = Some((station, x)),
            None => return Some(stage),
        }
    }
    None
}

/// The soonest that the first B of `station` can start, no sooner than `least`, with at most
/// `slack` idle time before it.
fn first_backward(line: &Line, station: &Station, least: u64, slack: u64) -> Option<u64> {
    let f = station.first().f;
    let alike = station.parts.iter().all(|part| part.f == f);
    if !alike || f == 0 || station.recomputes() {
        let most = station.most_before_backwards(line.microbatches);
        return (least.saturating_sub(most) <= slack).then_some(least);
    }
    let most = station.most_forwards(line.microbatches, |_| 1);
    let whole = (least / f).min(most);
    if least - whole * f <= slack {
        return Some(least);
    }
    (whole < most).then_some((whole + 1) * f)
}

/// The most idle time that each stage may spend before its first B, or a stage that cannot do with
/// `cost` at all.
fn budgets(line: &Line, tails: &[Tail], counted: Counted, cost: u64) -> Result<Vec<u64>, usize> {
    // What the tightest earlier stage leaves for the time behind its first F.
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
