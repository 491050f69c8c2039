//! Sizes of the models of the simulators.

use super::super::arguments::{Arguments, Wrong};
use super::{Kind, VOCABULARY, needed};
use crate::SizesDocument;

/// The sizes of a model of one `kind`.
pub(super) fn of_kind(arguments: &Arguments, kind: Kind) -> Result<SizesDocument, Wrong> {
    match kind {
        Kind::ModelOfCalculon => of_calculon(arguments),
        _ => of_simumax(arguments),
    }
}

fn of_calculon(arguments: &Arguments) -> Result<SizesDocument, Wrong> {
    let hidden = needed(arguments, "hidden")?;
    let heads = needed(arguments, "attn-heads")?;
    let size = arguments.whole("attn-size")?;
    Ok(SizesDocument {
        layers: needed(arguments, "num-blocks")?,
        hidden,
        heads,
        head_size: size.filter(|size| heads.checked_mul(*size) != Some(hidden)),
        ffn: arguments.whole("feedforward")?,
        gated: Some(false),
        vocabulary: VOCABULARY,
        positions: arguments.whole("seq-size")?,
        tied: Some(true),
        ..SizesDocument::default()
    })
}

fn of_simumax(arguments: &Arguments) -> Result<SizesDocument, Wrong> {
    let hidden = needed(arguments, "hidden-size")?;
    let heads = needed(arguments, "head-num")?;
    let dense = needed(arguments, "intermediate-size")?;
    let size = arguments.whole("head-size")?;
    let mut sizes = SizesDocument {
        layers: needed(arguments, "layer-num")?,
        hidden,
        heads,
        kv_heads: arguments.whole("kv-head-num")?.filter(|own| *own != heads),
        head_size: size.filter(|size| heads.checked_mul(*size) != Some(hidden)),
        ffn: Some(dense),
        gated: Some(arguments.has("use-swiglu")),
        norm: Some("rms".to_owned()),
        biases: Some(false),
        vocabulary: needed(arguments, "vocab-size")?,
        qk_norm: arguments.has("qk-norm").then_some(true),
        mtp: arguments.whole("mtp-num-layers")?.filter(|layers| *layers > 0),
        ..SizesDocument::default()
    };
    if arguments.text("attention-type")?.as_deref() == Some("mla") {
        let rotary = arguments.whole("qk-pos-emb-head-dim")?.unwrap_or(64);
        let plain = arguments.whole("qk-head-dim")?.unwrap_or(128);
        sizes.latent_keys = Some(needed(arguments, "kv-lora-rank")?);
        sizes.latent_query = arguments.whole("q-lora-rank")?.filter(|rank| *rank > 0);
        sizes.rotary_size = Some(rotary);
        sizes.head_size = Some(plain.saturating_add(rotary));
        sizes.value_size = Some(arguments.whole("v-head-dim")?.unwrap_or(128));
        sizes.kv_heads = None;
    }
    if let Some(count) = arguments.whole("expert-num")?.filter(|count| *count > 1) {
        sizes.experts = Some(count);
        sizes.top_k = Some(arguments.whole("topk")?.unwrap_or(1));
        sizes.ffn = Some(arguments.whole("moe-ffn-hidden-size")?.unwrap_or(dense));
        sizes.shared_ffn =
            arguments.whole("moe-shared-expert-intermediate-size")?.filter(|width| *width > 0);
        sizes.dense_layers = arguments.whole("dense-layers")?.filter(|layers| *layers > 0);
        sizes.dense_ffn = sizes.dense_layers.map(|_| dense);
    }
    Ok(sizes)
}
