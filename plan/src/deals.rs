//! Layers that are dealt to chunks together with the order of passes that is searched.
//!
//! A set-up whose layers are dealt before its order is searched comes first. Then a short joint search looks at
//! deals near it: those of which a lower bound says that their order cannot be faster are left out, for a
//! few others orders are quickly found, and for the best of them one is searched in full. So what comes out is
//! never slower than what was there.

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

/// The deals that are looked at, beside those that a joint search begins with.
const CHOICES: u64 = 96;
/// Those of them for which orders are quickly found.
const ORDERS: u64 = 16;
/// How many times each pass is placed or timed for such an order.
const EFFORT: u64 = 20;

impl Inputs<'_> {
    /// `run`, whose order was searched, or a faster one of the same set-up with other layers in its chunks.
    #[must_use]
    pub(crate) fn with_layers_dealt(&self, run: Finalist, orders: &Orders<'_>) -> Finalist {
        if !searched::is_known(run.costed()) || !searched::is_small(run.costed()) {
            return run;
        }
        let deals = Deals { inputs: self, known: &run, most: run.costed().limit };
        let found = if deals.are_hopeful() { deals.best(orders) } else { None };
        found.filter(|other| other.step < run.step).unwrap_or(run)
    }
}

/// The deals of one set-up.
struct Deals<'a> {
    inputs: &'a Inputs<'a>,
    /// The run with layers dealt before.
    known: &'a Finalist,
    /// The limit of its order.
    most: Option<Limit>,
}

impl Deals<'_> {
    /// Whether a look at deals may be worth its time: the order that is known is not close to its bound, or that of
    /// a deal with a layer less on a busiest stage is lower.
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

    /// The chunks of the stage that has most to do for a microbatch.
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

    /// A run with the deal that promises most, if one promises anything.
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
        // As whoever asks for this set-up gets it, under whichever limit is worth its memory.
        let all = self.inputs.evaluate_all(&costed, &mut Replay::new(), orders).ok()?;
        self.inputs.settle(all, orders).ok()
    }

    /// The deals that there may be: the layers of the known run, in as many chunks that lie where its do.
    fn space(&self) -> Space {
        let Costed { setup, shape, layers, mtp_chunk, .. } = self.known.costed();
        let placement = setup.family.about().placement;
        let model = self.inputs.model;
        let asked = Choice {
            chunks_per_stage: shape.chunks_per_stage(),
            placement,
            layers: layers.clone(),
            mtp: (model.mtp > 0).then_some(*mtp_chunk),
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

    /// What passes cost and hold with `choice`, if it is one.
    fn instance(&self, choice: &Choice) -> Option<Instance> {
        searched::instance(&self.costed(choice).ok()?).ok()
    }

    /// The costs of the set-up with the layers of `choice`, under the largest limit that it has room for, up to
    /// that of the known run.
    fn costed(&self, choice: &Choice) -> Result<Costed, Rejected> {
        if bare(&choice.layers) > bare(&self.known.costed().layers) {
            return Err(Unfit::Layers.into());
        }
        let layout = LayerLayout::of(choice.layers.clone()).ok();
        let layout = layout.and_then(|one| match choice.mtp {
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

    /// Of `looked`, the deal whose step by its order is shortest, if it is shorter than that of `asked`.
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

/// How many chunks between the ends have no layer: a device has nothing to train there, which not every
/// framework takes.
fn bare(layers: &[u64]) -> usize {
    let inner = layers.get(1..layers.len().saturating_sub(1)).unwrap_or_default();
    inner.iter().filter(|own| **own == 0).count()
}
