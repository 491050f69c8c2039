//! Set-ups whose orders are searched: their steps and memory, and their place among set-ups with
//! published schedules.

use pipeline::{Bytes, Family};
use rayon::ThreadPoolBuilder;
use sim::Replay;

use super::{gpt, machine, model, recipe, setup};
use crate::{
    Attention, Boundary, Cluster, Ffn, Finalist, Inputs, LayerKind, Machine, Mixer, OrderSearch,
    Orders, Recipe, Recompute, Rejected, SearchCounts, Setup, Sizes, Space, Split, StageMemory,
    Transformer, Watch, Zero, run_with, search_orders,
};

/// A model with a head as heavy as two layers, on a cluster of 16 devices.
struct Question {
    model: Transformer,
    recipe: Recipe,
    cluster: Cluster,
}

impl Question {
    fn new(gib: u64, boundary: Boundary) -> Self {
        let memory = Bytes(gib << 30);
        Self {
            model: model(Sizes { attention: Attention::Flash, ..gpt(30, 3072, 24) }),
            recipe: Recipe { boundary, ..recipe(64) },
            cluster: Cluster { parts: vec![(Machine { memory, ..machine() }, 16)] },
        }
    }

    fn inputs(&self) -> Inputs<'_> {
        Inputs::new(&self.model, &self.recipe, &self.cluster)
    }

    /// The best with published schedules.
    fn published(&self, count: usize, watch: Watch<'_>) -> Vec<Finalist> {
        let space = Space {
            tensor: vec![1, 2],
            pipeline: vec![4, 8],
            context: vec![1],
            expert: vec![1],
            zero: vec![Zero::Optimizer],
            microbatch: vec![1, 2],
            chunks: vec![2, 3],
            families: vec![Family::OneFOneB, Family::Interleaved, Family::ZbH1, Family::ZbV],
            recompute: vec![Recompute::None],
            split: vec![Split::Balanced],
            vocabulary_parallel: vec![false],
        };
        let setups = space.setups(&self.cluster).unwrap();
        run_with(&self.inputs(), &setups, count, watch).1
    }

    /// The best of all.
    fn best(&self, search: OrderSearch<'_>, stop: bool) -> (Vec<Finalist>, SearchCounts) {
        let (stop, orders) = (move || stop, Orders::default());
        let watch = Watch { done: &|_| {}, stop: &|| false, orders: &orders };
        let published = self.published(search.count, watch);
        search_orders(&self.inputs(), published, search, Watch { stop: &stop, ..watch })
    }
}

const ALL: OrderSearch<'_> =
    OrderSearch { may: &Some, published: true, count: 3, searches: 2, assigns_layers: false };

#[test]
#[ignore = "slow"]
fn a_searched_order_is_no_slower_than_published_ones_in_the_same_memory() {
    for boundary in [Boundary::Barrier, Boundary::PostValidation] {
        let question = Question::new(40, boundary);
        let inputs = question.inputs();
        for (chunks, family) in [(1, Family::ZbH1), (2, Family::ZbV), (3, Family::Gis)] {
            let published = Setup { family, chunks, microbatch: 2, ..setup([2, 1, 8]) };
            let own = published.with_order_searched(chunks);
            assert_eq!((own.family, own.schedule_name()), (family, "zb-auto"));
            let costed = inputs.cost(&own).unwrap();
            let orders = Orders::default();
            let all = inputs.evaluate_all(&costed, &mut Replay::new(), &orders).unwrap();
            let ample = all.iter().map(|one| one.step).min().unwrap();
            for one in &all {
                let least = crate::searched::least(&one.costed, one.costed.limit).unwrap();
                assert!(inputs.least(&costed) <= least && least <= one.step, "{family:?}");
                let held = one.memory.iter().map(StageMemory::sum);
                assert!(held.zip(&one.costed.capacities).all(|(held, has)| held <= *has));
                let Some(limit) = one.costed.limit else { continue };
                let by_stage = costed.footprints.by_stage(costed.shape, family.about().placement);
                let most = limit.bytes(costed.shape, by_stage.into_iter().max().unwrap());
                assert!(one.memory.iter().all(|held| held.activations <= most), "{limit}");
            }
            // The published one holds no more than the smallest limit, or takes one itself.
            let known = inputs.cost(&published).unwrap();
            let known = inputs.evaluate(&known, &mut Replay::new()).unwrap();
            assert!(ample <= known.step, "{family:?} {boundary:?}: {ample} {}", known.step);
        }
    }
}

