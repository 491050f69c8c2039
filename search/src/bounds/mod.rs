//! Lower bounds on the cost of any order of passes, each with its proof.
//!
//! The model: a stage runs one pass at a time and does not interrupt it; what an F or a B hands to
//! another stage arrives one hop after its end; along the order of a stage, F takes M_B when it
//! starts, or what is kept of it where the chunk recomputes, whose R comes between F and B and takes the
//! rest; B turns it into M_W when it ends, W frees that when it ends, and the limit is never
//! exceeded. Backwards are split; where each may be whole ([`Instance::mixes`]), they are those of
//! [`Instance::relaxed`], which no order with whole ones undercuts. Where microbatches differ, `unequal.rs` has a bound
//! of its own beside those of the heaviest ones. Costs are whole nanoseconds, and so is every step of the bounds. Where
//! passes are segments on two streams, `overlapped.rs` has bounds of its own.
//!
//! *Names of microbatches.* All microbatches cost and hold the same and take the same way. If in
//! every chunk the k-th F, R, B and W in time are renamed to be those of microbatch k, every pass still
//! comes behind what it needs: before the k-th F of a chunk, k microbatches have run the F before
//! it; and so on. So a bound for schedules that run microbatches in order holds for all.

mod argument;
mod cycles;
mod fill;
mod knapsack_bound;
mod limit;
mod line;
mod little;
mod meetings;
mod overlapped;
mod path;
mod tail;
#[cfg(test)]
mod tests;
mod unequal;
mod windows;

use pipeline::Nanos;

pub use argument::{Argument, Bound};
pub use limit::{Infeasible, check_limits, smallest_limit};
pub(crate) use windows::Prover;
pub use windows::{Proof, Raised};

use self::argument::highest;
use self::cycles::Cycles;
use self::fill::{Counted, least_cost};
use self::line::Line;
use self::tail::Tail;
use crate::instance::Instance;

/// The highest of [`all`] bounds; of equal ones the first, which is the simplest.
#[must_use]
pub fn best(instance: &Instance) -> Bound {
    best_where(instance, |_| true)
}

/// The cost that the moves of a search of `instance` aim at, where `bound` is the highest bound: the highest of all
/// arguments but meetings. A search that aims at those found orders up to 1 % longer where rounds are few.
pub(crate) fn aim(instance: &Instance, bound: Bound) -> Nanos {
    let is_meeting = |own: Argument| matches!(own, Argument::Meetings { .. });
    match is_meeting(bound.argument) {
        true => best_where(instance, |own| !is_meeting(own)).cost,
        false => bound.cost,
    }
}

fn best_where(instance: &Instance, is: impl Fn(Argument) -> bool) -> Bound {
    let mut best = Bound { argument: Argument::Work { stage: 0 }, cost: Nanos(0) };
    for bound in all(instance).into_iter().filter(|bound| is(bound.argument)) {
        if bound.cost > best.cost {
            best = bound;
        }
    }
    best
}

/// The highest bound on the time from the first pass of one and the same stage to its last one, however late that
/// stage begins: in a pipeline whose stages run on from step to step, every step of that stage takes as long. Bounds
/// whose proofs look at several stages at once say only that some stage has such a span, which need not be the same
/// one in every step.
#[must_use]
pub fn of_one_stage(instance: &Instance) -> Bound {
    let nothing = Bound { argument: Argument::Work { stage: 0 }, cost: Nanos(0) };
    let all = all(instance).into_iter().filter(|bound| bound.argument.names_its_stage());
    all.fold(nothing, |best, one| if one.cost > best.cost { one } else { best })
}

