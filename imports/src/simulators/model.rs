//! Sizes of the models of the simulators.

use super::super::arguments::{Arguments, Wrong};
use super::{Kind, VOCABULARY, needed};
use planning::SizesDocument;

/// The sizes of a model of one `kind`.
pub(super) fn of_kind(arguments: &Arguments, kind: Kind) -> Result<SizesDocument, Wrong> {
    let of_calculon = kind == Kind::ModelOfCalculon;
    let (hidden, heads) = (needed(arguments, "hidden-size")?, needed(arguments, "head-num")?);
    let size = arguments.whole(if of_calculon { "attn-size" } else { "head-size" })?;
    let mut sizes = SizesDocument {
        layers: needed(arguments, "layer-num")?,
        kv_heads: arguments.whole("kv-head-num")?.filter(|own| *own != heads),
        head_size: size.filter(|size| heads.checked_mul(*size) != Some(hidden)),
        vocabulary: VOCABULARY,
        tied: of_calculon.then_some(true),
        ..SizesDocument::default()
    };
    if !of_calculon {
        needed(arguments, "intermediate-size")?;
        needed(arguments, "vocab-size")?;
        (sizes.norm, sizes.biases) = (Some("rms".to_owned()), Some(false));
    }
    let mut sizes = arguments.fill("model", &sizes)?;
    if arguments.text("attention-type")?.as_deref() == Some("mla") {
        needed(arguments, "kv-lora-rank")?;
        let plain = arguments.whole("qk-head-dim")?.unwrap_or(128);
        (sizes.rotary_size, sizes.value_size) = (Some(64), Some(128));
        sizes = arguments.fill("latents", &sizes)?;
        sizes.head_size = sizes.rotary_size.map(|rotary| plain.saturating_add(rotary));
        sizes.kv_heads = None;
    }
    if let Some(count) = arguments.degree("expert-num")? {
        let dense = sizes.ffn;
        (sizes.experts, sizes.top_k) = (Some(count), Some(1));
        sizes = arguments.fill("experts", &sizes)?;
        sizes.dense_ffn = dense.filter(|_| sizes.dense_layers.is_some());
    }
    Ok(sizes)
}
