//! Sizes of a model of MaxText.

use question::quote;
use serde_json::Value;

use super::super::arguments::{Arguments, Wrong, unknown_model};
use super::super::models;
use super::super::table::MAXTEXT;
use planning::SizesDocument;

/// Blocks of layers that a plan knows.
const BLOCKS: [&str; 14] = [
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
    "llama4",
];

/// The sizes that the file has, or the model `name` has: of the file that lies `beside`, or by its name.
pub(super) fn sizes(
    arguments: &Arguments,
    name: &str,
    beside: Option<&Value>,
) -> Result<SizesDocument, Wrong> {
    let own = arguments.has("base-emb-dim");
    if let Some(mut sizes) = models::named(name).filter(|_| !own) {
        arguments.has("attention-type");
        sizes.layers = arguments.whole("base-num-decoder-layers")?.unwrap_or(sizes.layers);
        sizes.vocabulary = arguments.whole("vocab-size")?.unwrap_or(sizes.vocabulary);
        return Ok(sizes);
    }
    match beside {
        Some(tree) if !own => {
            let own = Arguments::of_tree(tree);
            own.are_of(&MAXTEXT);
            of_keys(&own)
        }
        _ if own => of_keys(arguments),
        _ => Err(unknown_model("model-name", name).hint(format!(
            "put the file of the model in the same folder, or name one with --model, {}",
            models::NAMES
        ))),
    }
}

/// Sizes by the keys of a model's file.
fn of_keys(arguments: &Arguments) -> Result<SizesDocument, Wrong> {
    let needed = |name: &str| -> Result<u64, Wrong> {
        arguments
            .whole(name)?
            .ok_or_else(|| Wrong::missing(name, "a model needs it: name one with --model"))
    };
    let block = arguments.text("decoder-block")?.unwrap_or_else(|| "llama2".to_owned());
    if !BLOCKS.contains(&block.as_str()) {
        let message = format!("a plan does not know layers of {}", quote::clip(&block));
        return Err(Wrong::new("decoder-block", message)
            .hint("name a model of nearly the same sizes with --model"));
    }
    let hidden = needed("base-emb-dim")?;
    let heads = needed("base-num-query-heads")?;
    let dense = needed("base-mlp-dim")?;
    // A layer of gemma2 is a pair.
    let times = if block == "gemma2" { 2 } else { 1 };
    let is_gpt3 = block == "gpt3";
    let is_post = arguments.has("use-post-attn-norm") && arguments.has("use-post-ffw-norm");
    let sizes = SizesDocument {
        layers: needed("base-num-decoder-layers")?.saturating_mul(times),
        kv_heads: arguments.whole("base-num-kv-heads")?.filter(|own| *own != heads),
        head_size: arguments
            .whole("head-dim")?
            .filter(|size| heads.checked_mul(*size) != Some(hidden)),
        gated: Some(arguments.all("mlp-activations")?.len() > 1),
        norm: Some(if is_gpt3 { "layer" } else { "rms" }.to_owned()),
        norms: is_post.then_some(4),
        vocabulary: needed("vocab-size")?,
        biases: Some(is_gpt3 || arguments.has("mlp-bias")),
        qk_norm: (arguments.has("use-qk-norm") && block != "llama4").then_some(true),
        ..SizesDocument::default()
    };
    let mut sizes = arguments.fill("model", &sizes)?;
    if sizes.window.is_some() {
        sizes.full_every = Some(if block == "gemma3" { 6 } else { 2 });
    }
    if arguments.text("attention-type")?.as_deref() == Some("mla") {
        let plain = arguments.whole("qk-nope-head-dim")?.unwrap_or(128);
        (sizes.latent_keys, sizes.rotary_size, sizes.value_size) = (Some(512), Some(64), Some(128));
        sizes = arguments.fill("latents", &sizes)?;
        sizes.head_size = sizes.rotary_size.map(|rotary| plain.saturating_add(rotary));
        sizes.kv_heads = None;
    }
    experts(arguments, dense, sizes)
}

fn experts(
    arguments: &Arguments,
    dense: u64,
    mut sizes: SizesDocument,
) -> Result<SizesDocument, Wrong> {
    let Some(count) = arguments.degree("num-experts")? else { return Ok(sizes) };
    (sizes.experts, sizes.top_k) = (Some(count), Some(1));
    sizes = arguments.fill("experts", &sizes)?;
    let width = sizes.ffn.unwrap_or(dense);
    let shared = arguments.positive("shared-experts")?;
    sizes.shared_ffn = shared.map(|shared| shared.saturating_mul(width));
    sizes.experts_every = arguments.degree("interleave-moe-layer-step")?;
    if sizes.dense_layers.is_some() || sizes.experts_every.is_some() {
        sizes.dense_ffn = Some(dense);
    }
    Ok(sizes)
}
