//! Assignment of layers to chunks, searched together with the order of passes.
//!
//! The set-up with balanced layers and a searched order comes first. A short joint search then looks at
//! assignments near it: those whose lower bound is not faster are left out, a few get an order quickly,
//! and the best gets a full search. The result is never slower than the set-up it starts from.

use pipeline::{LayerLayout, Limit};
use search::{
    Choice, Effort, Instance, Jointly, Neighbour, NeighbourhoodEffort, Space, probe_neighbourhood,
};
use sim::Replay;

use crate::costed::{Costed, Rejected};
use crate::finalist::Finalist;
use crate::inputs::Inputs;
use crate::limits;
use crate::orders::Orders;
use crate::searched;
use crate::setup::{Setup, Split, Unfit};

/// Assignments that are looked at, beside those that a joint search begins with.
const CHOICES: u64 = 96;
/// Assignments for which an order is quickly searched.
const ORDERS: u64 = 16;
/// How many times each pass is placed or timed for such an order.
const EFFORT: u64 = 20;

impl Inputs<'_> {
    /// `run`, whose order was searched, or a faster run of the same set-up with another assignment of
    /// layers.
    #[must_use]
    pub(crate) fn with_layers_assigned(&self, run: Finalist, orders: &Orders<'_>) -> Finalist {
        if !searched::is_known(run.costed()) || !searched::is_small(run.costed()) {
            return run;
        }
        let assignments = LayerAssignments { inputs: self, known: &run, most: run.costed().limit };
        let found = if assignments.are_hopeful() { assignments.best(orders) } else { None };
        found.filter(|other| other.step < run.step).unwrap_or(run)
    }
}

/// The assignments of layers of one set-up.
struct LayerAssignments<'a> {
    inputs: &'a Inputs<'a>,
    /// The run with balanced layers.
    known: &'a Finalist,
    /// The limit of its order.
    most: Option<Limit>,
}

