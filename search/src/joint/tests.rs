//! Joint searches of small models, beside every choice with every order of its search.

use pipeline::overlap::{
    Chain as Segments, Interleaving, Layer, Overlap, Rule, Segment, WeightSegment, Weights,
};
use pipeline::{
    Bytes, CopyTimes, Costs, Family, Footprint, Footprints, Limits, Memory, PassTimes, Placement,
    Shape,
};
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
    /// How long a copy to the host takes for a layer, if there are any.
    copy: Option<u64>,
    /// How long dispatch and combine of a layer take on the second stream, if there are any.
    communication: Option<u64>,
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
            PassTimes::new(part(0), part(1), part(2))
        });
        let times: Vec<PassTimes> = times.collect();
        let recomputes = |part: usize| self.recomputes && part == 1;
        let again =
            |(chunk, part): (usize, &usize)| recomputes(*part).then_some(times[chunk].forward);
        let again: Vec<_> = choice.activations.iter().enumerate().map(again).collect();
        let held = choice.layers.iter().map(|layers| Footprint {
            until_backward: Bytes(layers * self.held[0]),
            until_weight: Bytes(layers * self.held[1]),
        });
        let footprints = Footprints::new(held.collect());
        let kept = choice.activations.iter().map(|part| recomputes(*part).then_some(Bytes(1)));
        let kept = kept.zip(&choice.layers).map(|(kept, layers)| kept.filter(|_| *layers > 0));
        let costs = match self.communication {
            Some(time) => self.overlapped(choice, time)?,
            None => Costs::new(times.clone(), Nanos(1)),
        };
        let costs = if choice.pairs { costs } else { costs.apart() };
        let copy = |layers: &u64| {
            let time = Nanos(layers * self.copy.unwrap_or(0));
            CopyTimes { out: time, back: time }
        };
        let copies = self.copy.map(|_| choice.layers.iter().map(copy).collect());
        let costs = costs.with_copies(copies.unwrap_or_default());
        let (costs, footprints) = match again.iter().any(Option::is_some) {
            true => (costs.with_recompute(again), footprints.with_kept(kept.collect())),
            false => (costs, footprints),
        };
        let limits = self.limit.map(|limit| Limits::new(shape, &[Bytes(limit)]).unwrap());
        Instance::new(shape, choice.placement, costs, footprints, limits, Objective::Span).ok()
    }

    /// Chains of the layers of `choice`, whose dispatch and combine take `time`.
    fn overlapped(&self, choice: &Choice, time: u64) -> Option<Costs> {
        let [layer, first, end] = self.times;
        let name = |text: &str| text.parse().unwrap();
        let compute = |text, time| Segment::compute(name(text), Nanos(time));
        let moved = |text| Segment::communication(name(text), Nanos(time));
        let of = |[f, b, w]: [u64; 3], communicates: bool| {
            let ways = |text| communicates.then(|| moved(text));
            let forward = ways("dispatch").into_iter().chain([compute("experts", f)]);
            let backward = ways("combine").into_iter().chain([compute("experts", b)]);
            let segment = compute("experts", w);
            let weight = vec![WeightSegment { segment, behind: usize::from(communicates) }];
            Layer {
                forward: forward.chain(ways("combine")).collect(),
                backward: backward.chain(ways("dispatch")).collect(),
                weight,
            }
        };
        let last = choice.layers.len() - 1;
        let chains = choice.layers.iter().enumerate().map(|(chunk, &layers)| {
            let end_of = |there: bool, times| {
                if there { of(times, false) } else { Layer::default() }
            };
            let layers = vec![(of(layer, true), u32::try_from(layers).unwrap())];
            let layers = layers.into_iter().filter(|(_, count)| *count > 0).collect();
            Segments::new(end_of(chunk == 0, first), layers, end_of(chunk == last, end)).unwrap()
        });
        let interleaving = Interleaving::Published;
        let rule = Rule { interleaving, weights: Weights::Delayed, lone: true };
        Some(Costs::overlapped(Overlap::new(chains.collect(), rule).ok()?, Nanos(1)))
    }

    fn space(&self, forms: Vec<(u16, Placement)>) -> Space {
        let (chunks_per_stage, placement) = forms[0];
        let chunks = usize::from(chunks_per_stage) as u64 * self.stages;
        let layers: Vec<u64> = (0..chunks)
            .map(|chunk| self.layers / chunks + u64::from(chunk < self.layers % chunks))
            .collect();
        let activations = vec![0; layers.len()];
        let pairs = self.communication.is_some();
        let asked = Choice { chunks_per_stage, placement, layers, mtp: None, activations, pairs };
        let stages = usize::try_from(self.stages).unwrap();
        let parts = if self.recomputes { 2 } else { 1 };
        let host = self.copy.map(|_| parts);
        Space {
            stages,
            asked,
            forms,
            moves_layers: true,
            are_alike: true,
            treatments: parts + usize::from(host.is_some()),
            host,
            chooses_pairs: pairs,
        }
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
            copy: None,
            communication: None,
        },
    )
}

