//! Joint searches of small models, beside every choice with every order of its search.

use pipeline::{Bytes, Costs, Footprint, Footprints, Limits, PassTimes, Placement, Shape};
use proptest::prelude::*;

use super::*;
use crate::Objective;

/// A model of equal layers with more at its ends, on two stages or three.
#[derive(Clone, Debug)]
struct Model {
    stages: u64,
    microbatches: u64,
    layers: u64,
    /// F, B and W of a layer, of the embedding and of the head.
    times: [[u64; 3]; 3],
    /// M_B and M_W of a layer.
    held: [u64; 2],
    limit: Option<u64>,
    recomputes: bool,
}

impl Model {
    fn instance(&self, choice: &Choice) -> Option<Instance> {
        let (own, last) = (u64::from(choice.chunks_per_stage), choice.layers.len() - 1);
        let shape = Shape::new(self.stages, own, self.microbatches).ok()?;
        let times = choice.layers.iter().enumerate().map(|(chunk, &layers)| {
            let [layer, first, end] = self.times;
            let part = |at: usize| {
                let ends = [(chunk == 0, first[at]), (chunk == last, end[at])];
                let ends: u64 = ends.iter().filter(|(there, _)| *there).map(|(_, time)| time).sum();
                Nanos(layers * layer[at] + ends)
            };
            PassTimes { forward: part(0), backward_input: part(1), backward_weight: part(2) }
        });
        let times: Vec<PassTimes> = times.collect();
        let again = |(chunk, part): (usize, &usize)| (*part == 1).then_some(times[chunk].forward);
        let again: Vec<_> = choice.recompute.iter().enumerate().map(again).collect();
        let held = choice.layers.iter().map(|layers| Footprint {
            until_backward: Bytes(layers * self.held[0]),
            until_weight: Bytes(layers * self.held[1]),
        });
        let footprints = Footprints::new(held.collect());
        let kept = choice.recompute.iter().map(|part| (*part == 1).then_some(Bytes(1)));
        let kept = kept.zip(&choice.layers).map(|(kept, layers)| kept.filter(|_| *layers > 0));
        let costs = Costs::new(times.clone(), Nanos(1));
        let (costs, footprints) = match again.iter().any(Option::is_some) {
            true => (costs.with_recompute(again), footprints.with_kept(kept.collect())),
            false => (costs, footprints),
        };
        let limits = self.limit.map(|limit| Limits::new(shape, &[Bytes(limit)]).unwrap());
        Instance::new(shape, choice.placement, costs, footprints, limits, Objective::Span).ok()
    }

    fn space(&self, forms: Vec<(u16, Placement)>) -> Space {
        let (chunks_per_stage, placement) = forms[0];
        let chunks = usize::from(chunks_per_stage) as u64 * self.stages;
        let layers: Vec<u64> = (0..chunks)
            .map(|chunk| self.layers / chunks + u64::from(chunk < self.layers % chunks))
            .collect();
        let recompute = vec![0; layers.len()];
        let asked = Choice { chunks_per_stage, placement, layers, mtp: None, recompute };
        let stages = usize::try_from(self.stages).unwrap();
        let recomputed = if self.recomputes { 2 } else { 1 };
        Space { stages, asked, forms, moves_layers: true, are_alike: true, recomputed }
    }

    fn found(
        &self,
        space: &Space,
        known: &[(Choice, Schedule)],
    ) -> Result<FoundJointly, SearchError> {
        let instance = |choice: &Choice| self.instance(choice);
        let effort = Effort { times: Some(0), seed: 7 };
        let jointly = Jointly { space, instance: &instance, known, effort };
        search_jointly(&jointly, &mut |_| {}, &|| false)
    }
}

fn models() -> impl Strategy<Value = Model> {
    let times = || proptest::array::uniform3(1..20u64);
    let ends = [times(), times(), times()];
    let held = (1..20u64, 0..10u64);
    let limit = proptest::option::of(20..200u64);
    (2..4u64, 1..6u64, 2..9u64, ends, held, limit, any::<bool>()).prop_map(
        |(stages, microbatches, layers, times, held, limit, recomputes)| Model {
            stages,
            microbatches,
            layers,
            times,
            held: [held.0, held.1],
            limit,
            recomputes,
        },
    )
}

const FORMS: [(u16, Placement); 3] =
    [(1, Placement::Looped), (2, Placement::Looped), (2, Placement::Vee)];

