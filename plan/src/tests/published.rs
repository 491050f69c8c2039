//! Formulas against published figures.

use super::{gpt, llama, machine, model, recipe, setup};
use crate::{
    Biases, Experts, LayerKind, ModelError, Part, Recipe, Recompute, Setup, Sizes, Task,
    Transformer, footprint, layer, number,
};

#[test]
fn parameters_are_those_published() {
    let gpt2 = Sizes { vocabulary: 50_257, positions: 1024, sequence: 1024, ..gpt(12, 768, 12) };
    let mixtral = Sizes {
        experts: Some(Experts { count: 8, top_k: 2, shared: 0 }),
        ..llama(32, 4096, [32, 8], 14_336, 32_000)
    };
    let qwen = Sizes {
        biases: Biases { qkv: true, ..Biases::default() },
        ..llama(28, 3584, [28, 4], 18_944, 152_064)
    };
    let qwen3 = Sizes {
        head_size: 128,
        qk_norm: true,
        ffn: 768,
        experts: Some(Experts { count: 128, top_k: 8, shared: 0 }),
        ..llama(48, 2048, [32, 4], 768, 151_936)
    };
    let published = [
        ("Qwen 3 30B-A3B", qwen3, 30_532_122_624),
        ("GPT-2", gpt2, 124_439_808),
        ("Llama 2 7B", llama(32, 4096, [32, 32], 11_008, 32_000), 6_738_415_616),
        ("Llama 3 8B", llama(32, 4096, [32, 8], 14_336, 128_256), 8_030_261_248),
        ("Llama 3 70B", llama(80, 8192, [64, 8], 28_672, 128_256), 70_553_706_496),
        ("Mistral 7B", llama(32, 4096, [32, 8], 14_336, 32_000), 7_241_732_096),
        ("Mixtral 8x7B", mixtral.clone(), 46_702_792_704),
        ("Qwen 2 7B", qwen, 7_615_616_512),
    ];
    for (name, sizes, parameters) in published {
        assert_eq!(model(sizes).parameters(), parameters, "{name}");
    }
    assert_eq!(model(mixtral).active_parameters(), 12_879_925_248);
}

/// Narayanan et al. 2021, equation 2, and table 1's third column to its digits.
#[test]
fn parameters_follow_the_published_formula() {
    for (layers, hidden, heads, billions) in [
        (24, 2304, 24, 1.7),
        (36, 4096, 32, 7.5),
        (80, 12_288, 96, 145.6),
        (105, 20_480, 128, 529.6),
    ] {
        let ours = number(model(gpt(layers, hidden, heads)).parameters());
        let [l, h] = [layers, hidden].map(number);
        let formula =
            12.0 * l * h * h * (1.0 + 13.0 / (12.0 * h) + (51_200.0 + 2048.0) / (12.0 * l * h));
        // The last normalisation, 2 h, is not in the formula.
        assert!((ours - formula - 2.0 * h).abs() < 1.0, "{ours} {formula}");
        assert!((ours / 1e9 - billions).abs() < 0.051, "{ours}");
    }
}

/// Equation 3 of Narayanan et al. 2021, and equations 7 and 9 of Korthikanti et al. 2022.
#[test]
fn flops_follow_the_published_formulas() {
    let model = model(gpt(96, 12_288, 96));
    let [l, h, s, v] = [96.0, 12_288.0, 2048.0, 51_200.0];
    let close = |a: f64, b: f64| assert!((a / b - 1.0).abs() < 1e-12, "{a} {b}");
    let base = 72.0 * l * h * h;
    close(model.model_flops(), base * (1.0 + s / (6.0 * h) + v / (12.0 * h * l)));
    let full = 96.0 * l * h * h * (1.0 + s / (6.0 * h) + v / (16.0 * l * h));
    close(model.hardware_flops(Recompute::Full), full);
    let selective = base * (1.0 + s / (3.0 * h) + v / (12.0 * h * l));
    close(model.hardware_flops(Recompute::Selective), selective);
}

