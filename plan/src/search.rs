//! The best of all set-ups of a question on a cluster.

use std::collections::BTreeMap;

use pipeline::Nanos;
use rayon::prelude::*;
use sim::Replay;

use crate::costed::Rejected;
use crate::evaluate::Evaluation;
use crate::finalist::{Finalist, FinalistError};
use crate::inputs::Inputs;
use crate::limits;
use crate::memory_budget::Overflow;
use crate::model::Recompute;
use crate::offload::Offload;
use crate::orders::Orders;
use crate::setup::{Setup, Unfit};
use crate::single_setup::SetupRun;
use crate::software::{Graphs, Options};

/// How many are simulated before the rest is held against the best of them. The same on any number
/// of threads, so that the answer is.
const ROUND: usize = 32;

/// The result of a search over set-ups.
#[derive(Clone, Debug, Default)]
pub struct Found {
    /// The best set-ups, the fastest first.
    pub best: Vec<Evaluation>,
    /// How many were simulated.
    pub simulated: u64,
    /// How many were not, by reason.
    pub left_out: BTreeMap<String, u64>,
    /// Of those that no device holds, the one that lacks least.
    pub nearest: Option<(Setup, Overflow)>,
    /// Those that devices do not surely hold, but may: with lower bounds of their steps.
    pub unsure: Vec<(Nanos, Setup)>,
}

/// Reason of a set-up that is skipped although it may be possible.
pub const PRUNED: &str = "pruned: its lower bound is slower than the best plan";
/// Reason of a set-up that no device holds.
pub const NO_MEMORY: &str = "more memory than a device has";
/// Reason of a set-up that was skipped after a stop.
pub const STOPPED: &str = "not looked at before the search was ended";
/// Reason of a set-up that fits by replay but not by the engine: tensors in transit take memory too.
pub const NOT_RUN: &str = "more memory than a device has, on shared wires";

/// Progress, stop and shared orders of a search.
#[derive(Clone, Copy)]
pub struct Watch<'a> {
    /// Hears how many set-ups more are decided.
    pub done: &'a (dyn Fn(u64) + Sync),
    /// Whether to end with the best found so far.
    pub stop: &'a (dyn Fn() -> bool + Sync),
    /// Orders that were made before.
    pub orders: &'a Orders<'a>,
}

/// The `count` fastest of `setups`. `done` hears how many more are decided.
#[must_use]
pub fn search(
    inputs: &Inputs<'_>,
    setups: &[Setup],
    count: usize,
    done: &(impl Fn(u64) + Sync),
) -> Found {
    let orders = Orders::default();
    search_with(inputs, setups, count, Watch { done, stop: &|| false, orders: &orders })
}

/// The `count` fastest of `setups` by replay, or of those that were looked at before `watch` ended it;
/// of two that take as long, the one that is named first.
#[must_use]
pub fn search_with(inputs: &Inputs<'_>, setups: &[Setup], count: usize, watch: Watch<'_>) -> Found {
    let (kept, found) = Search::new(inputs, setups, count, watch, false).run();
    let best = kept.into_iter().filter_map(|one| match one.candidate {
        Candidate::Replayed(mut all) => {
            let taken = limits::worth(all.iter().map(Evaluation::under_limit))?;
            Some(all.swap_remove(taken))
        }
        _ => None,
    });
    Found { best: best.collect(), ..found }
}

/// The same by the event engine, on shared wires, with the runs of the fastest; none of those is
/// missed that replay puts behind slower ones, for a run is never shorter than replay says, or by a trifle where it copies to the host. Of a
/// search that was ended, at least one run is made.
#[must_use]
pub fn run_with(
    inputs: &Inputs<'_>,
    setups: &[Setup],
    count: usize,
    watch: Watch<'_>,
) -> (Found, Vec<Finalist>) {
    let (kept, found) = Search::new(inputs, setups, count, watch, true).run();
    (found, kept.into_iter().filter_map(Kept::into_run).collect())
}

