//! Rules of memory that hold for every model and set-up.

use proptest::prelude::*;

use pipeline::{Bytes, Family};

use super::super::{gpt, machine, model, recipe, setup};
use super::models;
use crate::{
    Activations, Cluster, Ffn, Imbalance, Inputs, LayerKind, LayerParameters, Linear, Mixer,
    Module, Modules, Offload, Offloaded, Orders, Parameters, Precision, Recipe, Recompute, Reshard,
    Setup, Share, Sizes, Split, StageMemory, Transformer, Zero, footprint, number, resident,
};

/// Modules that Megatron-LM computes again.
const MODULES: [Module; 7] = [
    Module::CoreAttention,
    Module::MoeActivation,
    Module::LayerNorm,
    Module::LatentUp,
    Module::Mlp,
    Module::Moe,
    Module::SharedExperts,
];

/// Models of all kinds of layers.
fn all_models() -> Vec<Transformer> {
    let names = [
        "llama3.1-8b",
        "llama3.1-405b",
        "qwen3-30b-a3b",
        "moonlight-16b-a3b",
        "deepseek-v3-14-layers",
        "deepseek-v3.2-14-layers",
        "nemotron-3-nano-30b-a3b",
    ];
    let mut all: Vec<_> = names.iter().map(|name| models::named(name, 4096)).collect();
    // Qwen3-Next, smaller: three layers of linear attention for one of full.
    let mixers = [Mixer::Linear, Mixer::Linear, Mixer::Linear, Mixer::Full];
    all.push(Sizes {
        layers: 4,
        linear: Some(Linear {
            key_heads: 16,
            value_heads: 32,
            key_size: 128,
            value_size: 128,
            convolution: 4,
        }),
        kinds: mixers.map(|mixer| LayerKind::of(mixer, Ffn::Experts)).to_vec(),
        ..models::named("qwen3-30b-a3b", 4096)
    });
    all.push(gpt(4, 2048, 16));
    all.into_iter().map(model).collect()
}

fn any_model() -> impl Strategy<Value = Transformer> {
    proptest::sample::select(all_models())
}

/// The bytes of all layers for one microbatch, between F and B.
fn held(model: &Transformer, setup: &Setup, recipe: &Recipe) -> u64 {
    let layers = model.counts(0..model.layers);
    footprint(model, setup, recipe, layers).until_backward.0
}

/// Memory of a stage with all layers, beside their activations.
fn standing(model: &Transformer, setup: &Setup, recipe: &Recipe) -> StageMemory {
    let share = Share {
        layers: model.counts(0..model.layers),
        embedding: true,
        head: true,
        mtp: model.mtp,
    };
    let parameters = Parameters::of(model, setup, share);
    let activations = Activations::of(model, setup, recipe);
    resident(model, setup, recipe, &activations, share, parameters, parameters)
}

fn modules(bits: u8) -> Recompute {
    let chosen = MODULES.iter().enumerate().filter(|(at, _)| bits & (1 << at) != 0);
    let chosen: Vec<Module> = chosen.map(|(_, module)| *module).collect();
    Modules::of(&chosen).map_or(Recompute::None, Recompute::Modules)
}

fn any_precision() -> impl Strategy<Value = Precision> {
    proptest::sample::select(Precision::ALL.to_vec())
}

