//! Sizes of a model of MaxText.

use question::quote;
use serde_json::Value;

use super::super::arguments::{Arguments, Wrong};
use super::super::models;
use crate::SizesDocument;

/// Blocks of layers that a plan knows.
const BLOCKS: [&str; 13] = [
    "default",
    "llama2",
    "mistral",
    "mixtral",
    "gemma",
    "gemma2",
    "gemma3",
    "gpt3",
    "qwen2",
    "qwen3",
    "qwen3_moe",
    "deepseek",
    "gpt_oss",
];

/// The sizes that the file has, or the model `name` has: of the file that lies `beside`, or by its name.
pub(super) fn sizes(
    arguments: &Arguments,
    name: &str,
    beside: Option<&Value>,
) -> Result<SizesDocument, Wrong> {
    let own = arguments.has("base-emb-dim");
    if let Some(mut sizes) = models::named(name).filter(|_| !own) {
        sizes.layers = arguments.whole("base-num-decoder-layers")?.unwrap_or(sizes.layers);
        sizes.vocabulary = arguments.whole("vocab-size")?.unwrap_or(sizes.vocabulary);
        return Ok(sizes);
    }
    match beside {
        Some(tree) if !own => of_keys(&Arguments::of_tree(tree)),
        _ if own => of_keys(arguments),
        _ => Err(Wrong {
            name: "model-name".to_owned(),
            message: format!("the sizes of {} are not known", quote::clip(name)),
            cure: Some(format!(
                "put the file of the model beside it, or name a model of its sizes with --model, {}",
                models::NAMES
            )),
        }),
    }
}

/// Sizes by the keys of a model's file.
fn of_keys(arguments: &Arguments) -> Result<SizesDocument, Wrong> {
    let needed = |name: &str| -> Result<u64, Wrong> {
        arguments.whole(name)?.ok_or_else(|| Wrong {
            name: name.to_owned(),
            message: "it is missing".to_owned(),
            cure: Some("a model needs it: name one with --model".to_owned()),
        })
    };
    let block = arguments.text("decoder-block")?.unwrap_or_else(|| "llama2".to_owned());
    if !BLOCKS.contains(&block.as_str()) && block != "llama4" {
        return Err(Wrong {
            name: "decoder-block".to_owned(),
            message: format!("a plan does not know layers of {}", quote::clip(&block)),
            cure: Some("name a model of nearly the same sizes with --model".to_owned()),
        });
    }
    let hidden = needed("base-emb-dim")?;
    let heads = needed("base-num-query-heads")?;
    let dense = needed("base-mlp-dim")?;
    // A layer of gemma2 is a pair.
    let times = if block == "gemma2" { 2 } else { 1 };
    let is_gpt3 = block == "gpt3";
    let is_post = arguments.has("use-post-attn-norm") && arguments.has("use-post-ffw-norm");
    let tied = arguments.has("logits-via-embedding");
    let mut sizes = SizesDocument {
        layers: needed("base-num-decoder-layers")?.saturating_mul(times),
        hidden,
        heads,
        kv_heads: arguments.whole("base-num-kv-heads")?.filter(|own| *own != heads),
        head_size: arguments
            .whole("head-dim")?
            .filter(|size| heads.checked_mul(*size) != Some(hidden)),
        ffn: Some(dense),
        gated: Some(arguments.all("mlp-activations")?.len() > 1),
        norm: Some(if is_gpt3 { "layer" } else { "rms" }.to_owned()),
        norms: is_post.then_some(4),
        vocabulary: needed("vocab-size")?,
        positions: positions(arguments)?,
        tied: Some(tied),
        biases: Some(is_gpt3 || arguments.has("mlp-bias")),
        qk_norm: (arguments.has("use-qk-norm") && block != "llama4").then_some(true),
        sinks: arguments.has("attention-sink").then_some(true),
        window: arguments.whole("sliding-window-size")?.filter(|own| *own > 0),
        mtp: arguments.whole("mtp-num-layers")?.filter(|layers| *layers > 0),
        ..SizesDocument::default()
    };
    if sizes.window.is_some() {
        sizes.full_every = Some(if block == "gemma3" { 6 } else { 2 });
    }
    if arguments.text("attention-type")?.as_deref() == Some("mla") {
        let rotary = arguments.whole("qk-rope-head-dim")?.unwrap_or(64);
        let plain = arguments.whole("qk-nope-head-dim")?.unwrap_or(128);
        sizes.latent_keys = Some(arguments.whole("kv-lora-rank")?.unwrap_or(512));
        sizes.latent_query = arguments.whole("q-lora-rank")?.filter(|rank| *rank > 0);
        sizes.rotary_size = Some(rotary);
        sizes.head_size = Some(plain.saturating_add(rotary));
        sizes.value_size = Some(arguments.whole("v-head-dim")?.unwrap_or(128));
        sizes.kv_heads = None;
    }
    experts(arguments, dense, &mut sizes)?;
    Ok(sizes)
}

/// Learned positions; a negative number is none.
fn positions(arguments: &Arguments) -> Result<Option<u64>, Wrong> {
    match arguments.text("trainable-position-size")?.filter(|text| !text.starts_with('-')) {
        Some(_) => Ok(arguments.whole("trainable-position-size")?.filter(|own| *own > 0)),
        None => Ok(None),
    }
}

fn experts(arguments: &Arguments, dense: u64, sizes: &mut SizesDocument) -> Result<(), Wrong> {
    let Some(count) = arguments.whole("num-experts")?.filter(|count| *count > 1) else {
        return Ok(());
    };
    let width = arguments.whole("base-moe-mlp-dim")?.filter(|width| *width > 0).unwrap_or(dense);
    sizes.experts = Some(count);
    sizes.top_k = Some(arguments.whole("num-experts-per-tok")?.unwrap_or(1));
    sizes.ffn = Some(width);
    let shared = arguments.whole("shared-experts")?.filter(|shared| *shared > 0);
    sizes.shared_ffn = shared.map(|shared| shared.saturating_mul(width));
    sizes.router_bias = arguments.has("routed-bias").then_some(true);
    sizes.dense_layers = arguments.whole("first-num-dense-layers")?.filter(|layers| *layers > 0);
    sizes.experts_every = arguments.whole("interleave-moe-layer-step")?.filter(|every| *every > 1);
    if sizes.dense_layers.is_some() || sizes.experts_every.is_some() {
        sizes.dense_ffn = Some(dense);
    }
    Ok(())
}
