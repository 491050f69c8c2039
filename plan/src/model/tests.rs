//! Parameters and FLOPs of each kind of layer, checked against sums by hand.

use super::*;

/// DeepSeek-V3's layers.
fn latent() -> Sizes {
    Sizes {
        layers: 2,
        hidden: 7168,
        heads: 128,
        kv_heads: 128,
        head_size: 192,
        ffn: 2048,
        gated: true,
        vocabulary: 129_280,
        sequence: 4096,
        experts: Some(Experts { count: 256, top_k: 8, shared: 2048 }),
        value_size: Some(128),
        latent: Some(Latent { query: Some(1536), keys: 512, rotary: 64 }),
        dense_ffn: Some(18_432),
        kinds: vec![DENSE, SPARSE],
        mtp: 1,
        router_bias: true,
        ..Sizes::default()
    }
}

const DEEPSEEK_INDEXER: Indexer = Indexer { heads: 64, head_size: 128, top_k: 2048 };
const DENSE: LayerKind = LayerKind::of(Mixer::Full, Ffn::Dense);
const SPARSE: LayerKind = LayerKind::of(Mixer::Full, Ffn::Experts);

fn model(sizes: Sizes) -> Transformer {
    Transformer::new(sizes).unwrap()
}

/// The weights of a layer of DeepSeek-V3, tensor by tensor as its file lists them.
#[test]
fn latent_attention_has_five_products() {
    let model = model(latent());
    let sizes: Vec<[u64; 2]> =
        model.products_of(DENSE).iter().map(|one| [one.inner, one.outer]).collect();
    let attention = [[7168, 1536], [1536, 24_576], [7168, 576], [512, 32_768], [16_384, 7168]];
    assert_eq!(sizes, [&attention[..], &[[7168, 36_864], [18_432, 7168]]].concat());
    let down: Vec<Side> = (model.products_of(DENSE).iter())
        .filter(|one| one.role == Role::LatentDown)
        .map(|one| one.side)
        .collect();
    assert_eq!(down, [Side::Neither; 2]);
    let attention: u64 = attention.iter().map(|[inner, outer]| inner * outer).sum();
    let norms = 2 * 7168 + 1536 + 512;
    let dense = KindParameters { dense: attention + norms + 3 * 7168 * 18_432, experts: 0 };
    assert_eq!(model.parameters_of(DENSE), dense);
    let expert = 3 * 7168 * 2048;
    let sparse = attention + norms + expert + 256 * 7168 + 256;
    assert_eq!(
        model.parameters_of(SPARSE),
        KindParameters { dense: sparse, experts: 256 * expert }
    );
    // The layer of multi-token prediction: one with experts, the product of 2h and h, three norms.
    let mtp = model.mtp_parameters();
    assert_eq!(mtp.dense - sparse, 2 * 7168 * 7168 + 3 * 7168);
    assert_eq!(mtp.experts, 256 * expert);
    assert_eq!([model.query_size(), model.attended_size()], [24_576, 16_384]);
    assert_eq!([model.kv_size(), model.latent_size()], [128 * 320, 2112]);
}