/// The same with copies to the host.
fn copying() -> impl Strategy<Value = Model> {
    (models(), 0..30u64, 20..200u64).prop_map(|(model, copy, limit)| Model {
        copy: Some(copy),
        limit: Some(limit),
        ..model
    })
}

/// The same with a second stream.
fn communicating() -> impl Strategy<Value = Model> {
    let copy = proptest::option::of(0..30u64);
    (models(), 1..20u64, copy).prop_map(|(model, time, copy)| Model {
        communication: Some(time),
        copy,
        ..model
    })
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

    /// Neighbours are sorted by cost, and the orders of each fit; no neighbour is excluded by a bound; and the number of
    /// orders does not exceed the limit plus the starting choices.
    #[test]
    fn a_neighbourhood_keeps_to_its_effort(model in models(), part in 1..4u64) {
        let space = model.space(vec![(1, Placement::Looped)]);
        let instance = |choice: &Choice| model.instance(choice);
        let effort = Effort::default();
        let jointly = Jointly { space: &space, instance: &instance, known: &[], effort };
        let around = |orders, known| {
            let limits = NeighbourhoodEffort { choices: 24, orders, effort: 8, known };
            probe_neighbourhood(&jointly, limits, &|| false).unwrap()
        };
        let all = around(24, None);
        prop_assert!(all.windows(2).all(|two| two[0].cost <= two[1].cost));
        for Neighbour { choice, instance, cost } in &all {
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
    #[ignore = "slow"]
    fn threads_change_nothing(model in prop_oneof![models(), copying(), communicating()]) {
        let space = model.space(FORMS.to_vec());
        let on = |threads| {
            let pool = rayon::ThreadPoolBuilder::new().num_threads(threads).build().unwrap();
            pool.install(|| model.found(&space, &[]))
        };
        prop_assert_eq!(on(1), on(2));
    }
}

proptest! {
    // Each of them searches several times.
    #![proptest_config(ProptestConfig::with_cases(16))]

    /// With copies to the host the answer fits and takes what the simulator says, it costs no more than without, nor
    /// than what is published with copies, and no less than the bound.
    #[test]
    fn choosing_copies_makes_nothing_worse(model in copying()) {
        let space = model.space(FORMS.to_vec());
        let without = model.found(&space.plain(), &[]).ok();
        let Ok(found) = model.found(&space, &[]) else {
            prop_assert_eq!(without, None);
            return Ok(());
        };
        check_judged(&model, &found)?;
        if let Some(without) = without {
            prop_assert!(found.found.cost <= without.found.cost);
            prop_assert_eq!(found.asked, without.asked);
            prop_assert_eq!(found.bound, without.bound);
        }
        for one in &found.published {
            prop_assert!(found.found.cost <= one.cost, "{:?}", one);
            prop_assert!(Some(one.peak.0) <= model.limit);
            let copies = [Family::PoH, Family::PoF].contains(&one.family);
            prop_assert!(copies == space.hosted(&one.choice).contains(&true));
        }
        for (chunk, is_hosted) in (0..).zip(space.hosted(&found.choice)) {
            let stages = found.found.schedule.copies().into_iter().flat_map(pipeline::Copies::stages);
            prop_assert!(is_hosted || stages.flatten().flatten().all(|copy| copy.chunk != chunk));
        }
        // An order found under this limit is a known one under a larger limit.
        let larger = Model { limit: model.limit.map(|limit| limit + 10), ..model.clone() };
        let known = [(found.choice.clone(), found.found.schedule.clone())];
        let more = larger.found(&space, &known).unwrap();
        prop_assert!(more.found.cost <= found.found.cost);
    }

    /// Pairs on two streams are searched with the same choices, and passes one after the other are hardly better.
    #[test]
    #[ignore = "slow"]
    fn choosing_pairs_makes_hardly_anything_worse(model in communicating()) {
        let space = model.space(FORMS.to_vec());
        let Ok(found) = model.found(&space, &[]) else { return Ok(()) };
        check_judged(&model, &found)?;
        prop_assert!(!(found.choice.pairs && found.instance.costs.has_recompute()));
        let never = Space { chooses_pairs: false, ..space.clone() };
        if let Ok(paired) = model.found(&never, &[]) {
            // Effort is spread over more choices, which may cost a little of the best.
            let most = paired.found.cost.0 + paired.found.cost.0 / 40;
            prop_assert!(found.found.cost <= Nanos(most), "{:?}", found.found.cost);
            prop_assert!(paired.choice.pairs);
        }
        for one in &found.published {
            prop_assert!(found.found.cost <= one.cost, "{:?}", one);
        }
    }
}

/// Checks that `found` is what `model` says of its choice: all layers, within the limit by the simulator, at its cost, and
/// no cheaper than the bound.
fn check_judged(model: &Model, found: &FoundJointly) -> Result<(), TestCaseError> {
    let FoundJointly { choice, instance, found: order, bound, .. } = found;
    prop_assert_eq!(choice.layers.iter().sum::<u64>(), model.layers);
    let again = model.instance(choice);
    prop_assert_eq!(again.as_ref(), Some(instance));
    let simulation = sim::Simulation::new(&order.schedule, &instance.costs, &instance.footprints);
    let study = simulation.study(sim::Details::default(), &mut sim::Replay::new()).unwrap();
    prop_assert_eq!(study.metrics.span(), order.cost);
    if let Some(limits) = &instance.limits {
        prop_assert_eq!(study.memory.over(limits), None);
    }
    prop_assert!(*bound <= order.cost && order.bound.cost <= order.cost);
    Ok(())
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
        copy: None,
        communication: None,
    };
    let again = Model { recomputes: true, limit: Some(70), ..plain.clone() };
    for model in [plain, again] {
        let space = model.space(FORMS.to_vec());
        let mut best = None;
        for (own, placement) in FORMS {
            let chunks = usize::from(own) * space.stages;
            for layers in cuts(model.layers, chunks) {
                for bits in 0..if model.recomputes { 1_usize << chunks } else { 1 } {
                    let activations = (0..chunks).map(|chunk| bits >> chunk & 1).collect();
                    let (chunks_per_stage, layers) = (own, layers.clone());
                    let (mtp, pairs) = (None, false);
                    let choice =
                        Choice { chunks_per_stage, placement, layers, mtp, activations, pairs };
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
        copy: None,
        communication: None,
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
        copy: None,
        communication: None,
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
        copy: None,
        communication: None,
    };
    let found = model.found(&model.space(vec![(1, Placement::Looped)]), &[]).unwrap();
    // 10 microbatches of 3 layers of 1200, less 3 of rounding in the layers' work, and 3 in the chunk's.
    let exact = 10 * 3 * 1200;
    assert!((exact - 60..=exact).contains(&found.bound.0), "{}", found.bound);
    assert!(found.bound <= found.found.cost);
}

/// Where memory is short and the link to the host is quick, activations go there, and the step is shorter for it.
#[test]
fn what_does_not_fit_goes_to_the_host() {
    let model = Model {
        stages: 4,
        microbatches: 12,
        layers: 8,
        times: [[400, 420, 380], [0; 3], [0; 3]],
        held: [10, 4],
        limit: Some(60),
        recomputes: true,
        copy: Some(200),
        communication: None,
    };
    let space = model.space(vec![(1, Placement::Looped), (2, Placement::Looped)]);
    let without = model.found(&space.plain(), &[]).unwrap();
    let found = model.found(&space, &[]).unwrap();
    assert!(found.found.schedule.copies().is_some(), "{:?}", found.choice);
    assert!(found.found.cost < without.found.cost, "{} {}", found.found.cost, without.found.cost);
    assert!(found.published.iter().any(|one| one.family == Family::PoF), "{:?}", found.published);
    // A link that is too slow is not used.
    let slow = Model { copy: Some(1_000_000), ..model };
    let found = slow.found(&space, &[]).unwrap();
    assert_eq!(found.found.cost, without.found.cost);
    assert_eq!(found.found.schedule, without.found.schedule);
}