proptest! {
    #![proptest_config(ProptestConfig::with_cases(48))]

    #[test]
    fn what_is_found_has_all_layers_fits_and_beats_what_was_asked(model in models()) {
        let space = model.space(FORMS.to_vec());
        let Ok(found) = model.found(&space, &[]) else { return Ok(()) };
        let FoundJointly { choice, instance, found: order, .. } = &found;
        prop_assert_eq!(choice.layers.iter().sum::<u64>(), model.layers);
        let again = model.instance(choice);
        prop_assert_eq!(again.as_ref(), Some(instance));
        let memory = Memory::of(&order.schedule, &instance.footprints).unwrap();
        prop_assert!(instance.limits.as_ref().is_none_or(|limits| memory.over(limits).is_none()));
        let replayed = sim::Replay::new().metrics(&order.schedule, &instance.costs).unwrap();
        prop_assert_eq!(order.cost, replayed.span());
        prop_assert!(found.bound <= order.cost);
        let asked = model.instance(&space.asked).unwrap();
        let effort = Effort { times: Some(0), seed: 7 };
        if let Ok(alone) = search(&asked, effort, |_| {}, &|| false) {
            prop_assert_eq!(found.asked, Some(alone.cost));
            prop_assert!(order.cost <= alone.cost);
        }
        for one in &found.published {
            prop_assert!(order.cost <= one.cost, "{:?}", one);
            prop_assert!(one.choice.is_uniform());
        }
    }

    #[test]
    fn every_choice_next_to_one_has_all_layers(model in models(), at in any::<prop::sample::Index>()) {
        let space = model.space(vec![(2, Placement::Vee)]);
        let mut choice = space.asked.clone();
        for _ in 0..3 {
            let near = space.near(&choice);
            prop_assert!(near.iter().all(|one| *one != choice));
            prop_assert!(near.iter().all(|one| one.layers.iter().sum::<u64>() == model.layers));
            choice = near[at.index(near.len())].clone();
        }
    }

    /// What is looked at is the cheapest first, as costs are of orders that fit; no bound says that a choice is not
    /// worth it; and no more orders are made than are allowed beside those of the choices that it begins with.
    #[test]
    fn a_look_around_is_as_far_as_it_may_go(model in models(), part in 1..4u64) {
        let space = model.space(vec![(1, Placement::Looped)]);
        let instance = |choice: &Choice| model.instance(choice);
        let effort = Effort::default();
        let jointly = Jointly { space: &space, instance: &instance, known: &[], effort };
        let around = |orders, known| {
            let looks = Looks { choices: 24, orders, effort: 8, known };
            look_around(&jointly, looks, &|| false).unwrap()
        };
        let all = around(24, None);
        prop_assert!(all.windows(2).all(|two| two[0].cost <= two[1].cost));
        for Looked { choice, instance, cost } in &all {
            prop_assert_eq!(choice.layers.iter().sum::<u64>(), model.layers);
            prop_assert_eq!(&model.instance(choice).unwrap(), instance);
            prop_assert!(crate::bounds::best(instance).cost <= *cost);
        }
        // The question's own, uniform and balanced ones.
        let uniform = if model.recomputes { 2 } else { 1 };
        prop_assert!(around(0, None).len() <= 1 + 2 * uniform);
        let Some(best) = all.first() else { return Ok(()) };
        let known = Nanos(best.cost.0 * part / 3);
        let begun: Vec<Choice> = around(0, None).into_iter().map(|one| one.choice).collect();
        for one in around(24, Some(known)).iter().filter(|one| !begun.contains(&one.choice)) {
            prop_assert!(crate::bounds::best(&one.instance).cost < known);
        }
        let on = |threads| {
            let pool = rayon::ThreadPoolBuilder::new().num_threads(threads).build().unwrap();
            pool.install(|| around(24, None))
        };
        prop_assert_eq!(on(1), on(2));
    }

    #[test]
    fn threads_change_nothing(model in models()) {
        let space = model.space(FORMS.to_vec());
        let on = |threads| {
            let pool = rayon::ThreadPoolBuilder::new().num_threads(threads).build().unwrap();
            pool.install(|| model.found(&space, &[]))
        };
        prop_assert_eq!(on(1), on(2));
    }
}

/// Every way to cut `layers` into `chunks`.
fn cuts(layers: u64, chunks: usize) -> Vec<Vec<u64>> {
    if chunks == 1 {
        return vec![vec![layers]];
    }
    let first = 0..=layers;
    let with = |own: u64| {
        let rest = cuts(layers - own, chunks - 1).into_iter();
        rest.map(move |rest| std::iter::once(own).chain(rest).collect())
    };
    first.flat_map(with).collect()
}