/// All bounds above zero for `instance`: the best of each argument, simple ones first.
/// Under infeasible limits ([`check_limits`]) they are vacuous.
#[must_use]
pub fn all(instance: &Instance) -> Vec<Bound> {
    if instance.costs.microbatch_work().is_some() {
        let alike = unequal::alike(instance).into_iter().flat_map(|one| all(&one));
        return [unequal::bound(instance)].into_iter().chain(alike).collect();
    }
    if let Some(overlap) = instance.costs.overlap() {
        return overlapped::all(instance, overlap);
    }
    let relaxed = instance.relaxed();
    let instance = &*relaxed;
    let Some(line) = Line::of(instance) else { return vec![work_of_both_ways(instance)] };
    let tails: Vec<Tail> = line.stations.iter().map(|one| Tail::of(&line, one)).collect();
    let trips = line.stations.iter().zip(&tails);
    let trips: Vec<Option<Cycles>> =
        trips.map(|(station, tail)| Cycles::of(&line, station, tail.after)).collect();
    let alone = |argument: fn(usize) -> Argument, span: &dyn Fn(usize) -> Option<u64>| {
        let stages = line.stations.iter().enumerate();
        highest(stages.filter_map(|(stage, station)| {
            Some((line.cost_of_span(station, span(stage)?), argument(stage)))
        }))
    };
    let fill = |argument: fn(usize) -> Argument, counted: Counted| {
        let (cost, stage) = least_cost(&line, &tails, counted);
        Some(Bound { argument: argument(stage), cost: Nanos(cost) })
    };
    let bounds = [
        alone(|stage| Argument::Work { stage }, &|stage| Some(line.stations[stage].work)),
        alone(|stage| Argument::Trip { stage }, &|stage| Some(trip(line.stations[stage].first()))),
        alone(|stage| Argument::Tail { stage }, &|stage| {
            Some(line.stations[stage].work + tails[stage].idle)
        }),
        alone(|stage| Argument::Little { stage }, &|stage| {
            little::span(&line, &line.stations[stage])
        }),
        highest(paths(&line, &tails)),
        fill(|stage| Argument::Head { stage }, Counted { tails: false, paths: false }),
        fill(|stage| Argument::HeadAndTail { stage }, Counted { tails: true, paths: false }),
        fill(|stage| Argument::Fill { stage }, Counted { tails: true, paths: true }),
        highest(cycles(&line, &trips)),
        trips[0]
            .as_ref()
            .and_then(|trips| meetings::span(&line, trips))
            .map(|span| Bound { argument: Argument::Meetings { stage: 0 }, cost: Nanos(span) }),
    ];
    bounds.into_iter().flatten().filter(|bound| bound.cost > Nanos(0)).collect()
}

/// F, the round trip, B and W of one microbatch in a stage's first chunk.
fn trip(first: &line::Part) -> u64 {
    first.f + first.round + first.b + first.w
}

/// Yields every stage but the first, with the earlier stage from which the trip over it is longest.
fn vantages(line: &Line) -> impl Iterator<Item = (usize, usize)> {
    let mut best = 0;
    (1..line.stations.len()).map(move |via| {
        let seen = |from| path::seen_from(line, from, via, 0);
        if seen(via - 1) > seen(best) {
            best = via - 1;
        }
        (best, via)
    })
}

/// The cost by the paths over every stage but the first.
fn paths(line: &Line, tails: &[Tail]) -> impl Iterator<Item = (u64, Argument)> {
    vantages(line).map(|(from, via)| {
        let inner = path::until_last_backward(line, &line.stations[via], &tails[via]);
        (path::seen_from(line, from, via, inner), Argument::Path { from, via })
    })
}

/// The cost by the round trips of every stage, as it and an earlier stage see them.
fn cycles(line: &Line, trips: &[Option<Cycles>]) -> impl Iterator<Item = (u64, Argument)> {
    let vantages = std::iter::once((0, 0)).chain(vantages(line));
    let seen = vantages.filter_map(|(from, via)| {
        let station = &line.stations[via];
        let cycles = trips[via].as_ref()?;
        let own = (line.cost_of_span(station, cycles.span), Argument::Cycles { from: via, via });
        let earlier = (from < via).then(|| {
            let cost = path::seen_from(line, from, via, cycles.until_last_backward);
            (cost, Argument::Cycles { from, via })
        });
        Some(std::iter::once(own).chain(earlier))
    });
    seen.flatten()
}

/// The work of the busiest stage where microbatches take different ways.
fn work_of_both_ways(instance: &Instance) -> Bound {
    let Instance { shape, placement, costs, .. } = instance;
    let mut work = vec![0u64; shape.stages()];
    for microbatch in 0..shape.microbatches() {
        for (chunk, times) in (0u16..).zip(costs.chunks()) {
            let again = costs.recompute(chunk).unwrap_or_default().0;
            work[placement.stage(*shape, chunk, microbatch)] +=
                times.forward.0 + times.backward_input.0 + times.backward_weight.0 + again;
        }
    }
    let costs = work.into_iter().enumerate();
    let busiest = highest(costs.map(|(stage, cost)| (cost, Argument::Work { stage })));
    busiest.unwrap_or(Bound { argument: Argument::Work { stage: 0 }, cost: Nanos(0) })
}