impl LayerAssignments<'_> {
    /// Whether a search of assignments may be worth its time: the known order is not close to its
    /// bound, or the bound of an assignment with one layer less on a busiest stage is lower.
    fn are_hopeful(&self) -> bool {
        let (costed, asked) = (self.known.costed(), self.space().asked);
        let worth = searched::worth_a_search(self.known.evaluation.step);
        let is_lower = |costed: &Costed| {
            searched::least(costed, costed.limit).is_ok_and(|least| least < worth)
        };
        if is_lower(costed) {
            return true;
        }
        let busiest = self.busiest();
        let shifted = |from: usize, to: usize| {
            let mut choice = asked.clone();
            choice.layers[from] = choice.layers[from].checked_sub(1)?;
            choice.layers[to] += 1;
            self.costed(&choice).ok()
        };
        let chunks = asked.layers.len();
        let all = (0..chunks).filter(|from| busiest.contains(from));
        let mut all = all.flat_map(|from| (0..chunks).map(move |to| (from, to)));
        all.any(|(from, to)| from != to && shifted(from, to).is_some_and(|one| is_lower(&one)))
    }

    /// The chunks of the stage with the most work for a microbatch.
    fn busiest(&self) -> Vec<usize> {
        let Costed { setup, shape, costs, .. } = self.known.costed();
        let placement = setup.family.about().placement;
        let work = |stage: usize| {
            let times =
                placement.chunks_of(*shape, stage).map(|chunk| costs.chunks()[usize::from(chunk)]);
            let own = times.map(|one| [one.forward, one.backward_input, one.backward_weight]);
            own.flatten().fold(0, |sum: u64, time| sum.saturating_add(time.0))
        };
        let most =
            (0..shape.stages()).max_by_key(|stage| (work(*stage), std::cmp::Reverse(*stage)));
        let chunks = placement.chunks_of(*shape, most.unwrap_or_default());
        chunks.map(usize::from).collect()
    }

    /// A run with the most promising assignment, if one promises anything.
    fn best(&self, orders: &Orders<'_>) -> Option<Finalist> {
        let costed = self.known.costed();
        let space = self.space();
        let instance = |choice: &Choice| self.instance(choice);
        let jointly =
            Jointly { space: &space, instance: &instance, known: &[], effort: Effort::default() };
        let passes = costed.boundary.objective().of(&self.known.evaluation.metrics);
        let looks = NeighbourhoodEffort {
            choices: CHOICES,
            orders: ORDERS,
            effort: EFFORT,
            known: Some(searched::worth_a_search(passes)),
        };
        let looked = probe_neighbourhood(&jointly, looks, orders.stop()).ok()?;
        let costed = self.most_promising(&looked, &space.asked)?;
        // Run as a request for this set-up alone would be, under the limit that is worth its memory.
        let all = self.inputs.evaluate_all(&costed, &mut Replay::new(), orders).ok()?;
        self.inputs.settle(all, orders).ok()
    }

    /// The search space: the layers of the known run, in as many chunks with the same placement.
    fn space(&self) -> Space {
        let Costed { setup, shape, layers, mtp, .. } = self.known.costed();
        let placement = setup.family.about().placement;
        let asked = Choice {
            chunks_per_stage: shape.chunks_per_stage(),
            placement,
            layers: layers.clone(),
            mtp: mtp.iter().position(|layers| *layers > 0),
            activations: vec![0; layers.len()],
            pairs: false,
        };
        Space {
            stages: shape.stages(),
            asked,
            forms: vec![(shape.chunks_per_stage(), placement)],
            moves_layers: true,
            are_alike: false,
            treatments: 1,
            host: None,
            chooses_pairs: false,
        }
    }

    /// Costs and footprints of the passes with `choice`, if it is valid.
    fn instance(&self, choice: &Choice) -> Option<Instance> {
        searched::instance(&self.costed(choice).ok()?).ok()
    }

    /// The costs of the set-up with the layers of `choice`, under the largest limit that fits into
    /// memory, up to that of the known run.
    fn costed(&self, choice: &Choice) -> Result<Costed, Rejected> {
        if bare(&choice.layers) > bare(&self.known.costed().layers) {
            return Err(Unfit::Layers.into());
        }
        let layout = LayerLayout::of(choice.layers.clone()).ok();
        let mtp = &self.known.costed().mtp;
        let spread = mtp.iter().filter(|layers| **layers > 0).count() > 1;
        let layout = layout.and_then(|one| match choice.mtp {
            // Several chunks keep theirs.
            Some(_) if spread => one.with_mtp_by_chunk(mtp),
            Some(chunk) => one.with_mtp(chunk, self.inputs.model.mtp),
            None => Some(one),
        });
        let layout = layout.ok_or(Unfit::Layers)?;
        let inputs = Inputs { layout: Some(&layout), ..*self.inputs };
        let setup = Setup { split: Split::Searched, ..self.known.costed().setup };
        let costed = inputs.cost(&setup)?;
        inputs.check_least(&costed)?;
        let limit = self.most.and_then(|most| limits::largest(&costed, most));
        Ok(Costed { limit: limit.or(self.most), ..costed })
    }

    /// The assignment of `looked` with the shortest step by its order, if it is shorter than the step
    /// of `asked`.
    fn most_promising(&self, looked: &[Neighbour], asked: &Choice) -> Option<Costed> {
        let step = |one: &Neighbour| {
            let costed = self.costed(&one.choice).ok()?;
            Some((costed.step_of(one.cost), costed))
        };
        let known = looked.iter().find(|one| one.choice == *asked).and_then(step);
        let others = looked.iter().filter(|one| one.choice != *asked).filter_map(step);
        let (least, costed) = others.min_by_key(|(step, _)| *step)?;
        known.is_none_or(|(known, _)| least < known).then_some(costed)
    }
}

/// Chunks between the ends without a layer: their device has nothing to train, which not every
/// framework takes.
fn bare(layers: &[u64]) -> usize {
    let inner = layers.get(1..layers.len().saturating_sub(1)).unwrap_or_default();
    inner.iter().filter(|own| **own == 0).count()
}
