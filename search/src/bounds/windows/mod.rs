//! Bounds by windows: if an order cost less, the times at which its passes can start would contradict each
//! other.
//!
//! *Proof.* Take an order that costs C or less, with microbatches in order, and let every pass start as soon as
//! it can. Each pass has a *head*, a time before which it does not start, and a *last*, a time after which it does
//! not: the first F of the pipeline starts at 0, the first F of a stage when it arrives, for that is the
//! first pass of the stage and of all before it; and every pass of a stage ends within C of that (for the
//! makespan: within C of 0). [`propagate`] narrows these windows step by step, and each step follows from the
//! model. So where windows contradict each other there is no such order, and C + 1 is a bound. There is no search
//! in it: a verifier repeats the same propagation for the one C.
//!
//! *Without a cost* the same steps give heads that hold in every order, and tails: how much time there is from the
//! last start of a pass to the end. Each tail follows from the end alone, so that it does not
//! depend on C. Then [`overload`] says at once which costs have too little room on some stage.
//!
//! *Prefixes.* Leave out of an order all passes of the microbatches behind j: times stay, less is held, stages are
//! free more often, so it is an order of the first microbatches. If windows of these contradict each
//! other when B of microbatch j must start by some time, with no cost given, then it starts later in every order of
//! all: its head is raised. In windows of a cost there is as much slack everywhere as in the whole step, and what
//! each round trip loses is not added up; here the slack is only what that B may lose, and losses add up.
//!
//! All this is counts at the start of an F or R and order on a stage: it holds for passes that take no time and for
//! M_W greater than M_B, too. It is not used where passes overlap.

mod memory_propagation;
mod orders;
mod overload;
mod passes;
mod prefixes;
mod propagate;
mod state;
#[cfg(test)]
mod tests;

use pipeline::{Nanos, Pass};

use self::orders::{Place, Trials};
use self::passes::{NEVER, Passes};
use self::prefixes::Prefixes;
use self::propagate::{End, Propagation};
use self::state::Windows;
use super::argument::{Argument, Bound};
use crate::instance::Instance;

/// A head that refutations of prefixes have raised: in no order does the pass start sooner.
#[derive(Clone, Copy, PartialEq, Eq, Hash, Debug)]
pub struct Raised {
    /// The pass.
    pub pass: Pass,
    /// From the start of the first F of the pipeline.
    pub start: Nanos,
}

/// Bisection over costs ends when the open interval is this fraction of the gap to the best order.
const RESOLUTION: i64 = 64;

/// The most work of one propagation, in multiples of one visit of every pass.
const ROUNDS: u64 = 2_000;

/// The most work of the first propagation, in the same unit; it runs only if the effort allows that much, as in long
/// searches of large pipelines.
const FIRST_ROUNDS: u64 = 512;

/// Evidence for a bound by windows, besides the cost that it refutes.
#[derive(Clone, PartialEq, Eq, Default, Debug)]
pub struct Proof {
    /// Heads raised by prefixes, in the order in which they were shown.
    pub raised: Vec<Raised>,
    /// The branching log, only for [`Argument::Branching`]: a binary tree from its root, the first branch of each node
    /// before the second. A node is a pair of passes of a stage, of which the first runs before the second in its first
    /// branch, and behind it in its second; nothing is a leaf, where windows contradict each other.
    pub log: Vec<Option<[Pass; 2]>>,
}

impl Proof {
    /// Pairs of passes that were tried both ways.
    #[must_use]
    pub fn branches(&self) -> usize {
        self.log.len() / 2
    }

    /// The log of pairs of which the first was shown not to run before the second: each first branch ends at once.
    fn log_of(pairs: &[[Pass; 2]]) -> Vec<Option<[Pass; 2]>> {
        pairs.iter().flat_map(|&pair| [Some(pair), None]).chain([None]).collect()
    }
}

/// The most steps of all propagations, times the microbatches: a verifier takes about that factor longer.
const MOST_STEPS: u64 = 1 << 38;

/// A pipeline is small where trying every pair once takes no more steps.
const SMALL: u64 = 1 << 18;

/// Trying pairs may take so many times the work of trying each once.
const SWEEPS: u64 = 32;

/// Next step of the prover.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
enum Task {
    /// Heads and tails without a cost.
    Alone,
    /// The cost of the best order known, then costs between that and the bound.
    Costs,
    /// Heads by prefixes.
    Prefixes,
    /// Idle until a better order is known.
    Nothing,
}