#[test]
fn the_fastest_wins_and_the_published_one_stays() {
    let question = Question::new(80, Boundary::Barrier);
    let alone = question.best(OrderSearch { searches: 0, ..ALL }, false).0;
    let (best, searches) = question.best(ALL, false);
    assert!(searches.searched > 0, "{searches:?}");
    assert!(best[0].costed().setup.searched && best[0].step < alone[0].step);
    assert!(best.windows(2).all(|two| two[0].step <= two[1].step));
    assert!(
        best.len() <= 3 && best.iter().any(|one| one.costed().setup == alone[0].costed().setup)
    );
    // Where there is room for one, it is the fastest.
    let (one, _) = question.best(OrderSearch { count: 1, ..ALL }, false);
    assert_eq!(one.len(), 1);
    assert!(one[0].step <= alone[0].step);
}

#[test]
fn any_number_of_threads_finds_the_same() {
    let question = Question::new(40, Boundary::Barrier);
    let on = |threads: usize| {
        let pool = ThreadPoolBuilder::new().num_threads(threads).build().unwrap();
        let (best, searches) = pool.install(|| question.best(ALL, false));
        let given = |one: &Finalist| (one.costed().setup, one.step, one.schedule().to_string());
        (best.iter().map(given).collect::<Vec<_>>(), searches)
    };
    let alone = on(1);
    assert!(alone.0.iter().any(|(setup, ..)| setup.searched));
    assert_eq!(alone, on(4));
}

#[test]
fn nothing_is_searched_that_may_not_be_or_that_nobody_waits_for() {
    let question = Question::new(80, Boundary::Barrier);
    let none = SearchCounts::default();
    let (best, searches) = question.best(OrderSearch { may: &|_| None, ..ALL }, false);
    assert_eq!(searches, none);
    assert!(best.iter().all(|one| !one.costed().setup.searched));
    let (best, searches) = question.best(ALL, true);
    assert!(searches.searched == 0 && searches.pruned > 0, "{searches:?}");
    assert!(best.iter().all(|one| !one.costed().setup.searched));
}

#[test]
fn published_schedules_may_only_say_how_devices_are_shared() {
    let question = Question::new(80, Boundary::Barrier);
    let (best, _) = question.best(OrderSearch { published: false, ..ALL }, false);
    assert!(!best.is_empty());
    assert!(best.iter().all(|one| one.costed().setup.searched));
}

#[test]
fn a_search_that_is_ended_has_an_order() {
    let question = Question::new(80, Boundary::Barrier);
    let inputs = question.inputs();
    let own = setup([2, 1, 8]).with_order_searched(2);
    let run = |orders: &Orders<'_>| inputs.run_single(&own, orders).unwrap().finalist;
    let stop = || true;
    let (whole, ended) = (run(&Orders::default()), run(&Orders::until(&stop)));
    assert!(whole.step <= ended.step && ended.costed().setup.searched);
}