proptest! {
    #![proptest_config(ProptestConfig { failure_persistence: None, ..ProptestConfig::default() })]

    #[test]
    fn computing_more_again_never_holds_more(
        model in any_model(), precision in any_precision(), less in 0u8..128, more in 0u8..128,
    ) {
        let recipe = Recipe { precision, ..recipe(64) };
        let of = |recompute| held(&model, &Setup { recompute, ..setup([1, 1, 1]) }, &recipe);
        let [none, some, full] = [Recompute::None, modules(less), Recompute::Full].map(of);
        let most = of(modules(less | more));
        prop_assert!(none >= some && some >= most && most >= full, "{none} {some} {most} {full}");
        prop_assert!(of(Recompute::Selective) <= none);
        let op = Modules::of(&[Module::SelectiveOp]).map_or(Recompute::None, Recompute::Modules);
        prop_assert!(of(op) <= none && of(op) >= full);
    }

    #[test]
    fn more_devices_for_a_model_never_hold_more(
        model in any_model(), precision in any_precision(), bits in 0u8..128,
        sequence_parallel in any::<bool>(), of_experts in any::<bool>(), zero in 0u64..4,
    ) {
        let recipe = Recipe { precision, sequence_parallel, ..recipe(64) };
        let zero = Zero::numbered(zero).unwrap_or(Zero::None);
        let one = Setup { zero, recompute: modules(bits), ..setup([8, 1, 1]) };
        let grouped = |tensor| Setup {
            tensor,
            expert_tensor: if of_experts { tensor } else { 1 },
            ..one
        };
        let context = |context| Setup { context, ..one };
        let expert = |expert| Setup { expert, ..one };
        let groups: [Box<dyn Fn(u64) -> Setup>; 3] =
            [Box::new(grouped), Box::new(context), Box::new(expert)];
        for of in groups {
            for pair in [1, 2, 4, 8].map(of).windows(2) {
                let held = |setup| {
                    let standing = standing(&model, setup, &recipe).sum().0;
                    [held(&model, setup, &recipe), standing]
                };
                let [few, many] = [held(&pair[0]), held(&pair[1])];
                // Each part is rounded up.
                let at_most = |few: u64, many: u64| many <= few + 8;
                prop_assert!(at_most(few[0], many[0]) && at_most(few[1], many[1]), "{pair:?} {few:?} {many:?}");
            }
        }
    }

    #[test]
    fn fewer_bits_never_hold_more(model in any_model(), precision in any_precision(), t in 0u32..4) {
        let setup = setup([1, 1 << t, 1]);
        let of = |precision| held(&model, &setup, &Recipe { precision, ..recipe(64) });
        prop_assert!(of(precision) <= of(Precision::Bf16));
    }
}

#[test]
fn full_recomputation_holds_the_input_of_each_layer() {
    for model in all_models() {
        let setup = Setup { recompute: Recompute::Full, microbatch: 2, ..setup([1, 4, 1]) };
        let bytes = 2 * 2 * model.sequence * model.hidden * model.layers;
        let of =
            |sequence_parallel| held(&model, &setup, &Recipe { sequence_parallel, ..recipe(64) });
        assert_eq!([of(true), of(false)], [bytes / 4, bytes]);
    }
}

/// DeepSeek-V3's routed rows: with expert tensor parallelism all devices of a group have all of the
/// group's rows, and a part of each expert.
#[test]
fn groups_of_an_expert_gather_its_rows() {
    let model = model(models::named("deepseek-v3-14-layers", 4096));
    let of = |expert_tensor| {
        let setup = Setup { expert_tensor, ..setup([1, 4, 1]) };
        held(&model, &setup, &recipe(64)) / (model.layers - 3)
    };
    // The input of an expert, in 16 bits, and its probability; 8 experts for each token of a device.
    let row = 2 * 7168 + 4;
    let all = 4096 * 8 * row;
    assert!((of(4) - of(1)).abs_diff(all - all / 4) <= 16, "{} {}", of(4), of(1));
    let uneven = |factor| {
        let recipe = Recipe { imbalance: Imbalance::Factor(factor), ..recipe(64) };
        held(&model, &setup([1, 1, 1]), &recipe) / (model.layers - 3)
    };
    // The intermediate activations of an expert count, too: gate and value, and their product.
    let whole = 4096 * 8 * (row + 3 * 2 * 2048);
    assert!((uneven(1.5) - uneven(1.0)).abs_diff(whole / 2) <= 16);
}

/// Every parameter is somewhere, and those of experts once for all that share them.
#[test]
fn stages_hold_the_whole_model() {
    let model = model(models::named("deepseek-v3-14-layers", 4096));
    let setup = Setup { expert: 8, pipeline: 2, ..setup([16, 1, 2]) };
    let by_kind = LayerParameters::of(&model, &setup);
    let stage = |range, ends: bool| {
        let share = Share {
            layers: model.counts(range),
            embedding: !ends,
            head: ends,
            mtp: if ends { model.mtp } else { 0 },
        };
        by_kind.stage(&model, &setup, share)
    };
    let [first, last] = [stage(0..7, false), stage(7..14, true)];
    // The last stage has a copy of the embedding for multi-token prediction.
    let copy = number(model.vocabulary * model.hidden);
    let mtp = number(model.mtp_parameters().sum());
    let all = first.dense + last.dense + 8.0 * (first.experts + last.experts) - copy - mtp;
    let norm = number(model.norm_parameters());
    assert!((all + norm - number(model.parameters())).abs() < 1.0);
    // 16 replicas share the dense parameters, and two have each expert.
    let shared = last.shared(&setup, Zero::Optimizer);
    assert!((shared - last.dense / 16.0 - last.experts / 2.0).abs() < 1.0);
    let hybrid = Setup { shard_groups: 2, ..setup };
    assert!((last.shared(&hybrid, Zero::Optimizer) - last.dense / 8.0 - last.experts).abs() < 1.0);
}

