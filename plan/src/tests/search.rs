//! Laws that hold of every set-up, and of the search over all.

use std::sync::atomic::{AtomicU64, AtomicUsize, Ordering};

use pipeline::{Bytes, Family, Vocabulary};
use proptest::prelude::*;
use sim::Replay;

use super::{gpt, machine, model, recipe, setup};
use crate::{
    Attention, Cluster, Inputs, Machine, Orders, Recipe, Recompute, Rejected, Setup, Sizes, Space,
    Split, Transformer, Unfit, Watch, Zero, number, search, search_with,
};

/// The search leaves nothing better out: the best of it is the best of all, simulated one by one.
#[test]
fn the_bound_hides_nothing() {
    let model = model(Sizes { attention: Attention::Flash, ..gpt(24, 2304, 24) });
    let cluster = Cluster { parts: vec![(machine(), 16)] };
    let recipe = recipe(128);
    let inputs = Inputs::new(&model, &recipe, &cluster);
    let setups = space().setups(&cluster).unwrap();
    let found = search(&inputs, &setups, 3, &|_| {});
    let mut all: Vec<_> = setups
        .iter()
        .filter_map(|setup| inputs.cost(setup).ok())
        .filter_map(|costed| inputs.evaluate(&costed, &mut Replay::new()).ok())
        .map(|evaluation| evaluation.step)
        .collect();
    all.sort_unstable();
    let best: Vec<_> = found.best.iter().map(|one| one.step).collect();
    assert_eq!(best, all[..3]);
    let left_out: u64 = found.left_out.values().sum();
    assert_eq!(found.simulated + left_out, setups.len() as u64);
    assert!(found.simulated < setups.len() as u64 / 4, "{}", found.simulated);
}

/// A search that is stopped keeps its results, and reports the number of set-ups it skipped.
#[test]
fn a_search_can_be_ended() {
    let model = model(Sizes { attention: Attention::Flash, ..gpt(24, 2304, 24) });
    let cluster = Cluster { parts: vec![(machine(), 16)] };
    let recipe = recipe(128);
    let inputs = Inputs::new(&model, &recipe, &cluster);
    let setups = space().setups(&cluster).unwrap();
    let orders = Orders::default();
    let ended_after = |asked: usize| {
        let (count, decided) = (AtomicUsize::new(0), AtomicU64::new(0));
        let done = |more| {
            decided.fetch_add(more, Ordering::Relaxed);
        };
        let stop = || count.fetch_add(1, Ordering::Relaxed) >= asked;
        let found = search_with(
            &inputs,
            &setups,
            1000,
            Watch { done: &done, stop: &stop, orders: &orders },
        );
        let left_out: u64 = found.left_out.values().sum();
        assert_eq!(found.simulated + left_out, setups.len() as u64);
        assert_eq!(decided.load(Ordering::Relaxed), setups.len() as u64);
        assert!(found.left_out.keys().any(|reason| reason.contains("not looked at")));
        found
    };
    assert_eq!(ended_after(0).best.len(), 0);
    // Once for each set-up that is costed, and once for each round.
    let found = ended_after(setups.len() + 1);
    assert!(found.simulated > 0 && found.best.len() as u64 == found.simulated);
}

fn space() -> Space {
    Space {
        tensor: vec![1, 2, 4, 8],
        pipeline: vec![1, 2, 4, 8],
        context: vec![1],
        expert: vec![1],
        zero: vec![Zero::Optimizer, Zero::Parameters],
        microbatch: vec![1, 2, 4],
        chunks: vec![2, 3],
        families: vec![Family::OneFOneB, Family::Interleaved, Family::ZbH1, Family::ZbV],
        recompute: vec![Recompute::None, Recompute::Full],
        split: vec![Split::Balanced],
        vocabulary_parallel: vec![false, true],
    }
}

/// Operations that must be done: half of all pairs of tokens are left out by attention in tiles.
fn work(model: &Transformer, recipe: &Recipe) -> f64 {
    let tokens = number(recipe.batch * model.sequence);
    let spared = match model.attention {
        Attention::Flash => {
            1.5 * number(model.layers) * model.attention_flops(model.layer_kinds()[0])
        }
        Attention::Core => 0.0,
    };
    (model.model_flops() - spared) * tokens
}

