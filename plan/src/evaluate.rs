//! A set-up simulated: its costs, its memory, its step.

use pipeline::{Bytes, Limit, Metrics, Nanos, Shape};
use sim::Replay;

use crate::bound;
use crate::costed::{Costed, Rejected, fits};
use crate::costing::Costing;
use crate::inputs::Inputs;
use crate::limits;
use crate::machine::Machine;
use crate::memory::StageMemory;
use crate::orders::Orders;
use crate::searched;
use crate::setup::{self, MAX_PASSES, Setup, Unfit};

/// As many passes as take as long to follow as one with copies to the host.
const COPYING: u64 = 5;

/// A set-up that has been simulated.
#[derive(Clone, Debug)]
pub struct Evaluation {
    pub costed: Costed,
    /// When each stage works.
    pub metrics: Metrics,
    /// A step with all the time between two steps.
    pub step: Nanos,
    /// The most each stage holds.
    pub memory: Vec<StageMemory>,
}

impl<'a> Inputs<'a> {
    pub fn cost(&self, setup: &Setup) -> Result<Costed, Rejected> {
        setup::check(setup, self.model, self.recipe, self.cluster)?;
        let microbatches = setup.microbatches(self.recipe.batch).ok_or(Unfit::Batch)?;
        let effort = if setup.copies() { COPYING } else { 1 };
        let shape = Shape::new(setup.pipeline, setup.chunks, microbatches)
            .and_then(|shape| shape.with_vocabulary(setup.family.vocabulary()))
            .ok()
            .filter(|shape| 3 * shape.cells() as u64 * effort <= MAX_PASSES)
            .ok_or(Unfit::TooLarge)?;
        let costed = self.costing(setup, shape)?.cost()?;
        if costed.is_endless() { Err(Unfit::Endless)? } else { Ok(costed) }
    }