/// The joint search finds what trying every choice does, each with a whole search of its order.
#[test]
fn no_choice_of_a_small_model_is_better() {
    let plain = Model {
        stages: 2,
        microbatches: 4,
        layers: 6,
        times: [[4, 5, 3], [1, 0, 1], [9, 9, 5]],
        held: [10, 4],
        limit: Some(130),
        recomputes: false,
    };
    let again = Model { recomputes: true, limit: Some(70), ..plain.clone() };
    for model in [plain, again] {
        let space = model.space(FORMS.to_vec());
        let mut best = None;
        for (own, placement) in FORMS {
            let chunks = usize::from(own) * space.stages;
            for layers in cuts(model.layers, chunks) {
                for bits in 0..if model.recomputes { 1_usize << chunks } else { 1 } {
                    let recompute = (0..chunks).map(|chunk| bits >> chunk & 1).collect();
                    let (chunks_per_stage, layers) = (own, layers.clone());
                    let choice =
                        Choice { chunks_per_stage, placement, layers, mtp: None, recompute };
                    let Some(instance) = model.instance(&choice) else { continue };
                    let known = best.unwrap_or(Nanos(u64::MAX));
                    if crate::bounds::check_limits(&instance).is_err()
                        || crate::bounds::best(&instance).cost >= known
                    {
                        continue;
                    }
                    let effort = Effort { times: Some(0), seed: 7 };
                    let found = search(&instance, effort, |_| {}, &|| false).unwrap();
                    best = Some(known.min(found.cost));
                }
            }
        }
        let instance = |choice: &Choice| model.instance(choice);
        let effort = Effort { times: Some(1), seed: 7 };
        let jointly = Jointly { space: &space, instance: &instance, known: &[], effort };
        let found = search_jointly(&jointly, &mut |_| {}, &|| false).unwrap();
        assert!(Some(found.found.cost) <= best, "{found:?} {best:?}");
        assert!(found.asked.is_none_or(|asked| found.found.cost < asked));
    }
}

/// A choice that is known is never made worse.
#[test]
fn what_is_known_is_kept() {
    let model = Model {
        stages: 2,
        microbatches: 6,
        layers: 8,
        times: [[4, 5, 3], [1, 0, 1], [9, 9, 5]],
        held: [10, 4],
        limit: Some(200),
        recomputes: false,
    };
    let space = model.space(vec![(1, Placement::Looped)]);
    let layers = vec![5, 3];
    let known = Choice { layers, ..space.asked.clone() };
    let alone = search(&model.instance(&known).unwrap(), Effort::default(), |_| {}, &|| false);
    let alone = alone.unwrap();
    let found = model.found(&space, &[(known, alone.schedule)]).unwrap();
    assert!(found.found.cost <= alone.cost);
}

/// Where it is stopped at once there is an answer, and it says so.
#[test]
fn the_first_choice_that_fits_is_an_answer() {
    let model = Model {
        stages: 3,
        microbatches: 6,
        layers: 8,
        times: [[4, 5, 3], [1, 0, 1], [9, 9, 5]],
        held: [10, 4],
        limit: Some(200),
        recomputes: true,
    };
    let space = model.space(FORMS.to_vec());
    let instance = |choice: &Choice| model.instance(choice);
    let effort = Effort::default();
    let jointly = Jointly { space: &space, instance: &instance, known: &[], effort };
    let found = search_jointly(&jointly, &mut |_| {}, &|| true).unwrap();
    assert!(found.interrupted);
    assert!(found.published.iter().all(|one| found.found.cost <= one.cost));
}

/// Layers are not cut: some stage has three of five.
#[test]
fn the_bound_of_all_choices_counts_whole_layers() {
    let model = Model {
        stages: 2,
        microbatches: 10,
        layers: 5,
        times: [[400, 500, 300], [0; 3], [0; 3]],
        held: [10, 4],
        limit: None,
        recomputes: false,
    };
    let found = model.found(&model.space(vec![(1, Placement::Looped)]), &[]).unwrap();
    // 10 microbatches of 3 layers of 1200, less 3 of rounding in the layers' work, and 3 in the chunk's.
    let exact = 10 * 3 * 1200;
    assert!((exact - 60..=exact).contains(&found.bound.0), "{}", found.bound);
    assert!(found.bound <= found.found.cost);
}