/// The tensors of the indexer of a layer of DeepSeek-V3.2, as its file lists them: 8192 x 1536, 128 x 7168, a scale and a
/// shift of 128, 64 x 7168. Transformers 5.24 counts 851,524,864 in 61 layers.
#[test]
fn an_indexer_has_three_products_and_a_normalisation() {
    let [without, with] =
        [None, Some(DEEPSEEK_INDEXER)].map(|indexer| model(Sizes { indexer, ..latent() }));
    let own = with.products_of(DENSE).iter().filter(|one| one.role == Role::Indexer);
    let own: Vec<[u64; 2]> = own.map(|one| [one.outer, one.inner]).collect();
    assert_eq!(own, [[8192, 1536], [128, 7168], [64, 7168]]);
    let more = |kind| with.parameters_of(kind).dense - without.parameters_of(kind).dense;
    assert_eq!([61 * more(DENSE), more(DENSE)], [851_524_864, more(SPARSE)]);
    assert_eq!(with.mtp_parameters().dense - without.mtp_parameters().dense, more(SPARSE));
    // Layers with a window have none.
    let kinds = vec![LayerKind { mixer: Mixer::Window, ..DENSE }, SPARSE];
    let windows = model(Sizes { kinds, window: Some(64), ..(*with).clone() });
    assert_eq!(windows.parameters(), with.parameters() - more(DENSE));
    // Queries are projected from the hidden state where they have no latent.
    let direct = Latent { query: None, ..with.latent.unwrap() };
    let direct = model(Sizes { latent: Some(direct), ..(*with).clone() });
    assert!(direct.products_of(DENSE).iter().any(|one| (one.inner, one.outer) == (7168, 8192)));
}

/// One layer of 2 heads of 4 and 3, with an indexer of 2 heads of 4, for 4 tokens.
#[test]
fn flops_of_sparse_attention_are_those_of_the_chosen_pairs() {
    let of = |top_k: Option<u64>| {
        model(Sizes {
            layers: 1,
            hidden: 8,
            heads: 2,
            kv_heads: 2,
            head_size: 4,
            value_size: Some(3),
            latent: Some(Latent { query: Some(6), keys: 5, rotary: 2 }),
            indexer: top_k.map(|top_k| Indexer { heads: 2, head_size: 4, top_k }),
            sequence: 4,
            kinds: vec![DENSE],
            mtp: 0,
            ..latent()
        })
    };
    let [dense, all, two] = [None, Some(4), Some(2)].map(of);
    // A pair: 2 x 2 heads x (4 + 3); a pair of the indexer: 2 x 8. Projections: 2 x (6 x 8 + 8 x 4 + 8 x 2).
    let (projections, scores) = (192.0, 16.0 * 4.0);
    assert_eq!([&dense, &all, &two].map(|one| one.attention_flops(DENSE)), [112.0, 112.0, 56.0]);
    assert_eq!([&dense, &all, &two].map(|one| one.index_flops(DENSE)), [0.0, scores, scores]);
    // Where all keys are chosen, attention is dense: an indexer adds its scores forward and backward, and its
    // projections forward and for the gradient of their weights.
    let more = |model: &Transformer| model.model_flops() - dense.model_flops();
    assert_eq!(more(&all), 2.0 * projections + 3.0 * scores);
    // Of two keys each, gradients of half of the scores.
    assert_eq!(more(&two), -3.0 * 56.0 + 2.0 * projections + 2.0 * scores);
    // Causal: half of 4 x 4 pairs; of two keys 2 + (4 - 2) x 2 of them without half of the diagonal, 1.5 of each token.
    let more = |model: &Transformer| model.causal_flops() - dense.causal_flops();
    assert_eq!(more(&all), 2.0 * projections + 3.0 * 16.0 * 2.0);
    let scores = 16.0 * 2.0 + 2.0 * 16.0 * 1.5;
    assert_eq!(more(&two), 3.0 * 28.0 * (1.5 - 2.0) + 2.0 * projections + scores);
    let again = |recompute| two.hardware_flops(recompute) - two.model_flops();
    let core = Modules::of(&[Module::CoreAttention]).unwrap();
    assert_eq!(again(Recompute::Modules(core)), 56.0 + 64.0 + projections);
    assert_eq!(again(Recompute::Full), two.flops_of(DENSE));
    // Frozen: forward, and of all but the indexer the gradient of the input.
    let frozen = Frozen { layers: vec![0..=0], ..Frozen::default() };
    let [dense, two] = [dense, two].map(|one| one.freezing(frozen.clone()).unwrap());
    assert_eq!(two.model_flops() - dense.model_flops(), -3.0 * 56.0 + projections + 64.0);
}