/// The `count` fastest of the set-ups that `found` is unsure of and that are as likely to fit as not, each with its
/// shortage: those that save something against a step of `known`.
#[must_use]
pub fn run_unsure(
    inputs: &Inputs<'_>,
    (found, known): (&Found, Option<Nanos>),
    count: usize,
    watch: Watch<'_>,
) -> Vec<SetupRun> {
    let saves = |step: Nanos| known.is_none_or(|known| limits::saves(step, known));
    let unsure = found.unsure.iter().filter(|(least, _)| saves(*least));
    let setups: Vec<Setup> = unsure.map(|(_, setup)| *setup).collect();
    let recipe = inputs.recipe.as_likely_as_not();
    let even = Inputs { recipe: &recipe, ..*inputs };
    let watch = Watch { done: &|_| {}, ..watch };
    let (kept, _) =
        Search { below: known, ..Search::new(&even, &setups, count, watch, true) }.run();
    let runs = kept.into_iter().filter_map(Kept::into_run).filter(|run| saves(run.step));
    runs.map(|run| inputs.with_shortage(run)).collect()
}

/// A set-up that may be among the best.
struct Kept {
    /// Its step, or its lower bound where the step is not known.
    step: Nanos,
    /// Its place among all.
    at: usize,
    candidate: Candidate,
}

enum Candidate {
    /// Under all limits that fit.
    Replayed(Vec<Evaluation>),
    /// By the engine.
    Run(Box<Finalist>),
    /// It does not run.
    Failed(FinalistError),
}

impl Kept {
    fn is_open(&self) -> bool {
        matches!(self.candidate, Candidate::Replayed(_))
    }

    fn into_run(self) -> Option<Finalist> {
        match self.candidate {
            Candidate::Run(run) => Some(*run),
            _ => None,
        }
    }

    /// Lets the engine run it.
    fn settle(&mut self, inputs: &Inputs<'_>, orders: &Orders<'_>) {
        let Candidate::Replayed(all) = &mut self.candidate else { return };
        match inputs.settle(std::mem::take(all), orders) {
            Ok(run) => {
                self.step = run.step;
                self.candidate = Candidate::Run(Box::new(run));
            }
            Err(error) => self.candidate = Candidate::Failed(error),
        }
    }
}

/// Lower bound of a set-up, or why it has none; the bound where it may fit.
type Least = (Result<Nanos, Rejected>, Option<Nanos>);

struct Search<'a> {
    inputs: &'a Inputs<'a>,
    setups: &'a [Setup],
    count: usize,
    watch: Watch<'a>,
    /// Whether the engine has the last word.
    runs: bool,
    /// A step that the best must be below, if there is one.
    below: Option<Nanos>,
    kept: Vec<Kept>,
    found: Found,
}

impl<'a> Search<'a> {
    fn new(
        inputs: &'a Inputs<'a>,
        setups: &'a [Setup],
        count: usize,
        watch: Watch<'a>,
        runs: bool,
    ) -> Self {
        let (kept, found) = (Vec::new(), Found::default());
        Self { inputs, setups, count, watch, runs, below: None, kept, found }
    }

    /// The best, the fastest first, and the counts of all set-ups.
    fn run(mut self) -> (Vec<Kept>, Found) {
        let possible = self.possible();
        let mut rest = &possible[..];
        while !rest.is_empty() {
            let stopped = (self.watch.stop)();
            // A search that is ended has one result, where there is any.
            let ends = stopped && !self.kept.is_empty();
            let hopeful = if ends { 0 } else { self.hopeful(rest) };
            let reason = if stopped && self.hopeful(rest) > 0 { STOPPED } else { PRUNED };
            let hopeless = (rest.len() - hopeful) as u64;
            self.found.leave_out_all(reason, hopeless);
            let round;
            let most = if stopped { 1 } else { ROUND };
            (round, rest) = rest[..hopeful].split_at(hopeful.min(most));
            self.simulate(round);
            self.settle();
            (self.watch.done)(hopeless + round.len() as u64);
        }
        (self.kept, self.found)
    }