/// Layers with different times, split by their mean: the result of a search is never slower, and it is
/// faster where the balance of the mean is not that of the layers.
#[test]
#[ignore = "slow"]
fn layers_are_assigned_together_with_the_order() {
    let mut question = Question::new(80, Boundary::Barrier);
    // Layers without attention first, and heavy ones at the end.
    let kind = |mixer, ffn| LayerKind::of(mixer, ffn);
    let [light, heavy] = [kind(Mixer::None, Ffn::Dense), kind(Mixer::Full, Ffn::Dense)];
    let kinds = (0..30).map(|layer| if layer < 12 { light } else { heavy }).collect();
    question.model = model(Sizes { attention: Attention::Flash, kinds, ..gpt(30, 3072, 24) });
    let inputs = question.inputs();
    let mut faster = 0;
    for chunks in 1..=3 {
        let own = Setup { microbatch: 2, ..setup([2, 1, 8]) }.with_order_searched(chunks);
        let searched = Setup { split: Split::Searched, ..own };
        let [balanced, assigned] = [own, searched].map(|own| {
            let asked = inputs.run_single(&own, &Orders::default()).unwrap();
            assert!(asked.shortage.is_none());
            asked.finalist
        });
        assert!(assigned.step <= balanced.step, "{chunks}: {} {}", assigned.step, balanced.step);
        let costed = assigned.costed();
        assert_eq!(costed.layers.iter().sum::<u64>(), 30);
        if assigned.step == balanced.step {
            assert_eq!(costed.setup.split, Split::Balanced);
            continue;
        }
        faster += 1;
        assert_eq!(costed.setup.split, Split::Searched);
        assert_ne!(costed.layers, balanced.costed().layers);
        let held = assigned.evaluation.memory.iter().map(StageMemory::sum);
        assert!(held.zip(&costed.capacities).all(|(held, has)| held <= *has));
        // Asked for by its layers, it is the same; and so it is once more.
        let layout = costed.layout().unwrap();
        let given = Inputs { layout: Some(&layout), ..inputs };
        let again = given.run_single(&Setup { split: Split::Layout, ..own }, &Orders::default());
        assert_eq!(again.unwrap().finalist.step, assigned.step);
        assert_eq!(inputs.again(&assigned).unwrap().step, assigned.step);
        // A chunk in the middle that has no layer has nothing to train.
        let inner = &costed.layers[1..costed.layers.len() - 1];
        assert!(inner.iter().all(|layers| *layers > 0), "{:?}", costed.layers);
    }
    assert!(faster > 0);
}

/// Where it is allowed, the searched assignment competes; any number of threads finds the same.
#[test]
fn layers_are_assigned_where_the_search_may_do_so() {
    let question = Question::new(30, Boundary::Barrier);
    let on = |threads: usize, assigns_layers| {
        let pool = ThreadPoolBuilder::new().num_threads(threads).build().unwrap();
        let (best, _) =
            pool.install(|| question.best(OrderSearch { assigns_layers, ..ALL }, false));
        let given = |one: &Finalist| (one.costed().setup, one.costed().layers.clone(), one.step);
        best.iter().map(given).collect::<Vec<_>>()
    };
    let (with, without) = (on(1, true), on(1, false));
    assert!(with[0].2 <= without[0].2);
    assert_eq!(with, on(4, true));
    assert!(without.iter().all(|(setup, ..)| setup.split == Split::Balanced));
}

#[test]
fn too_little_memory_is_said() {
    let question = Question::new(4, Boundary::Barrier);
    let inputs = question.inputs();
    let costed = inputs.cost(&setup([2, 1, 8]).with_order_searched(1)).unwrap();
    let evaluated = inputs.evaluate(&costed, &mut Replay::new());
    assert!(matches!(evaluated, Err(Rejected::Memory(_))), "{evaluated:?}");
}

#[test]
fn on_faster_links_an_order_that_was_searched_is_no_slower() {
    let question = Question::new(80, Boundary::Barrier);
    let (best, _) = question.best(OrderSearch { count: 1, ..ALL }, false);
    let known = best.iter().find(|one| one.costed().setup.searched).unwrap();
    assert_eq!(question.inputs().again(known).unwrap().step, known.step);
    let machine = Machine { network: 50e9, link: 600e9, ..machine() };
    let faster = Cluster { parts: vec![(machine, 16)] };
    let inputs = Inputs::new(&question.model, &question.recipe, &faster);
    let again = inputs.again(known).unwrap();
    assert!(again.step < known.step && again.schedule() == known.schedule());
    // Too small a device does not hold it.
    let small =
        Cluster { parts: vec![(Machine { memory: Bytes(4 << 30), ..super::machine() }, 16)] };
    assert!(Inputs::new(&question.model, &question.recipe, &small).again(known).is_err());
}