/// Parameters that stay gathered are held whole, with gradients in the recipe's width; those that are
/// given up are held as shards, with what two layers and the ends take for a while.
#[test]
fn resharding_trades_memory() {
    let model = model(models::named("llama3.1-8b", 8192));
    let recipe = recipe(64);
    let of =
        |zero, reshard| standing(&model, &Setup { zero, reshard, ..setup([8, 1, 1]) }, &recipe);
    let parameters = number(model.parameters() - model.norm_parameters());
    let close = |bytes: pipeline::Bytes, of: f64| (number(bytes.0) - of).abs() < 2.0;
    let never = of(Zero::Parameters, Reshard::Never);
    assert!(close(never.parameters, 2.0 * parameters) && close(never.gradients, 4.0 * parameters));
    assert!(close(never.optimizer, 12.0 * parameters / 8.0));
    let after = of(Zero::Parameters, Reshard::AfterForward);
    assert!(close(after.parameters, 2.0 * parameters / 8.0));
    assert!(close(after.gradients, 4.0 * parameters / 8.0));
    let ends = 2.0 * 128_256.0 * 4096.0;
    let gathered = 2.0 * ends + 2.0 * 2.0 * (parameters - ends) / 32.0;
    let more = number(after.buffers.0 - never.buffers.0);
    assert!((more - gathered).abs() < 2.0, "{more} {gathered}");
    let plain = of(Zero::Optimizer, Reshard::AfterForward);
    assert_eq!(plain.sum(), never.sum());
}

/// Layers that are computed again one after the other: each more holds less and takes longer, and all of a
/// chunk are what `full` is.
#[test]
fn layers_can_be_computed_again_by_number() {
    let model = model(models::named("qwen3-30b-a3b", 4096));
    let cluster = Cluster { parts: vec![(machine(), 8)] };
    let recipe = recipe(64);
    let inputs = Inputs::new(&model, &recipe, &cluster);
    let of = |recompute| {
        let split = Split::Even;
        let setup = Setup { recompute, split, expert: 2, ..setup([2, 1, 4]) };
        let costed = inputs.cost(&setup).unwrap();
        let held = costed.footprints.of(1).until_backward.0;
        let [forward, back] =
            [costed.costs.chunks()[1].forward.0, costed.costs.chunks()[1].backward_input.0];
        (held, forward, back, costed.hardware_flops(&model))
    };
    let [none, full] = [of(Recompute::None), of(Recompute::Full)];
    let some: Vec<_> = (1..=13).map(|layers| of(Recompute::First(layers))).collect();
    // Twelve layers in each chunk.
    assert_eq!([some[11], some[12]], [full; 2]);
    for (few, many) in std::iter::once(&none).chain(&some[..11]).zip(&some) {
        assert!(few.0 > many.0 && few.1 == many.1 && few.2 < many.2 && few.3 < many.3);
    }
    let each = |n: u64| number(none.0 - some[usize::try_from(n).unwrap() - 1].0);
    assert!((each(6) / each(12) - 0.5).abs() < 1e-6);
    for layers in [1, 4, 12] {
        let one = Recompute::First(layers);
        assert_eq!(Recompute::named(&one.name()), Some(one));
    }
    assert_eq!([Recompute::named("full-0"), Recompute::named("full-10001")], [None; 2]);
}