#[test]
fn latents_of_queries_can_be_left_out() {
    let with = latent();
    let without = Latent { query: None, ..with.latent.unwrap() };
    let [with, without] = [with.clone(), Sizes { latent: Some(without), ..with }].map(model);
    let more = 1536 * (7168 + 24_576 + 1);
    let own = with.parameters_of(DENSE).dense - more + 7168 * 24_576;
    assert_eq!(without.parameters_of(DENSE).dense, own);
}

/// FLOPs count each weight that a token passes twice, scores and values of unlike head size, and the
/// MTP layer with its head.
#[test]
fn flops_are_those_of_the_weights_met_and_of_attention() {
    let model = model(latent());
    let met = model.parameters_of(SPARSE).dense + 8 * 3 * 7168 * 2048;
    let unused = 2 * 7168 + 1536 + 512 + 256;
    assert_eq!(model.product_flops(SPARSE), 2.0 * number(met - unused));
    assert_eq!(model.attention_flops(SPARSE), 2.0 * 4096.0 * 128.0 * 320.0);
    let layers = model.flops_of(DENSE) + 2.0 * model.flops_of(SPARSE);
    let joined = 4.0 * 7168.0 * 7168.0;
    assert_eq!(model.model_flops(), 3.0 * (layers + joined + 2.0 * model.head_flops()));
    let again = |modules: &[Module]| {
        let modules = Modules::of(modules).unwrap();
        model.hardware_flops(Recompute::Modules(modules)) - model.model_flops()
    };
    // Three layers, that of multi-token prediction among them.
    let ups = number(1536 * 24_576 + 512 * 32_768);
    assert_eq!(again(&[Module::LatentUp]), 3.0 * 2.0 * ups);
    assert_eq!(again(&[Module::CoreAttention]), 3.0 * model.attention_flops(DENSE));
    assert_eq!(again(&[Module::SharedExperts]), 2.0 * 6.0 * 7168.0 * 2048.0);
    assert_eq!(again(&[Module::LayerNorm, Module::MoeActivation]), 0.0);
    assert_eq!(again(&[Module::Moe, Module::Mlp]), {
        let products = |kind| model.product_flops(kind);
        let attention = number(7168 * (1536 + 576) + 16_384 * 7168) + ups;
        products(DENSE) + 2.0 * products(SPARSE) - 3.0 * 2.0 * attention
    });
    let full = model.hardware_flops(Recompute::Full) - model.model_flops();
    assert_eq!(full, layers);
}

#[test]
fn windows_bound_the_tokens_that_are_attended_to() {
    let kinds = vec![LayerKind { mixer: Mixer::Window, ..DENSE }, DENSE];
    let of = |window| {
        let sizes = Sizes { window: Some(window), kinds: kinds.clone(), experts: None, ..latent() };
        model(sizes).attention_flops(kinds[0])
    };
    assert_eq!(of(1024) * 4.0, of(4096));
    assert_eq!(of(8192), of(4096));
}

/// The tensors of a Mamba-2 layer of Nemotron-H 8B, and of the other letters of its pattern.
#[test]
fn hybrids_have_one_part_and_one_norm_a_layer() {
    let alone = |mixer, ffn| LayerKind::of(mixer, ffn);
    let kinds = vec![
        alone(Mixer::Mamba, Ffn::None),
        alone(Mixer::None, Ffn::Dense),
        alone(Mixer::Full, Ffn::None),
    ];
    let sizes = Sizes {
        layers: 3,
        hidden: 4096,
        heads: 32,
        kv_heads: 8,
        head_size: 128,
        ffn: 21_504,
        mamba: Some(Mamba { heads: 128, head_size: 64, state: 128, groups: 8, convolution: 4 }),
        kinds: kinds.clone(),
        gated: false,
        experts: None,
        value_size: None,
        latent: None,
        mtp: 0,
        ..latent()
    };
    let model = model(sizes);
    let (inner, channels) = (8192, 8192 + 2 * 8 * 128);
    let into = inner + channels + 128;
    let beside = channels * 5 + 3 * 128 + inner + 4096;
    let dense = |kind| model.parameters_of(kind).dense;
    assert_eq!(dense(kinds[0]), 4096 * (into + inner) + beside);
    assert_eq!(dense(kinds[1]), 2 * 4096 * 18_432 + 4096);
    assert_eq!(dense(kinds[2]), 4096 * (2 * 4096 + 2 * 1024) + 4096);
    let state = 7.0 * 8192.0 * 128.0 + 2.0 * number(channels * 4);
    assert_eq!(model.state_flops(kinds[0]), state);
    assert_eq!(model.attention_flops(kinds[0]) + model.state_flops(kinds[2]), 0.0);
    assert_eq!(model.flops_of(kinds[0]), 2.0 * number(4096 * (into + inner)) + state);
}