    /// The least that each set-up takes, with its place, ascending; those that cannot be are left out.
    fn possible(&mut self) -> Vec<(Nanos, usize)> {
        // Costs are made again when they are needed: those of all set-ups would take gigabytes.
        let Self { inputs, setups, watch, .. } = *self;
        let is_plain = |setup: &Setup| setup.pipeline > 1 && !setup.copies();
        let has_others = setups.iter().any(is_plain);
        let least = |setup: &Setup| {
            // Copies are for set-ups that keep activations and do not fit.
            if has_others && setup.copies() && setup.recompute != Recompute::None {
                return (Err(Unfit::Needless.into()), None);
            }
            let mut unsure = None;
            let least = first_that_fits(setup, |setup| {
                let costed = inputs.cost(setup)?;
                let least = || inputs.least(&costed);
                let checked = inputs.check_least(&costed);
                if checked.as_ref().is_err_and(|rejected| self.is_likely(rejected)) {
                    unsure = unsure.or_else(|| Some(least()));
                }
                checked.map(|()| least())
            });
            (least, unsure)
        };
        let bounds: Vec<Option<Least>> =
            setups.par_iter().map(|setup| (!(watch.stop)()).then(|| least(setup))).collect();
        let mut possible = Vec::new();
        for (at, bound) in bounds.into_iter().enumerate() {
            match bound {
                Some((Ok(least), _)) => {
                    possible.push((least, at));
                    continue;
                }
                Some((Err(rejected), unsure)) => {
                    self.found.unsure.extend(unsure.map(|least| (least, setups[at])));
                    self.found.leave_out(setups[at], &rejected);
                }
                None => self.found.leave_out_all(STOPPED, 1),
            }
            (watch.done)(1);
        }
        possible.sort_unstable();
        possible
    }

    /// Whether what is `rejected` for lack of memory is as likely to fit as not.
    fn is_likely(&self, rejected: &Rejected) -> bool {
        let budget = self.inputs.recipe.memory_budget;
        matches!(rejected, Rejected::Memory(overflow) if budget.is_likely(overflow))
    }

    /// How many of `ascending` bounds and places could still be among the best.
    fn hopeful(&self, ascending: &[(Nanos, usize)]) -> usize {
        let last = self.count.checked_sub(1).and_then(|last| self.kept.get(last));
        let last = last.map(|Kept { step, at, .. }| (*step, *at));
        let below = self.below.map(|step| (step, 0)).into_iter().chain(last).min();
        below.map_or(ascending.len(), |below| ascending.partition_point(|bound| *bound < below))
    }

    /// Replays `round`.
    fn simulate(&mut self, round: &[(Nanos, usize)]) {
        let Self { inputs, setups, watch, .. } = *self;
        let evaluate = |replay: &mut Replay, &(least, at): &(Nanos, usize)| {
            let evaluated = first_that_fits(&setups[at], |setup| {
                inputs.evaluate_all(&inputs.cost(setup)?, replay, watch.orders)
            });
            (least, at, evaluated)
        };
        let all: Vec<_> = round.par_iter().map_init(Replay::new, evaluate).collect();
        for (least, at, evaluated) in all {
            match evaluated {
                Ok(all) => {
                    self.found.simulated += 1;
                    let steps = || all.iter().map(|one| one.step);
                    let orders = all.iter().map(Evaluation::under_limit);
                    let taken = limits::worth(orders).unwrap_or_default();
                    // Which of them the engine takes is known when it has run them.
                    let step = if self.runs { steps().min() } else { steps().nth(taken) };
                    let step = step.unwrap_or_default();
                    self.kept.push(Kept { step, at, candidate: Candidate::Replayed(all) });
                }
                Err(rejected) => {
                    if self.is_likely(&rejected) {
                        self.found.unsure.push((least, setups[at]));
                    }
                    self.found.leave_out(setups[at], &rejected);
                }
            }
        }
    }