/// Gradients that a chunk gives up behind its last backward: never more than when all are held whole, never
/// less than those of its largest chunk beside the activations then; with one chunk a stage holds them at its
/// peak.
#[test]
fn gradients_of_a_chunk_can_be_given_up_behind_its_last() {
    let model = model(models::named("llama3.1-8b", 4096));
    let cluster = Cluster { parts: vec![(machine(), 32)] };
    // As many microbatches as stages: all forwards of a stage come before its backwards.
    let recipe = recipe(32);
    let inputs = Inputs::new(&model, &recipe, &cluster);
    let of = |reshard, chunks, family| {
        let zero = Zero::Gradients;
        let setup = Setup { zero, reshard, chunks, family, ..setup([8, 1, 4]) };
        inputs.run_single(&setup, &Orders::default()).unwrap().finalist.evaluation.memory
    };
    let sum = |memory: &[StageMemory]| memory.iter().map(|one| one.sum().0).max().unwrap();
    for (chunks, family) in [(1, Family::OneFOneB), (4, Family::Interleaved)] {
        let never = of(Reshard::Never, chunks, family);
        let last = of(Reshard::AfterLast, chunks, family);
        for (stage, (last, never)) in last.iter().zip(&never).enumerate() {
            assert!(last.sum() <= Bytes(never.sum().0 + last.gradients.0 / 8 + 1), "stage {stage}");
            assert!(last.activations <= never.activations, "stage {stage}");
            assert_eq!(last.parameters, never.parameters);
        }
        match chunks {
            1 => assert!(last[0].gradients >= never[0].gradients),
            _ => assert!(sum(&last) < sum(&never), "{}", family.name()),
        }
    }
}

/// By hand: 10 bytes a microbatch, and 4 of gradients from the first backward on.
#[test]
fn passing_gradients_are_counted_beside_activations() {
    let schedule: pipeline::Schedule = "F0.0 F0.1 BW0.0 BW0.1".parse().unwrap();
    let one = pipeline::Footprint { until_backward: Bytes(10), until_weight: Bytes(10) };
    let footprints = pipeline::Footprints::uniform(schedule.shape(), one);
    let peak = crate::memory::peaks(&schedule, &footprints, &[Bytes(4)])[0];
    assert_eq!((peak.activations, peak.gradients), (Bytes(20), Bytes(4)));
    let schedule: pipeline::Schedule = "F0.0 BW0.0 F0.1 BW0.1".parse().unwrap();
    let peak = crate::memory::peaks(&schedule, &footprints, &[Bytes(4)])[0];
    assert_eq!((peak.activations, peak.gradients), (Bytes(10), Bytes(4)));
}

proptest! {
    /// Bytes copied to the host leave the device between F and B and are back from B to W, and none are
    /// lost: both together are the bytes kept without copies.
    #[test]
    fn what_is_copied_to_the_host_is_not_held(
        model in any_model(),
        parts in proptest::sample::subsequence(Offloaded::NAMES.to_vec(), 0..=7),
    ) {
        let parts: Vec<Offloaded> = parts.into_iter().map(|(part, _)| part).collect();
        let setup = setup([2, 1, 1]);
        let plain = recipe(64);
        let copies = Recipe { offload: Offload::of(&parts), ..plain.clone() };
        let layers = model.counts(0..model.layers);
        let [without, with] = [&plain, &copies].map(|recipe| footprint(&model, &setup, recipe, layers));
        let none = crate::LayerCounts::default();
        let away = Activations::of(&model, &setup, &copies).copied([layers, none]);
        let both = number(with.until_backward.0) + away;
        prop_assert!((both - number(without.until_backward.0)).abs() <= 1e-9 * both + 2.0);
        prop_assert_eq!(with.until_weight, without.until_weight);
        prop_assert_eq!(away > 0.0, with.until_backward < without.until_backward);
        let [again, never] = [&copies, &plain]
            .map(|recipe| Activations::of(&model, &setup, recipe).again(layers, Recompute::None));
        prop_assert_eq!(never, 0.0);
        prop_assert!(again <= away && (again > 0.0) == (away > 0.0));
    }

    /// Inputs of activation functions in 8 bits have half the bytes of 16, and nothing else changes.
    #[test]
    fn inputs_of_activation_functions_can_be_kept_in_8_bits(model in any_model()) {
        let setup = setup([1, 1, 1]);
        let plain = recipe(64);
        let small = Recipe { fp8_activation_input: true, ..plain.clone() };
        let [full, less] = [&plain, &small].map(|recipe| held(&model, &setup, recipe));
        let gate = if model.gated { 2 } else { 1 };
        let width = |kind: &LayerKind| match kind.ffn {
            Ffn::None => 0,
            Ffn::Dense => model.dense_width(),
            Ffn::Experts => model.experts.map_or(0, |one| one.top_k * model.ffn + one.shared),
        };
        let kinds = model.layer_kinds();
        let counts = model.counts(0..model.layers);
        let numbers: u64 =
            counts.iter().zip(kinds).map(|(count, kind)| count * gate * width(kind)).sum();
        prop_assert_eq!(full - less, numbers * model.sequence);
    }
}