/// The tensors of a layer of Qwen3-Next with linear attention, and of one with attention and its gate.
#[test]
fn linear_attention_has_a_state_and_full_attention_a_gate() {
    let linear = LayerKind { mixer: Mixer::Linear, ..SPARSE };
    let sizes = Sizes {
        layers: 4,
        hidden: 2048,
        heads: 16,
        kv_heads: 2,
        head_size: 256,
        ffn: 512,
        experts: Some(Experts { count: 512, top_k: 10, shared: 512 }),
        qk_norm: true,
        attention_gate: true,
        shared_gate: true,
        router_bias: false,
        linear: Some(Linear {
            key_heads: 16,
            value_heads: 32,
            key_size: 128,
            value_size: 128,
            convolution: 4,
        }),
        kinds: vec![linear, linear, linear, SPARSE],
        value_size: None,
        latent: None,
        mtp: 0,
        ..latent()
    };
    let model = model(sizes);
    let moe = 2048 * 513 + 3 * 2048 * 512;
    let into = 2 * 2048 + 2 * 4096 + 64;
    let mixer = 2048 * (into + 4096) + 4 * (2 * 2048 + 4096) + 2 * 32 + 128;
    assert_eq!(model.parameters_of(linear).dense, mixer + moe + 2 * 2048);
    let attention = 2048 * (2 * 4096 + 2 * 512) + 4096 * 2048 + 2 * 256;
    assert_eq!(model.parameters_of(SPARSE).dense, attention + moe + 2 * 2048);
    assert_eq!(model.parameters_of(SPARSE).experts, 512 * 3 * 2048 * 512);
    // 80 billion parameters, of which 3 are active: 48 layers of these four.
    let layers = 12
        * model
            .layer_kinds()
            .iter()
            .zip([3, 1])
            .fold(0, |sum, (kind, count)| sum + count * model.parameters_of(*kind).sum());
    assert!((79_000_000_000..80_000_000_000).contains(&(layers + 2 * 151_936 * 2048)));
    let state = 8.0 * 4096.0 * 128.0 + 2.0 * 8192.0 * 4.0;
    assert_eq!(model.state_flops(linear), state);
}

/// Biases of attention, router and experts, and sinks: the tensors of a layer of gpt-oss.
#[test]
fn biases_and_sinks_are_counted() {
    let plain = Sizes {
        hidden: 2880,
        heads: 64,
        kv_heads: 8,
        head_size: 64,
        ffn: 2880,
        experts: Some(Experts { count: 32, top_k: 4, shared: 0 }),
        value_size: None,
        latent: None,
        router_bias: false,
        mtp: 0,
        ..latent()
    };
    let biases = Biases { qkv: true, output: true, mlp: true };
    let full = Sizes { biases, router_bias: true, sinks: true, ..plain.clone() };
    let [plain, full] = [plain, full].map(|sizes| model(sizes).parameters_of(SPARSE));
    assert_eq!(full.dense - plain.dense, 4096 + 2 * 512 + 2880 + 32 + 64);
    assert_eq!(full.experts - plain.experts, 32 * (2 * 2880 + 2880));
}
