//! Set-ups that are as likely to fit as not, and heavy chunks at other places.

use pipeline::{Bytes, Family};
use sim::Replay;

use super::{llama, machine, model, recipe, setup};
use crate::{
    Cluster, Inputs, Machine, MemoryBudget, Orders, Peaks, Recipe, Recompute, Setup, Space, Split,
    Watch, Zero, run_unsure, run_with,
};

const PEAKS: Peaks = Peaks { mean: -0.02, deviation: 0.04 };

fn budgeted(batch: u64) -> Recipe {
    let memory_budget = MemoryBudget { error: 0.09, peaks: PEAKS, ..MemoryBudget::default() };
    Recipe { memory_budget, ..recipe(batch) }
}

fn space() -> Space {
    Space {
        tensor: vec![4],
        pipeline: vec![2, 4],
        context: vec![1],
        expert: vec![1],
        zero: vec![Zero::Optimizer],
        microbatch: vec![1, 2],
        chunks: vec![2, 3],
        families: vec![Family::OneFOneB, Family::Interleaved],
        recompute: vec![Recompute::None, Recompute::Full],
        split: vec![Split::Balanced],
        vocabulary_parallel: vec![false],
    }
}

/// In devices of any memory, what is proposed beside the fastest that fits is the fastest of all that fit with even
/// odds, and saves something; with a cap, and without an error, nothing is.
#[test]
fn the_fastest_that_may_fit_is_found() {
    let model = model(llama(32, 4096, [32, 8], 14336, 32_000));
    let recipe = budgeted(64);
    let orders = Orders::default();
    let watch = Watch { done: &|_| {}, stop: &|| false, orders: &orders };
    let mut proposed = 0;
    for gib in 12..60 {
        let machine = Machine { memory: Bytes(gib << 30), ..machine() };
        let cluster = Cluster { parts: vec![(machine.clone(), 16)] };
        let inputs = Inputs::new(&model, &recipe, &cluster);
        let setups = space().setups(&cluster).unwrap();
        let (found, best) = run_with(&inputs, &setups, 2, watch);
        let known = best.first().map(|one| one.step);
        let unsure = run_unsure(&inputs, (&found, known), 1, watch);
        // One by one, in as much memory as fits with even odds.
        let budget = MemoryBudget { error: 0.0, ..recipe.memory_budget };
        let even = recipe.memory_budget.as_likely_as_not().of(&machine);
        let larger = Cluster { parts: vec![(Machine { memory: even, ..machine }, 16)] };
        let exact = Recipe { memory_budget: budget, ..recipe.clone() };
        let (_, all) = run_with(&Inputs::new(&model, &exact, &larger), &setups, 1, watch);
        let fastest = all.first().map(|one| one.step);
        match (unsure.first(), known) {
            (Some(one), _) => {
                proposed += 1;
                assert_eq!(Some(one.finalist.step), fastest, "{gib}");
                assert!(known.is_none_or(|known| one.finalist.step < known), "{gib}");
                let (odds, lacks) = (inputs.odds(&one.finalist), one.shortage.unwrap());
                assert!((0.499..0.99).contains(&odds), "{gib}: {odds}");
                assert!(lacks.may_hold.is_some() && lacks.overflow.needs > lacks.overflow.has);
            }
            (None, Some(known)) => {
                let fastest = fastest.unwrap();
                assert!(fastest.0 as f64 > 0.994 * known.0 as f64, "{gib}");
                assert!(best.iter().all(|one| inputs.odds(one) > 0.98));
            }
            (None, None) => assert_eq!(fastest, None, "{gib}"),
        }
        let cap = MemoryBudget { cap: Some(Bytes(gib << 30)), ..recipe.memory_budget };
        let capped = Recipe { memory_budget: cap, ..recipe.clone() };
        let inputs = Inputs { recipe: &capped, ..inputs };
        let (found, best) = run_with(&inputs, &setups, 2, watch);
        let known = best.first().map(|one| one.step);
        assert!(run_unsure(&inputs, (&found, known), 1, watch).is_empty(), "{gib}");
    }
    assert!((5..43).contains(&proposed), "{proposed}");
}

/// The layer over of 22 in 10 chunks is placed where no other place is faster by more than chance, and never worse.
#[test]
fn heavy_chunks_are_placed_where_they_save() {
    let orders = Orders::default();
    let mut gains = 0;
    for layers in [17, 21, 22, 23, 25, 31] {
        let model = model(llama(layers, 4096, [32, 8], 14336, 128_256));
        let cluster = Cluster { parts: vec![(machine(), 5)] };
        let recipe = budgeted(10);
        let inputs = Inputs::new(&model, &recipe, &cluster);
        let own = Setup { family: Family::Interleaved, chunks: 2, ..setup([1, 1, 5]) };
        let costed = inputs.cost(&own).unwrap();
        let balanced = inputs.evaluate(&costed, &mut Replay::new()).unwrap();
        let known = inputs.finalist(balanced).unwrap();
        let placed = inputs.with_heavy_chunk_placed(known.clone(), &orders);
        assert!(placed.step <= known.step, "{layers}");
        let setup = placed.costed().setup;
        if setup.split == Split::Searched {
            gains += 1;
            assert!(placed.step.0 * 200 < known.step.0 * 199, "{layers}");
        }
        let sorted = |layers: &[u64]| {
            let mut layers = layers.to_vec();
            layers.sort_unstable();
            layers
        };
        assert_eq!(sorted(&placed.costed().layers), sorted(&known.costed().layers));
        // It is run again as it is.
        assert_eq!(inputs.again(&placed).unwrap().step, placed.step, "{layers}");
        // One that is placed stays.
        let again = inputs.with_heavy_chunk_placed(placed.clone(), &orders);
        assert_eq!(again.costed().layers, placed.costed().layers);
    }
    assert!(gains > 0);
}