fn any_setup() -> impl Strategy<Value = (Setup, u64)> {
    let groups = (0u32..4, 0u32..4, 0u32..4, 0u32..3, 1u64..4);
    let kinds = (0usize..12, 0usize..3, any::<bool>(), any::<bool>(), 0usize..2);
    (groups, kinds, 1u64..9).prop_map(|((d, t, p, b, v), kind, m)| {
        let (family, recompute, balanced, vocabulary, zero) = kind;
        let families = [
            Family::OneFOneB,
            Family::Interleaved,
            Family::ZbH1,
            Family::ZbV,
            Family::VHalf,
            Family::DualPipe,
            Family::PoH,
            Family::PoF,
            Family::Vocab1,
            Family::Vocab2,
            Family::Interlaced1F1B,
            Family::VHalfVocab1,
        ];
        let family = families[family];
        let vocabulary = vocabulary || family.vocabulary() != Vocabulary::Whole;
        let chunks = match family.about().chunks {
            pipeline::Chunks::Exactly(chunks) => u64::from(chunks),
            pipeline::Chunks::Any { .. } => v,
        };
        let setup = Setup {
            microbatch: 1 << b,
            chunks,
            family,
            recompute: Recompute::ALL[recompute],
            split: if balanced { Split::Balanced } else { Split::Even },
            vocabulary_parallel: vocabulary,
            zero: Zero::ALL[zero],
            ..setup([1 << d, 1 << t, 1 << p])
        };
        (setup, (1 << (d + b)) * m * (1 << p))
    })
}

proptest! {
    #![proptest_config(ProptestConfig::with_cases(400))]

    /// No plan is faster than the work at the peak rate, nor than its own bound, and none holds
    /// more than its devices have.
    #[test]
    fn no_step_is_below_the_work_and_none_overflows(
        (setup, batch) in any_setup(),
        flash in any::<bool>(),
        hidden in 1u64..9,
        gib in 1u64..81,
    ) {
        let attention = if flash { Attention::Flash } else { Attention::Core };
        let model = model(Sizes { attention, ..gpt(24, 512 * hidden, 8 * hidden) });
        let machine = Machine { memory: Bytes(gib << 30), ..machine() };
        let cluster = Cluster { parts: vec![(machine.clone(), setup.devices())] };
        let recipe = recipe(batch);
        let inputs = Inputs::new(&model, &recipe, &cluster);
        let evaluated = inputs.cost(&setup).and_then(|costed| {
            let least = inputs.least(&costed);
            Ok((least, inputs.evaluate(&costed, &mut Replay::new())?))
        });
        match evaluated {
            Ok((least, evaluation)) => {
                let peak = machine.peak * number(setup.devices());
                let seconds = number(evaluation.step.0) / 1e9;
                prop_assert!(seconds >= work(&model, &recipe) / peak);
                prop_assert!(evaluation.step >= least);
                // Wires that are shared make nothing faster. A copy to the host begins while its stage
                // still sends, which replay counts with the pass: each may be a transfer earlier.
                if let Ok(run) = inputs.finalist(evaluation.clone()) {
                    let passes = 3 * run.costed().shape.cells() as u64;
                    let earlier = if setup.copies() { run.costs.hops().longest().0 * passes } else { 0 };
                    let least = evaluation.step.0.saturating_sub(earlier);
                    prop_assert!(run.step.0 >= least, "{:?}", run.over_replay());
                }
                let assigned: u64 = evaluation.costed.layers.iter().sum();
                prop_assert_eq!(assigned, model.layers);
                for held in &evaluation.memory {
                    prop_assert!(held.sum() <= machine.memory);
                }
            }
            Err(Rejected::Memory(overflow)) => prop_assert!(overflow.needs > overflow.has),
            Err(_) => {}
        }
    }
}

/// Copies to the host are tried beside others without recomputation, which is for where there is no
/// link to it, and in every case where nothing else is asked for.
#[test]
fn copies_to_the_host_are_not_computed_again() {
    let model = model(Sizes { attention: Attention::Flash, ..gpt(24, 2304, 24) });
    let cluster = Cluster { parts: vec![(machine(), 16)] };
    let recipe = recipe(128);
    let inputs = Inputs::new(&model, &recipe, &cluster);
    let needless = |families: Vec<Family>| {
        let setups = Space { families, ..space() }.setups(&cluster).unwrap();
        let found = search(&inputs, &setups, setups.len(), &|_| {});
        let tried = found.best.iter().filter(|one| one.costed.setup.copies()).count();
        (tried, found.left_out.get(&Unfit::Needless.to_string()).copied())
    };
    let (alone, none) = needless(vec![Family::PoH]);
    assert!(alone > 0 && none.is_none(), "{alone} {none:?}");
    let (beside, some) = needless(vec![Family::OneFOneB, Family::PoH]);
    assert!(beside < alone && some.is_some_and(|count| count > 0), "{beside} {some:?}");
}
