//! The optimum: which cost is asked for next, until it is proved or time is over.

use std::cell::Cell;

use pipeline::{Fault, Memory, Nanos, Schedule};
use search::Instance;
use search::bounds::{Proof, best};
use sim::Replay;

use crate::branch::{Decision, Question, Weights, schedule};
use crate::compiled_instance::{CompiledInstance, KINDS, signed};
use crate::time_unit::tick;
use crate::unsuitable::{MOST_PASSES, Unsuitable, check_kind};
use crate::windows::Windows;

/// The most nodes of a tree: its log can be written down, and checked in minutes.
pub const MOST_NODES: usize = 1 << 20;

/// Nodes allowed for the first question, which windows alone must refute.
const FIRST_NODES: usize = 1;

/// The steps of a brief solution, in visited pairs of passes of a stage: about a second.
pub const BRIEF_STEPS: u64 = 1 << 27;

/// A pipeline is small where the steps are at least as many times the pairs of passes of its stages: a tree of 400 nodes,
/// each of which visits a pair some 20 times.
const STEPS_OF_A_PAIR: u64 = 1 << 13;

/// The same where the order is close to its bound: a tree of 100 nodes then often proves it.
const STEPS_OF_A_PAIR_CLOSE: u64 = 1 << 11;

/// An order is close to its bound where the gap is no more than this part of its cost: none of those measured that were
/// further away was proved in [`BRIEF_STEPS`].
const CLOSE: u64 = 50;

/// Growth factor of the nodes allowed, after a round without an answered question.
const MORE_NODES: usize = 64;

/// Number of questions that may go unanswered before more nodes are allowed: windows alone are quick, a tree is not.
const fn questions(nodes: usize) -> u32 {
    if nodes == FIRST_NODES { 12 } else { 4 }
}

/// The reason that a solver ended.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum End {
    /// The order is proved optimal.
    Proved,
    /// The program without whole backwards is solved: its optimum is a bound that the order found does not reach.
    Relaxed,
    /// Stopped by the caller, by a time limit or Ctrl-C.
    Stopped,
    /// The tree would have more nodes than [`MOST_NODES`].
    TooManyNodes,
    /// The allowed steps are spent.
    Spent,
}

/// The result of [`solve`].
#[derive(Clone, PartialEq, Eq, Debug)]
pub struct Answer {
    /// The best order known.
    pub schedule: Schedule,
    pub cost: Nanos,
    /// No order costs less.
    pub bound: Nanos,
    /// Why, if that is more than the bounds of crate `search` say, and more than was proved.
    pub proof: Option<Proof>,
    /// Nodes of all trees, of those that came to nothing too.
    pub nodes: usize,
    /// How it ended.
    pub end: End,
}

/// Checks that `instance` can be solved.
pub fn check(instance: &Instance) -> Result<(), Unsuitable> {
    check_kind(instance)?;
    let passes = kinds(instance) * instance.shape.cells();
    if passes > MOST_PASSES {
        return Err(Unsuitable::TooLarge { passes, binaries: crate::model::binaries(instance) });
    }
    Ok(())
}

/// The most kinds of passes that a chunk has.
fn kinds(instance: &Instance) -> usize {
    if instance.costs.has_recompute() { KINDS.len() } else { KINDS.len() - 1 }
}

/// Whether a solution of so many `steps` mostly proves the optimum of `instance`, whatever is known of it.
#[must_use]
pub fn is_small(instance: &Instance, steps: u64) -> bool {
    pairs(instance) <= steps / STEPS_OF_A_PAIR
}

/// The same where the best order known costs no more than `cost`, and no order less than `bound`.
#[must_use]
pub fn is_solved_briefly(instance: &Instance, [cost, bound]: [Nanos; 2], steps: u64) -> bool {
    let is_close = cost.0.saturating_sub(bound.0) <= cost.0 / CLOSE;
    is_small(instance, steps) || (is_close && pairs(instance) <= steps / STEPS_OF_A_PAIR_CLOSE)
}

/// The pairs of passes of all stages.
fn pairs(instance: &Instance) -> u64 {
    let each = kinds(instance) * usize::from(instance.shape.chunks_per_stage());
    let each = each.saturating_mul(instance.shape.microbatches() as usize) as u64;
    each.saturating_mul(each).saturating_mul(instance.shape.stages() as u64)
}