    /// The inputs of the cost formulas for `setup`.
    pub(crate) fn costing(&self, setup: &'a Setup, shape: Shape) -> Result<Costing<'a>, Unfit> {
        let kinds = self.cluster.machine_of_stages(setup.pipeline).ok_or(Unfit::Mixed)?;
        let machines: Vec<&Machine> =
            kinds.iter().map(|&kind| &self.cluster.parts[kind].0).collect();
        Ok(Costing { inputs: *self, setup, shape, machines })
    }

    /// Lower bound of a step of `costed` over all orders: the work of the busiest stage with the fill
    /// and drain of the pipeline, and the time between two steps.
    #[must_use]
    pub fn least(&self, costed: &Costed) -> Nanos {
        let passes = bound::least(costed, self.recipe.boundary);
        let others = [costed.exchange, costed.optimizer, costed.latency];
        Nanos(others.iter().fold(passes.0, |sum, other| sum.saturating_add(other.0)))
    }

    /// Checks that each stage holds at least its resident bytes and one microbatch.
    pub fn check_least(&self, costed: &Costed) -> Result<(), Rejected> {
        let placement = costed.setup.family.about().placement;
        // Activations that are copied to the host need not be held together with the resident bytes.
        let one = match costed.setup.copies() {
            true => vec![Bytes(0); costed.shape.stages()],
            false => costed.held_by_microbatch().by_stage(costed.shape, placement),
        };
        let needs = costed
            .resident
            .iter()
            .zip(&one)
            .map(|(held, one)| Bytes(held.sum().0.saturating_add(one.0)));
        fits(needs, &costed.capacities)
    }

    /// The order of `costed` and its run. Where the family takes a limit, of the orders under several
    /// limits the one that is worth its memory.
    pub fn evaluate(&self, costed: &Costed, replay: &mut Replay) -> Result<Evaluation, Rejected> {
        self.evaluate_in(costed, replay, &Orders::default())
    }

    /// The same with orders that are known already.
    pub fn evaluate_in(
        &self,
        costed: &Costed,
        replay: &mut Replay,
        orders: &Orders<'_>,
    ) -> Result<Evaluation, Rejected> {
        if !limits::are_tried(&costed.setup) {
            return self.evaluate_one(costed.clone(), replay, orders);
        }
        let mut all = self.evaluate_all(costed, replay, orders)?;
        let taken = limits::worth(all.iter().map(Evaluation::under_limit)).unwrap_or_default();
        Ok(all.swap_remove(taken))
    }

    /// Evaluates the order of `costed` under every limit that is tried and fits: from 1p on the smallest first, then those
    /// below, the largest first. The result has at least one entry.
    pub(crate) fn evaluate_all(
        &self,
        costed: &Costed,
        replay: &mut Replay,
        orders: &Orders<'_>,
    ) -> Result<Vec<Evaluation>, Rejected> {
        let mut one = |limit| self.evaluate_one(Costed { limit, ..costed.clone() }, replay, orders);
        if !limits::are_tried(&costed.setup) {
            return Ok(vec![one(None)?]);
        }
        let mut all = Vec::new();
        let mut known: Option<Nanos> = None;
        for limit in limits::ample(costed) {
            if known.is_some_and(|known| is_in_vain(costed, Some(limit), known)) {
                continue;
            }
            let Ok(evaluation) = one(Some(limit)) else { break };
            known = Some(known.map_or(evaluation.step, |known| known.min(evaluation.step)));
            let binds = evaluation.is_bound();
            all.push(evaluation);
            // An order that stays below its limit is the same under a larger one.
            if !binds {
                break;
            }
        }
        let is_searched = costed.setup.searched;
        match all.is_empty() {
            true => costed.lacks(limits::LEAST)?,
            false if is_searched => return Ok(all),
            false => {}
        }
        let mut failed = None;
        for limit in limits::scarce(costed) {
            match one(Some(limit)) {
                Ok(evaluation) => all.push(evaluation),
                Err(error) => failed = Some(error),
            }
            // A search is long, and finds what is best under the largest.
            if is_searched && !all.is_empty() {
                break;
            }
        }
        if let (true, Some(failed)) = (all.is_empty(), failed) {
            return Err(failed);
        }
        // A searched order needs no share: it may use all memory that is left.
        let known = all.iter().map(|one| one.step).min();
        if is_searched && known.is_some_and(|known| !is_in_vain(costed, None, known)) {
            all.extend(one(None));
        }
        Ok(all)
    }

    /// Evaluates the order of `costed` under its limit.
    pub(crate) fn evaluate_one(
        &self,
        costed: Costed,
        replay: &mut Replay,
        orders: &Orders<'_>,
    ) -> Result<Evaluation, Rejected> {
        let schedule = orders.of(&costed).map_err(Rejected::Schedule)?;
        let (metrics, memory) = costed.timed(&schedule, replay)?;
        let step = costed.step(&metrics);
        Ok(Evaluation { costed, metrics, step, memory })
    }
}

/// Whether no order under `limit` can be worth its memory beside one whose step takes `known`: a search takes
/// long, so that none is made for it then.
fn is_in_vain(costed: &Costed, limit: Option<Limit>, known: Nanos) -> bool {
    let least = || searched::least(costed, limit);
    costed.setup.searched && least().is_ok_and(|least| !limits::saves(least, known))
}

impl Evaluation {
    /// The limit of its order, and its step.
    pub(crate) const fn under_limit(&self) -> (Option<Limit>, Nanos) {
        (self.costed.limit, self.step)
    }

    /// Whether some stage is so full that another activation of its largest chunk would be over the
    /// limit of the order.
    fn is_bound(&self) -> bool {
        let costed = &self.costed;
        let Some(limit) = costed.limit else { return false };
        let placement = costed.setup.family.about().placement;
        let one = costed.held_by_microbatch().by_stage(costed.shape, placement);
        let most = limit.bytes(costed.shape, one.iter().copied().max().unwrap_or_default());
        let mut stages = self.memory.iter().zip(one);
        stages.any(|(held, one)| {
            held.activations.0.saturating_add(held.graphs.0).saturating_add(one.0) > most.0
        })
    }

    /// The stage that holds most, with its memory.
    #[must_use]
    pub fn fullest(&self) -> (usize, StageMemory) {
        let stages = self.memory.iter().copied().enumerate();
        stages.rev().max_by_key(|(_, held)| held.sum()).unwrap_or_default()
    }
}
