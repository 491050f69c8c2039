//! Models that are known by their names, and what a file alters of them; layers that no plan knows.

use super::super::arguments::{Arguments, Wrong};
use super::model::{layers_of_experts, letters_of, vocabulary};
use super::{Given, Notes};
use crate::SizesDocument;

/// Keys of models that have layers of kinds which a plan does not know.
const UNPLANNED: [&str; 8] = [
    "attn-res-block-size",
    "compress-ratios",
    "hybrid-attention-ratio",
    "index-topk",
    "is-hybrid-model",
    "lfm-layer-types",
    "routed-expert-hidden-size",
    "dsa-indexer-topk",
];

/// The key of `arguments` in a configuration that makes layers which a plan does not know.
pub(super) fn unplanned(arguments: &Arguments) -> Result<(), Wrong> {
    let variant = arguments.text("experimental-attention-variant")?;
    let is_other = variant.is_some_and(|name| !matches!(name.as_str(), "gdn" | "gated_delta_net"));
    let is_mamba = arguments.text("model-type")?.as_deref() == Some("mamba");
    let is_mamba = is_mamba && !arguments.has("hybrid-layer-pattern");
    let of_variant = is_other.then_some("experimental-attention-variant");
    let of_variant = of_variant.or(is_mamba.then_some("model-type"));
    let has = |name: &&&str| arguments.has(name) && !arguments.has("hybrid-layer-pattern");
    let found = of_variant.or_else(|| UNPLANNED.iter().find(has).copied());
    match found.filter(|_| arguments.is_keys()) {
        None => Ok(()),
        Some(name) => Err(Wrong {
            name: name.to_owned(),
            message: "a plan does not know layers of this kind".to_owned(),
            cure: Some("name a model of nearly the same sizes with --model".to_owned()),
        }),
    }
}

/// Sizes and kinds of layers that a model which is known by its name has, whatever a file repeats of them.
const OF_BASE: [&str; 44] = [
    "activation-func",
    "add-bias-linear",
    "add-qkv-bias",
    "attention-chunk-size",
    "attn-logit-softcapping",
    "experimental-attention-variant",
    "final-logit-softcapping",
    "group-query-attention",
    "hybrid-attention-ratio",
    "hybrid-mlp-ratio",
    "hybrid-override-pattern",
    "interleaved-attn-pattern",
    "is-hybrid-model",
    "kv-channels",
    "kv-lora-rank",
    "linear-attention-freq",
    "linear-conv-kernel-dim",
    "linear-key-head-dim",
    "linear-num-key-heads",
    "linear-num-value-heads",
    "linear-value-head-dim",
    "mamba-head-dim",
    "mamba-num-groups",
    "mamba-num-heads",
    "mamba-state-dim",
    "max-position-embeddings",
    "moe-apply-probs-on-input",
    "moe-router-enable-expert-bias",
    "moe-router-topk",
    "moe-shared-expert-gate",
    "moe-shared-expert-intermediate-size",
    "multi-latent-attention",
    "normalization",
    "num-query-groups",
    "position-embedding-type",
    "q-lora-rank",
    "qk-head-dim",
    "qk-layernorm",
    "qk-pos-emb-head-dim",
    "softmax-type",
    "swiglu",
    "untie-embeddings-and-output-weights",
    "v-head-dim",
    "window-size",
];

/// The sizes of `base` with those that `arguments` set.
pub(super) fn altered(
    arguments: &Arguments,
    given: &Given,
    base: SizesDocument,
    notes: &mut Notes,
) -> Result<SizesDocument, Wrong> {
    let mut sizes = base;
    if let Some(layers) = arguments.whole("num-layers")?.filter(|own| *own != sizes.layers) {
        sizes.layers = layers;
        sizes.pattern = None;
    }
    if let Some(letters) = arguments.text("hybrid-layer-pattern")? {
        let (letters, mtp) = letters_of(&letters);
        sizes.layers = letters.len() as u64;
        sizes.pattern = Some(letters);
        sizes.mtp = mtp.or(sizes.mtp);
    }
    if given.vocabulary.is_some() || arguments.has("vocab-size") {
        sizes.vocabulary = vocabulary(arguments, given)?;
    }
    if arguments.is_off("mtp-num-layers") {
        sizes.mtp = None;
    } else if let Some(layers) = arguments.whole("mtp-num-layers")? {
        sizes.mtp = Some(layers).filter(|layers| *layers > 0);
    }
    // The base has these as its authors publish them.
    for name in OF_BASE {
        arguments.has(name);
    }
    if sizes.latent_keys.is_some() && arguments.is_off("multi-latent-attention") {
        (sizes.latent_keys, sizes.latent_query, sizes.rotary_size) = (None, None, None);
        sizes.value_size = None;
        sizes.head_size = Some(arguments.whole("kv-channels")?.unwrap_or(128));
    }
    if sizes.experts.is_some() {
        let dense = sizes.dense_ffn.or(sizes.ffn).unwrap_or_default();
        sizes.experts = arguments.whole("num-experts")?.or(sizes.experts);
        sizes.ffn = arguments.whole("moe-ffn-hidden-size")?.or(sizes.ffn);
        if let Some(frequency) = arguments.text("moe-layer-freq")? {
            layers_of_experts(&frequency, dense, &mut sizes, notes)?;
        }
    }
    Ok(sizes)
}