/// Raises the bound of an instance step by step, as far as work is allowed.
pub(crate) struct Prover {
    passes: Passes,
    /// Windows without a cost.
    alone: Windows,
    raised: Vec<Raised>,
    prefixes: Prefixes,
    task: Task,
    /// No order costs less.
    bound: i64,
    /// How that was proved, with how many of the raised heads; `None` where other arguments prove it.
    proved: Option<(Argument, usize)>,
    /// The pairs that were tried for it.
    pairs: Vec<[Pass; 2]>,
    /// Whether both orders of pairs are tried, too.
    deep: bool,
    /// The least cost that is not refuted with these heads.
    open: Option<i64>,
    /// Every cost is a multiple of it.
    tick: i64,
    /// Steps made so far, and in the longest propagation.
    spent: u64,
    longest: u64,
}

impl Prover {
    /// `None` where windows do not apply ([`Passes::of`]) or microbatches differ. `bound` is what is known already.
    pub(crate) fn of(instance: &Instance, bound: Nanos) -> Option<Self> {
        if instance.costs.microbatch_work().is_some() {
            return None;
        }
        let passes = Passes::of(&instance.relaxed())?;
        let mut alone = Windows::of(&passes, passes.microbatches);
        let count = passes.microbatches;
        for (lane, one) in passes.lanes.iter().enumerate() {
            let begin = if passes.makespan { 0 } else { passes.begins[lane / passes.width] };
            let last = NEVER + begin - one.time;
            alone.lasts[lane * count..(lane + 1) * count].fill(last);
        }
        let (tick, prefixes) = (passes.tick(), Prefixes::of(&passes));
        let longest = (passes.lanes.len() * count * passes.width) as u64;
        Some(Self {
            alone,
            raised: Vec::new(),
            prefixes,
            task: Task::Alone,
            bound: i64::try_from(bound.0).ok()?,
            proved: None,
            pairs: Vec::new(),
            deep: false,
            open: None,
            tick,
            spent: 0,
            longest,
            passes,
        })
    }

    /// The bound, where it is more than was known.
    pub(crate) fn bound(&self) -> Option<Bound> {
        let (argument, _) = self.proved?;
        Some(Bound { argument, cost: Nanos(u64::try_from(self.bound).ok()?) })
    }

    /// Evidence for the bound: the raised heads that it uses, and the branching log.
    pub(crate) fn proof(self) -> Proof {
        let (mut raised, count) = (self.raised, self.proved.map_or(0, |(_, count)| count));
        raised.truncate(count);
        let branching = self.proved.is_some_and(|(argument, _)| argument == Argument::Branching);
        let log = if branching { Proof::log_of(&self.pairs) } else { Vec::new() };
        Proof { raised, log }
    }

    /// Whether all pairs are tried at little cost.
    pub(crate) fn is_small(&self) -> bool {
        self.sweep() <= SMALL
    }

    /// Works on while no more than `allowed` steps were made in all and `best` costs more than the bound.
    ///
    /// However much is allowed, there is an end to it: what is shown must be checked in reasonable time.
    pub(crate) fn prove(&mut self, best: Nanos, allowed: u64, stop: &dyn Fn() -> bool) {
        let allowed = allowed.min(MOST_STEPS / self.passes.microbatches as u64);
        let Ok(best) = i64::try_from(best.0) else { return };
        while self.bound < best && !stop() {
            let Some(left) = allowed.checked_sub(self.spent.saturating_add(self.needed())) else {
                return;
            };
            match self.task {
                Task::Alone => self.start(stop),
                Task::Costs => self.ask(best, left, stop),
                Task::Prefixes => self.raise(stop),
                Task::Nothing => match self.open {
                    // Only of a better order it may be asked whether it is the best.
                    Some(open) if best < open => self.task = Task::Costs,
                    _ => return,
                },
            }
        }
    }

    /// The steps that must be left for the next task to be begun.
    fn needed(&self) -> u64 {
        match (self.task, self.deep) {
            (Task::Alone, _) => self.longest.saturating_mul(FIRST_ROUNDS),
            (Task::Costs, true) => self.longest.saturating_add(self.sweep()),
            _ => self.longest,
        }
    }

    /// The steps of trying every pair once, about.
    fn sweep(&self) -> u64 {
        let each = (self.passes.width * self.passes.microbatches) as u64;
        let pairs = each * self.passes.lanes.len() as u64;
        pairs.saturating_mul(each * self.passes.width as u64)
    }

    /// Draws all conclusions from `windows`, where the stages of `open` have changed, or all.
    fn propagate(
        &mut self,
        windows: Windows,
        open: Option<usize>,
        stop: &dyn Fn() -> bool,
    ) -> (Windows, Result<(), End>) {
        let most = ROUNDS.saturating_mul((windows.heads.len() * self.passes.width) as u64);
        let mut propagation = Propagation::new(&self.passes, windows, most, stop);
        if let Some(stage) = open {
            propagation.look_only_at(stage);
        }
        let end = propagation.run();
        let steps = most - propagation.left;
        self.spent += steps;
        self.longest = self.longest.max(steps);
        (propagation.windows, end)
    }

