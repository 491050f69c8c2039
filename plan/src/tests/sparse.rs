//! Sparse attention: time, memory and shards of a layer with an indexer.

use super::{llama, machine, model, recipe, setup};
use crate::{
    Frozen, Indexer, Latent, LayerParameters, Machine, Module, Modules, Part, Recipe, Recompute,
    Setup, Share, Sizes, Task, Transformer, footprint, layer, number,
};

/// Layers of DeepSeek-V3.2 without experts, with an indexer of `top_k` keys or without one.
fn deepseek(top_k: Option<u64>, sequence: u64) -> Transformer {
    model(Sizes {
        head_size: 192,
        value_size: Some(128),
        latent: Some(Latent { query: Some(1536), keys: 512, rotary: 64 }),
        indexer: top_k.map(|top_k| Indexer { heads: 64, head_size: 128, top_k }),
        sequence,
        ..llama(2, 7168, [128, 128], 18_432, 129_280)
    })
}

/// Seconds of attention in all passes of a layer of `model` on `device`.
fn attention(model: &Transformer, device: &Machine, setup: &Setup, recompute: Recompute) -> f64 {
    let kind = model.layer_kinds()[0];
    let recipe = recipe(64);
    let task = Task::new(model, device, setup, &recipe, recompute);
    layer(&task, kind).parts.of(Part::Attention)
}

/// A pair takes products of 128 heads of 576 and 512; an indexer's of 64 heads of 128.
#[test]
fn chosen_pairs_take_products_of_latents() {
    let device = machine();
    let one = setup([1, 1, 1]);
    let back = device.efficiency.flash_backward;
    for (sequence, keys) in [(1024.0, 512.0), (16_384.0, 2048.0 - 128.0)] {
        #[allow(clippy::cast_possible_truncation, clippy::cast_sign_loss)]
        let sparse = deepseek(Some(2048), sequence as u64);
        let pairs = sequence * keys;
        let core = 2.0 * pairs * 128.0 * (576.0 + 512.0) / device.flash();
        let of_index = |pairs: f64| 2.0 * pairs * 8192.0 / device.flash();
        let all = sequence * sequence / 2.0;
        let target = 2.0 * pairs * 128.0 * 576.0 / device.flash();
        let forward = core + of_index(all) + device.stream(8.0 * all) + target;
        let both = forward + back * (core + of_index(pairs));
        let ours = attention(&sparse, &device, &one, Recompute::None);
        assert!((ours / both - 1.0).abs() < 1e-12, "{ours} {both}");
        // Both are recomputed with it.
        let core = Modules::of(&[Module::CoreAttention]).unwrap();
        let again = attention(&sparse, &device, &one, Recompute::Modules(core)) - ours;
        assert!((again / forward - 1.0).abs() < 1e-12, "{again} {forward}");
        // Nothing is trained in front of a head alone.
        let frozen = Frozen { embedding: true, layers: vec![0..=1], ..Frozen::default() };
        let frozen = sparse.freezing(frozen).unwrap();
        let ours = attention(&frozen, &device, &one, Recompute::None);
        assert!((ours / (forward - target) - 1.0).abs() < 1e-12, "{ours}");
    }
    // Worth it where sequences are long.
    let time =
        |top_k, sequence| attention(&deepseek(top_k, sequence), &device, &one, Recompute::None);
    assert!(time(Some(2048), 131_072) < 0.4 * time(None, 131_072));
    assert!(time(Some(2048), 2048) > time(None, 2048));
}

/// By token, in 16 bits: queries as projected, and of the size of a latent, where dense attention keeps queries and keys of 192
/// and values of 128; what attention gives of the size of a latent. Of the indexer 2048 numbers of keys in 32 bits, queries, weights,
/// the key before and after its normalisation.
#[test]
fn an_indexer_keeps_what_its_kernels_save() {
    let held = |top_k, own: &Setup, recipe: &Recipe| {
        let model = deepseek(top_k, 4096);
        number(footprint(&model, own, recipe, model.counts(0..1)).until_backward.0) / 4096.0
    };
    let plain = recipe(64);
    let more =
        |own: &Setup, recipe: &Recipe| held(Some(2048), own, recipe) - held(None, own, recipe);
    let core = 2.0 * 128.0 * (192.0 + 512.0 + 512.0 - 192.0 - 192.0 - 128.0);
    let indexer = 4.0 * 2048.0 + 2.0 * (8192.0 + 64.0 + 2.0 * 128.0);
    let one = setup([1, 1, 1]);
    assert_eq!(more(&one, &plain), core + indexer);
    // A tensor group shares heads alone, and gathers the input.
    let shared = Recipe { sequence_parallel: true, ..plain.clone() };
    let four = setup([1, 4, 1]);
    let gathered = 2.0 * 7168.0 * 0.75;
    assert_eq!(more(&four, &shared), core / 4.0 + indexer + gathered);
    // A context group gathers latents and the indexer's keys: 576 and 128 of the other half of the sequence.
    let two = Setup { context: 2, ..one };
    assert_eq!(2.0 * more(&two, &plain), core + indexer + 2.0 * (576.0 + 128.0));
    // The projections up to latents are computed again as those of dense attention are.
    let modules =
        |module| Setup { recompute: Recompute::Modules(Modules::of(&[module]).unwrap()), ..one };
    let result = 2.0 * 128.0 * 512.0;
    assert_eq!(more(&modules(Module::LatentUp), &plain), result + indexer);
    assert_eq!(more(&modules(Module::CoreAttention), &plain), core - result);
    assert_eq!(more(&Setup { recompute: Recompute::Full, ..one }, &plain), 0.0);
}

#[test]
fn a_tensor_group_does_not_share_an_indexer() {
    let parameters = |top_k, tensor| {
        let (model, own) = (deepseek(top_k, 4096), setup([1, tensor, 1]));
        let share = Share { layers: model.counts(0..1), ..Share::default() };
        LayerParameters::of(&model, &own).stage(&model, &own, share).dense
    };
    let more = |tensor| parameters(Some(2048), tensor) - parameters(None, tensor);
    // But for its normalisation, as everywhere.
    assert_eq!([more(1), more(8)], [13_959_424.0, 13_959_424.0 - 256.0 * 7.0 / 8.0]);
    // Each device does all of its products.
    let device = machine();
    let products = |top_k, tensor| {
        let model = deepseek(top_k, 4096);
        let (own, recipe) = (setup([1, tensor, 1]), recipe(64));
        let task = Task::new(&model, &device, &own, &recipe, Recompute::None);
        layer(&task, model.layer_kinds()[0]).parts.of(Part::Products)
    };
    let more = |tensor| products(Some(2048), tensor) - products(None, tensor);
    assert!((more(8) / more(1) - 1.0).abs() < 1e-9, "{} {}", more(8), more(1));
}