    /// Keeps the best; where the engine decides, it runs every set-up whose lower bound could be among
    /// them.
    fn settle(&mut self) {
        let (inputs, orders) = (self.inputs, self.watch.orders);
        loop {
            self.kept.sort_by_key(|one| (one.step, one.at));
            let stopped = (self.watch.stop)();
            if !self.runs || stopped && self.kept.iter().any(|one| !one.is_open()) {
                break;
            }
            let most = if stopped { 1 } else { self.count };
            let best = self.kept.iter_mut().take(most);
            let mut open: Vec<&mut Kept> = best.filter(|one| one.is_open()).collect();
            if open.is_empty() {
                break;
            }
            open.par_iter_mut().for_each(|one| one.settle(inputs, orders));
            self.leave_out_failed();
        }
        if self.runs && (self.watch.stop)() {
            let open = self.kept.extract_if(.., |one| one.is_open()).count() as u64;
            self.found.simulated -= open;
            self.found.leave_out_all(STOPPED, open);
        }
        self.kept.truncate(self.count);
    }

    /// Leaves out set-ups that the engine could not run.
    fn leave_out_failed(&mut self) {
        let is_failed = |one: &mut Kept| matches!(one.candidate, Candidate::Failed(_));
        let failed: Vec<Kept> = self.kept.extract_if(.., is_failed).collect();
        for one in failed {
            let Candidate::Failed(error) = one.candidate else { continue };
            let reason = match error {
                FinalistError::Rejected(_) => NOT_RUN.to_owned(),
                other => other.to_string(),
            };
            self.found.simulated -= 1;
            self.found.leave_out_all(&reason, 1);
        }
    }
}

/// `evaluated` of `setup` without the copies to the host of its options or, where that does not fit, without CUDA
/// graphs of modules, whose buffers take memory, with those copies, or with copies and without graphs.
pub(crate) fn first_that_fits<T>(
    setup: &Setup,
    mut evaluated: impl FnMut(&Setup) -> Result<T, Rejected>,
) -> Result<T, Rejected> {
    let mut last = evaluated(&setup.without_offload());
    let own = setup.options;
    let eager = Options { graphs: Graphs::None, ..own };
    let [copies, captures] = [own.offload != Offload::NONE, own.graphs == Graphs::Partial];
    let tried = [
        captures.then_some(Options { offload: Offload::NONE, ..eager }),
        copies.then_some(own.beside_offload()),
        (copies && captures).then_some(eager),
    ];
    for options in tried.into_iter().flatten() {
        if !matches!(last, Err(Rejected::Memory(_) | Rejected::Schedule(_))) {
            break;
        }
        match evaluated(&Setup { options, ..*setup }) {
            Err(Rejected::Unfit(_)) => {}
            with => last = with,
        }
    }
    last
}

impl Found {
    fn leave_out_all(&mut self, reason: &str, count: u64) {
        if count > 0 {
            *self.left_out.entry(reason.to_owned()).or_default() += count;
        }
    }

    fn leave_out(&mut self, setup: Setup, rejected: &Rejected) {
        let reason = match rejected {
            Rejected::Unfit(unfit) => unfit.to_string(),
            Rejected::Schedule(_) => {
                format!("{} cannot do the shape or the memory", setup.schedule_name())
            }
            Rejected::Memory(_) => NO_MEMORY.to_owned(),
        };
        self.leave_out_all(&reason, 1);
        if let Rejected::Memory(overflow) = rejected {
            let lacks = |overflow: &Overflow| overflow.needs.0 - overflow.has.0;
            if self.nearest.is_none_or(|(_, known)| lacks(overflow) < lacks(&known)) {
                self.nearest = Some((setup, *overflow));
            }
        }
    }
}