    /// Draws what follows without a cost, and what [`overload`] says about that.
    fn start(&mut self, stop: &dyn Fn() -> bool) {
        self.task = Task::Costs;
        if !self.refresh(None, stop) {
            self.task = Task::Nothing;
        }
    }

    /// Whether all conclusions could be drawn without a cost.
    fn refresh(&mut self, open: Option<usize>, stop: &dyn Fn() -> bool) -> bool {
        let windows = self.alone.clone();
        let (windows, end) = self.propagate(windows, open, stop);
        if end.is_err() {
            return false;
        }
        let stages = 0..self.passes.stages();
        let propagation = Propagation::new(&self.passes, windows, 0, stop);
        let late = stages.map(|stage| propagation.lateness(stage)).max().unwrap_or(0);
        self.alone = propagation.windows;
        self.note(NEVER + late, &[]);
        true
    }

    /// Notes that no order costs less than `cost`, by windows and the `pairs` that were tried.
    fn note(&mut self, cost: i64, pairs: &[[Place; 2]]) {
        if cost <= self.bound {
            return;
        }
        let argument = match (pairs, &self.raised[..]) {
            ([], []) => Argument::Windows,
            ([], _) => Argument::Prefixes,
            _ => Argument::Branching,
        };
        let pass = |(lane, microbatch): Place| self.passes.pass(lane, microbatch);
        let pair = |pair: &[Place; 2]| Some([pass(pair[0])?, pass(pair[1])?]);
        let Some(pairs) = pairs.iter().map(pair).collect() else { return };
        (self.bound, self.pairs) = (cost, pairs);
        self.proved = Some((argument, self.raised.len()));
    }

    /// Asks whether an order can cost less than `best`, or than some cost between it and the bound.
    fn ask(&mut self, best: i64, left: u64, stop: &dyn Fn() -> bool) {
        let open = self.open.unwrap_or(i64::MAX).min(best);
        let target = if self.open.is_none_or(|open| best < open) {
            best
        } else {
            let middle = self.bound + (open - self.bound) / 2;
            middle + (self.tick - middle % self.tick) % self.tick
        };
        let is_fine = open - self.bound <= (best - self.bound) / RESOLUTION;
        if is_fine || target <= self.bound || self.open.is_some_and(|open| target >= open) {
            self.task = match (self.prefixes.is_over(), self.deep) {
                (true, true) => Task::Nothing,
                (true, false) => {
                    (self.deep, self.open) = (true, None);
                    Task::Costs
                }
                (false, _) => Task::Prefixes,
            };
            return;
        }
        let windows = self.alone.clone().within(&self.passes, target - 1);
        let (windows, mut end) = self.propagate(windows, None, stop);
        let mut shown = Vec::new();
        if self.deep && end.is_ok() {
            let most = left.min(self.sweep().saturating_mul(SWEEPS));
            let mut trials = Trials { passes: &self.passes, left: most, shown: Vec::new(), stop };
            end = trials.refute(windows);
            self.spent += most - trials.left;
            shown = trials.shown;
        }
        match end {
            Err(End::Empty) => self.note(target, &shown),
            Ok(()) | Err(End::Spent) => self.open = Some(target),
        }
    }

    /// Tries to raise the next head.
    fn raise(&mut self, stop: &dyn Fn() -> bool) {
        let Some(next) = self.prefixes.next(&self.passes, &self.alone) else {
            // With other heads other costs may be refuted.
            (self.open, self.task) = (None, Task::Costs);
            return;
        };
        let mut windows = self.alone.prefix(&self.passes, next.microbatch + 1);
        let at = windows.at(next.lane, next.microbatch);
        windows.lasts[at] = next.start - 1;
        let stage = next.lane / self.passes.width;
        let refuted = self.propagate(windows, Some(stage), stop).1 == Err(End::Empty);
        self.prefixes.tell(refuted);
        if !refuted {
            return;
        }
        let at = self.alone.at(next.lane, next.microbatch);
        self.alone.heads[at] = next.start;
        let pass = self.passes.pass(next.lane, next.microbatch);
        let start = u64::try_from(next.start).ok();
        if let Some((pass, start)) = pass.zip(start) {
            self.raised.push(Raised { pass, start: Nanos(start) });
        }
        if !self.refresh(Some(stage), stop) {
            self.task = Task::Nothing;
        }
    }
}
