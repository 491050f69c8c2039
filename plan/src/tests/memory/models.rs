//! Models whose memory was published.

use super::super::llama;
use crate::{Experts, Ffn, Indexer, Latent, LayerKind, Mamba, Mixer, Sizes};

const SPARSE: LayerKind = LayerKind::of(Mixer::Full, Ffn::Experts);
const DENSE: LayerKind = LayerKind::of(Mixer::Full, Ffn::Dense);

/// The model of that name, for sequences of `sequence` tokens.
pub(super) fn named(name: &str, sequence: u64) -> Sizes {
    let sizes = match name {
        "llama3.1-8b" => llama(32, 4096, [32, 8], 14_336, 128_256),
        "llama3.1-70b" => llama(80, 8192, [64, 8], 28_672, 128_256),
        "llama3.1-405b" => llama(126, 16_384, [128, 8], 53_248, 128_256),
        "qwen3-30b-a3b" => Sizes {
            head_size: 128,
            qk_norm: true,
            experts: Some(Experts { count: 128, top_k: 8, shared: 0 }),
            ..llama(48, 2048, [32, 4], 768, 151_936)
        },
        "moonlight-16b-a3b" => Sizes {
            latent: Some(Latent { query: None, keys: 512, rotary: 64 }),
            experts: Some(Experts { count: 64, top_k: 6, shared: 2816 }),
            ..latent(27, [2048, 16], 1, [1408, 11_264], 163_840)
        },
        "deepseek-v3-14-layers" => Sizes {
            experts: Some(Experts { count: 256, top_k: 8, shared: 2048 }),
            mtp: 1,
            ..latent(14, [7168, 128], 3, [2048, 18_432], 129_280)
        },
        "deepseek-v3.2-14-layers" => Sizes {
            indexer: Some(Indexer { heads: 64, head_size: 128, top_k: 2048 }),
            ..named("deepseek-v3-14-layers", sequence)
        },
        "nemotron-3-nano-30b-a3b" => hybrid(),
        other => panic!("no model {other}"),
    };
    Sizes { sequence, ..sizes }
}

/// A model with latent attention whose first `dense` layers have no experts.
fn latent(
    layers: u64,
    [hidden, heads]: [u64; 2],
    dense: u64,
    [ffn, dense_ffn]: [u64; 2],
    vocabulary: u64,
) -> Sizes {
    let kind = |layer| if layer < dense { DENSE } else { SPARSE };
    Sizes {
        head_size: 192,
        value_size: Some(128),
        latent: Some(Latent { query: Some(1536), keys: 512, rotary: 64 }),
        dense_ffn: Some(dense_ffn),
        kinds: (0..layers).map(kind).collect(),
        ..llama(layers, hidden, [heads, heads], ffn, vocabulary)
    }
}

fn hybrid() -> Sizes {
    let kind = |letter| match letter {
        'M' => LayerKind::of(Mixer::Mamba, Ffn::None),
        '*' => LayerKind::of(Mixer::Full, Ffn::None),
        _ => LayerKind::of(Mixer::None, Ffn::Experts),
    };
    let pattern = "MEMEM*EMEMEM*EMEMEM*EMEMEM*EMEMEM*EMEMEMEM*EMEMEMEME";
    Sizes {
        head_size: 128,
        gated: false,
        mamba: Some(Mamba { heads: 64, head_size: 64, state: 128, groups: 8, convolution: 4 }),
        experts: Some(Experts { count: 128, top_k: 6, shared: 3712 }),
        kinds: pattern.chars().map(kind).collect(),
        ..llama(52, 2688, [32, 2], 1856, 131_072)
    }
}
