//! Simulated annealing over how a step is dispatched: the stage of each microbatch, and what comes before slots.

use pipeline::Nanos;
use rayon::prelude::*;

use super::dispatch::{Dispatched, Job, Plan};
use super::{Beside, over};
use crate::annealing::{self, Cooling, Tolerance, Walker};
use crate::chance::Chance;
use crate::side_by_side::CHAINS;

/// The first temperature over the step that the walk begins with.
const HOT: f64 = 0.01;

/// A search under way.
pub(super) struct Search<'a> {
    pub(super) beside: &'a Beside<'a>,
    pub(super) job: &'a Job<'a>,
    /// Where a step is not longer, none is shorter.
    pub(super) bound: Nanos,
    /// Steps that each chain dispatches.
    pub(super) steps: usize,
    pub(super) seed: u64,
}

/// A plan with what it gives: bytes over the limit first, then the step.
#[derive(Clone)]
struct Tried {
    plan: Plan,
    over: u64,
    dispatched: Dispatched,
}

impl Tried {
    const fn value(&self) -> (u64, u64) {
        (self.over, self.dispatched.step)
    }
}

impl Search<'_> {
    /// The best step that is found.
    pub(super) fn best(&self, stop: &(dyn Fn() -> bool + Sync)) -> Dispatched {
        let mut rules: Vec<Tried> = self.rules().into_iter().map(|plan| self.tried(plan)).collect();
        rules.sort_by_key(Tried::value);
        let chain = |number: usize| {
            let from = rules[number % rules.len().min(2)].clone();
            self.walk(from, Chance::new(self.seed, number as u64), stop)
        };
        let found: Vec<Tried> = (0..CHAINS).into_par_iter().map(chain).collect();
        let best = found.iter().chain(&rules).min_by_key(|tried| tried.value());
        best.unwrap_or(&rules[0]).dispatched.clone()
    }

    /// Plans in which stages choose microbatches; with a limit of memory some that run less ahead.
    fn rules(&self) -> Vec<Plan> {
        let linked = self.job.linked;
        let (stages, microbatches) = (linked.stages.len(), linked.microbatches.len());
        let mut plans = Vec::new();
        let ahead = match self.beside.limits {
            None => vec![microbatches],
            Some(_) => vec![microbatches, 2 * stages, stages, stages.div_ceil(2), 1],
        };
        for ahead in ahead {
            for (eager, whole) in [(false, true), (false, false), (true, true), (true, false)] {
                plans.push(Plan { ahead, ..Plan::open(linked, eager, whole) });
            }
        }
        // One after the other on all stages.
        let in_turn = Plan::open(linked, false, true);
        let places = linked.microbatches.iter().enumerate();
        let mut given = in_turn.stages.clone();
        for (at, &microbatch) in places {
            given[microbatch as usize] = u16::try_from(at % stages).ok();
        }
        plans.push(Plan { stages: given, ..in_turn });
        plans
    }

    fn tried(&self, plan: Plan) -> Tried {
        let dispatched = self.job.run(&plan);
        let over = match self.beside.limits {
            None => 0,
            Some(_) => over(self.beside, &dispatched.order).1,
        };
        Tried { plan, over, dispatched }
    }

    /// The best step that a walk from the plan of `from` meets.
    fn walk(&self, from: Tried, mut chance: Chance, stop: &(dyn Fn() -> bool + Sync)) -> Tried {
        let chosen = from.dispatched.stages.iter().map(|&stage| Some(stage)).collect();
        let plan = Plan { stages: chosen, ..from.plan.clone() };
        let now = if plan == from.plan { from } else { self.tried(plan) };
        let mut best = (now.value(), now.clone());
        #[allow(clippy::cast_precision_loss)]
        // Rounding of temperatures does not matter to a search.
        let hot = now.dispatched.step as f64 * HOT;
        let cooling = Cooling { hot, ratio: 0.0, steps: self.steps as u64 };
        let mut walk = Walk { search: self, now, dispatched: 0 };
        annealing::anneal(&mut walk, (&mut chance, cooling), &mut best, stop);
        best.1
    }

    /// `plan` with one change.
    fn changed(&self, plan: &Plan, chance: &mut Chance) -> Plan {
        let mut plan = plan.clone();
        let microbatches = plan.stages.len();
        let stages = plan.eager.len();
        let at = chance.below(microbatches);
        match chance.below(8) {
            0..=2 => plan.stages[at] = u16::try_from(chance.below(stages)).ok(),
            3 | 4 => plan.stages.swap(at, chance.below(microbatches)),
            5 => {
                let urgent = &mut plan.urgent[chance.below(2)][at];
                *urgent = !*urgent;
            }
            6 => {
                let stage = chance.below(stages);
                plan.eager[stage] = !plan.eager[stage];
            }
            _ if self.beside.limits.is_some() => plan.ahead = 1 + chance.below(microbatches),
            _ => plan.stages.swap(at, (at + 1) % microbatches),
        }
        plan
    }
}

/// A plan that changes step by step.
struct Walk<'a> {
    search: &'a Search<'a>,
    now: Tried,
    /// Steps dispatched.
    dispatched: u64,
}

impl Walker for Walk<'_> {
    type Value = (u64, u64);
    type Order = Tried;
    /// The plan before the change.
    type Change = Tried;

    fn value(&self) -> (u64, u64) {
        self.now.value()
    }

    fn export(&self, into: &mut Tried) {
        into.clone_from(&self.now);
    }

    fn spent(&self) -> u64 {
        self.dispatched
    }

    fn propose(&mut self, chance: &mut Chance) -> Option<Tried> {
        let next = self.search.tried(self.search.changed(&self.now.plan, chance));
        Some(std::mem::replace(&mut self.now, next))
    }

    fn takes(&mut self, before: &Tried, tolerance: Tolerance<'_>) -> bool {
        self.dispatched += 1;
        #[allow(clippy::cast_precision_loss)] // As above.
        let more = self.now.dispatched.step as f64 - before.dispatched.step as f64;
        let over = self.now.over.cmp(&before.over);
        over.is_lt() || over.is_eq() && more <= tolerance.draw()
    }

    fn undo(&mut self, before: Tried) {
        self.now = before;
    }

    fn is_done(&self) -> bool {
        self.now.value() <= (0, self.search.bound.0)
    }
}
