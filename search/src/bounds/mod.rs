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

mod cycles;
#[cfg(test)]
mod exhaustive;
mod fill;
mod knapsack_bound;
mod limit;
mod line;
mod little;
mod overlapped;
#[cfg(test)]
mod paper;
mod path;
mod tail;
mod unequal;
mod windows;

use std::fmt;

use pipeline::Nanos;

pub use limit::{Infeasible, check_limits, smallest_limit};
pub(crate) use windows::Prover;
pub use windows::{Proof, Raised};

use self::cycles::Cycles;
use self::fill::{Counted, least_cost};
use self::line::Line;
use self::tail::Tail;
use crate::Instance;

/// The argument of a lower bound, with the stages on which it rests.
#[derive(Clone, Copy, PartialEq, Eq, Hash, Debug)]
pub enum Argument {
    /// The stage must do its work.
    Work {
        /// The stage with most work.
        stage: usize,
    },
    /// A microbatch must go all the way and come back.
    Trip {
        /// The stage that waits for it.
        stage: usize,
    },
    /// The work of one stage without its last W, between the trip of a first microbatch down to it
    /// from an earlier stage and that of a last one back.
    Path {
        /// The stage whose span it is.
        from: usize,
        /// The stage whose work is between.
        via: usize,
    },
    /// The idle time before the first B, where forwards are not cut short.
    Head {
        /// A stage that cannot do with less.
        stage: usize,
    },
    /// The idle time between the last F and the last B.
    Tail {
        /// The stage that idles most.
        stage: usize,
    },
    /// Head and tail of the same stages.
    HeadAndTail {
        /// A stage that cannot do with less.
        stage: usize,
    },
    /// Head, tail and the paths over each stage.
    Fill {
        /// A stage that cannot do with less.
        stage: usize,
    },
    /// Forwards wait until memory comes back from the round trips of earlier microbatches.
    Cycles {
        /// The stage whose span it is.
        from: usize,
        /// The stage whose forwards wait.
        via: usize,
    },
    /// Memory times time.
    Little {
        /// The stage whose memory it is.
        stage: usize,
    },
    /// The windows in which the passes of a cheaper order would start contradict each other.
    Windows,
    /// The same, with starts that windows of the first microbatches alone have raised.
    Prefixes,
    /// The same, after pairs of passes were tried both ways, and one way was refuted by windows.
    Branching,
}

impl Argument {
    /// The name in certificates and tables.
    #[must_use]
    pub const fn name(self) -> &'static str {
        match self {
            Self::Work { .. } => "work",
            Self::Trip { .. } => "trip",
            Self::Path { .. } => "path",
            Self::Head { .. } => "head",
            Self::Tail { .. } => "tail",
            Self::HeadAndTail { .. } => "head-and-tail",
            Self::Fill { .. } => "fill",
            Self::Cycles { .. } => "cycles",
            Self::Little { .. } => "little",
            Self::Windows => "windows",
            Self::Prefixes => "prefixes",
            Self::Branching => "branching",
        }
    }

    /// Whether the argument bounds the span of the stage that it names first.
    const fn names_its_stage(self) -> bool {
        match self {
            Self::Work { .. }
            | Self::Trip { .. }
            | Self::Tail { .. }
            | Self::Little { .. }
            | Self::Path { .. }
            | Self::Cycles { .. } => true,
            Self::Head { .. }
            | Self::HeadAndTail { .. }
            | Self::Fill { .. }
            | Self::Windows
            | Self::Prefixes
            | Self::Branching => false,
        }
    }

    /// The stages on which the argument rests, one or two; empty where it rests on all of them.
    #[must_use]
    pub fn stages(self) -> Vec<usize> {
        match self {
            Self::Windows | Self::Prefixes | Self::Branching => Vec::new(),
            Self::Path { from, via } | Self::Cycles { from, via } => vec![from, via],
            Self::Work { stage }
            | Self::Trip { stage }
            | Self::Head { stage }
            | Self::Tail { stage }
            | Self::HeadAndTail { stage }
            | Self::Fill { stage }
            | Self::Little { stage } => vec![stage],
        }
    }
}

impl fmt::Display for Argument {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(self.name())?;
        self.stages().iter().try_for_each(|stage| write!(f, " {stage}"))
    }
}

/// A cost that no schedule undercuts.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct Bound {
    /// Why.
    pub argument: Argument,
    /// No schedule under the limits costs less.
    pub cost: Nanos,
}

/// The highest of [`all`] bounds; of equal ones the first, which is the simplest.
#[must_use]
pub fn best(instance: &Instance) -> Bound {
    let mut best = Bound { argument: Argument::Work { stage: 0 }, cost: Nanos(0) };
    for bound in all(instance) {
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
        highest(cycles(&line, &tails)),
    ];
    bounds.into_iter().flatten().filter(|bound| bound.cost > Nanos(0)).collect()
}

/// F, the round trip, B and W of one microbatch in a stage's first chunk.
fn trip(first: &line::Part) -> u64 {
    first.f + first.round + first.b + first.w
}

/// The highest cost with its argument; of equal ones the first.
fn highest(costs: impl Iterator<Item = (u64, Argument)>) -> Option<Bound> {
    let mut best: Option<Bound> = None;
    for (cost, argument) in costs {
        if best.is_none_or(|best| best.cost.0 < cost) {
            best = Some(Bound { argument, cost: Nanos(cost) });
        }
    }
    best
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
fn cycles(line: &Line, tails: &[Tail]) -> impl Iterator<Item = (u64, Argument)> {
    let vantages = std::iter::once((0, 0)).chain(vantages(line));
    let seen = vantages.filter_map(|(from, via)| {
        let station = &line.stations[via];
        let cycles = Cycles::of(line, station, tails[via].after)?;
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