/// Korthikanti et al. 2022, table 2.
#[test]
fn activations_follow_the_published_formulas() {
    let model = model(gpt(1, 6144, 64));
    let [h, s, b, a] = [6144.0, 2048.0, 4.0, 64.0];
    for t in [1, 8] {
        for sequence_parallel in [false, true] {
            let recipe = Recipe { sequence_parallel, ..recipe(64) };
            let t_setup = Setup { microbatch: 4, ..setup([1, t, 1]) };
            let t = number(t);
            let whole = if sequence_parallel { 10.0 / t } else { 10.0 };
            let formulas = [
                (Recompute::None, s * b * h * (whole + 24.0 / t + 5.0 * a * s / (h * t))),
                (Recompute::Selective, s * b * h * (whole + 24.0 / t)),
                (Recompute::Full, 2.0 * s * b * h / if sequence_parallel { t } else { 1.0 }),
            ];
            for (recompute, bytes) in formulas {
                let setup = Setup { recompute, ..t_setup };
                let held = footprint(&model, &setup, &recipe, model.counts(0..1));
                let ours = number(held.until_backward.0);
                assert!((ours - bytes).abs() <= 1.0, "{recompute:?} {ours} {bytes}");
            }
        }
    }
}

/// The effect of the head size, by counting: for a model whose heads are twice as wide, the
/// projections, the scores, and the memory of queries, keys and values.
#[test]
fn heads_of_any_size_count_in_parameters_flops_memory_and_time() {
    let narrow = llama(32, 4096, [32, 8], 14_336, 128_256);
    let wide = Sizes { head_size: 256, ..narrow.clone() };
    let normed = model(Sizes { qk_norm: true, ..narrow.clone() });
    let [narrow, wide] = [narrow, wide].map(model);
    let kind = LayerKind::default();
    let projections = 32 * 4096 * (2 * 32 + 2 * 8) * 128;
    assert_eq!(wide.parameters() - narrow.parameters(), projections);
    assert_eq!(wide.attention_flops(kind), 2.0 * narrow.attention_flops(kind));
    let more = 2.0 * number(projections / 32) + narrow.attention_flops(kind);
    assert_eq!(wide.flops_of(kind) - narrow.flops_of(kind), more);
    let held = |model: &Transformer| {
        let one = footprint(model, &setup([1, 4, 1]), &recipe(64), model.counts(0..1));
        one.until_backward.0
    };
    // Queries and the output of attention, keys and values, in 16 bits.
    assert_eq!(held(&wide) - held(&narrow), 2048 * (4 * 32 + 4 * 8) * 128 / 4);
    let device = machine();
    let recipe = recipe(8);
    let time = |model| {
        let own = setup([1, 4, 1]);
        layer(&Task::new(model, &device, &own, &recipe, Recompute::None), kind).parts
    };
    let [a, b] = [time(&narrow), time(&wide)];
    assert!(b.of(Part::Attention) > 1.9 * a.of(Part::Attention));
    assert!(b.of(Part::Products) > a.of(Part::Products));
    assert!(b.of(Part::Elementwise) > a.of(Part::Elementwise));
    // A scale for queries and one for keys; what they were before, in 16 bits.
    assert_eq!(normed.parameters() - narrow.parameters(), 32 * 2 * 128);
    assert_eq!(normed.flops_of(kind), narrow.flops_of(kind));
    assert_eq!(held(&normed) - held(&narrow), 2048 * 2 * (32 + 8) * 128 / 4);
    assert!(time(&normed).of(Part::Elementwise) > a.of(Part::Elementwise));
}

#[test]
fn sequences_end_with_the_learned_positions() {
    let of = |sequence| Transformer::new(Sizes { sequence, ..gpt(12, 768, 12) });
    assert!(of(2048).is_ok());
    let error = Err(ModelError::Positions { positions: 2048, sequence: 2049 });
    assert_eq!(of(2049), error);
}