/// The best order of `instance` with all backwards split, from `known` on, with a proof of how good any of these can be.
/// `proved` is a bound from elsewhere, or 0.
///
/// The question is "is there an order that costs less than the best known?": a no is the proof that it
/// is optimal. Where too few nodes are allowed for an answer, the cost asked for is halved towards what
/// is proved already, which lifts the bound; then more nodes are allowed. No more than about `steps` steps are made, each a
/// look at a pair of passes of a stage. `progress` is
/// called with cost, bound and nodes after each question. `stop` is called often: once it returns true,
/// the result is that known by then. As long as it returns false, the same instance, order and steps give the
/// same result.
pub fn solve(
    instance: &Instance,
    known: Schedule,
    proved: Nanos,
    steps: u64,
    mut progress: impl FnMut(Nanos, Nanos, usize),
    stop: &dyn Fn() -> bool,
) -> Result<Answer, Unsuitable> {
    check(instance)?;
    let cost = cost(instance, &known)?;
    let bound = best(instance).cost.max(proved);
    let answer = Answer { schedule: known, cost, bound, proof: None, nodes: 0, end: End::Proved };
    let compiled = CompiledInstance::of(instance);
    let each = (compiled.width * compiled.microbatches) as u64;
    let left = Cell::new(steps);
    let is_over = || {
        left.set(left.get().saturating_sub(each * each));
        left.get() == 0 || stop()
    };
    let weights = Weights::of(&compiled);
    let stop: &dyn Fn() -> bool = &is_over;
    let mut solver = Solver { instance, compiled, weights, tick: tick(instance), answer, stop };
    let mut nodes = FIRST_NODES;
    while !solver.round(nodes, &mut progress)? {
        if stop() {
            solver.answer.end = if left.get() == 0 { End::Spent } else { End::Stopped };
            break;
        }
        if nodes == MOST_NODES {
            solver.answer.end = End::TooManyNodes;
            break;
        }
        nodes = (MORE_NODES * nodes).min(MOST_NODES);
    }
    Ok(solver.answer)
}

struct Solver<'a> {
    instance: &'a Instance,
    compiled: CompiledInstance,
    weights: Weights,
    /// Every cost is a multiple of it.
    tick: u64,
    answer: Answer,
    stop: &'a dyn Fn() -> bool,
}

impl Solver<'_> {
    /// Asks questions with `nodes` for each; returns whether the order is proved optimal.
    fn round(
        &mut self,
        nodes: usize,
        progress: &mut impl FnMut(Nanos, Nanos, usize),
    ) -> Result<bool, Fault> {
        // The least cost for which nodes were too few.
        let mut open: Option<u64> = None;
        let mut unanswered = 0;
        while unanswered < questions(nodes) {
            let Answer { cost, bound, .. } = self.answer;
            if bound >= cost {
                break;
            }
            let target = match open {
                None => cost.0,
                Some(open) => {
                    let highest = open.min(cost.0);
                    (bound.0 + (highest - bound.0) / 2).next_multiple_of(self.tick)
                }
            };
            if open.is_some_and(|open| target >= open) || target <= bound.0 {
                break;
            }
            if !self.ask(Nanos(target), nodes)? {
                open = Some(target);
                unanswered += 1;
            }
            progress(self.answer.cost, self.answer.bound, self.answer.nodes);
            if (self.stop)() {
                break;
            }
        }
        Ok(self.answer.bound >= self.answer.cost)
    }

    /// Decides whether an order costs less than `target`; false if undecided.
    fn ask(&mut self, target: Nanos, nodes: usize) -> Result<bool, Fault> {
        let most = signed(target.0) - 1;
        let (instance, compiled, stop) = (self.instance, &self.compiled, self.stop);
        let suits = |order: &Schedule| {
            fits(instance, order) && cost(instance, order).is_ok_and(|cost| cost < target)
        };
        let open = Question::most_open(compiled);
        let question = Question { compiled, nodes, open, stop };
        let mut windows = Windows::within(compiled, most).ok();
        let mut candidate = |windows: &Windows| schedule(instance, compiled, windows).filter(suits);
        let (decision, taken) =
            question.decide(windows.as_mut(), &mut self.weights, &mut candidate);
        self.answer.nodes += taken;
        match decision {
            Decision::Order(order) => {
                self.answer.cost = cost(instance, &order)?;
                self.answer.schedule = order;
                Ok(true)
            }
            Decision::None(log) => {
                self.answer.bound = target;
                self.answer.proof = Some(Proof { raised: Vec::new(), log });
                Ok(true)
            }
            Decision::Unknown => Ok(false),
        }
    }
}

pub(crate) fn cost(instance: &Instance, order: &Schedule) -> Result<Nanos, Fault> {
    Ok(instance.objective.of(&Replay::new().metrics(order, &instance.costs)?))
}

pub(crate) fn fits(instance: &Instance, order: &Schedule) -> bool {
    let Some(limits) = &instance.limits else { return true };
    Memory::of(order, &instance.footprints).is_ok_and(|memory| memory.over(limits).is_none())
}
