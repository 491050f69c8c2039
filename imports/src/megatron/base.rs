//! Models that are known by their names, and what a file alters of them; layers that no plan knows.

use super::super::arguments::{Arguments, Wrong};
use super::super::table::{MEGATRON, Row};
use super::model::{self, layers_of_experts, letters_of, vocabulary};
use super::{Given, Notes, missing};
use planning::SizesDocument;

/// The sizes that `arguments` say: those of the `known` model, altered, or all of them.
pub(super) fn sizes(
    arguments: &Arguments,
    given: &Given,
    known: Option<SizesDocument>,
    notes: &mut Notes,
) -> Result<SizesDocument, Wrong> {
    match (arguments.whole("hidden-size")?, known) {
        (None, Some(known)) => altered(arguments, given, known, notes),
        (hidden, _) => {
            unplanned(arguments)?;
            let hidden = hidden.ok_or_else(|| missing(arguments, "hidden-size"))?;
            model::sizes(arguments, given, hidden, notes)
        }
    }
}

/// The key of `arguments` in a configuration that makes layers which a plan does not know.
fn unplanned(arguments: &Arguments) -> Result<(), Wrong> {
    let variant = arguments.text("experimental-attention-variant")?;
    let is_known = |name: &str| matches!(name, "gdn" | "gated_delta_net" | "dsa");
    let is_other = variant.is_some_and(|name| !is_known(&name));
    let is_hybrid = arguments.has("hybrid-layer-pattern");
    let is_mamba = arguments.text("model-type")?.as_deref() == Some("mamba") && !is_hybrid;
    let of_variant = is_other.then_some("experimental-attention-variant");
    let of_variant = of_variant.or(is_mamba.then_some("model-type"));
    let rows = MEGATRON.rows.iter().filter(|row| row.usage == "not planned");
    let named: Vec<&str> = rows.map(Row::name).filter(|name| arguments.has(name)).collect();
    let named = named.first().copied().filter(|_| !is_hybrid);
    match of_variant.or(named).filter(|_| arguments.is_keys()) {
        None => Ok(()),
        Some(name) => Err(Wrong::new(name, "a plan does not know layers of this kind")
            .hint("name a model of nearly the same sizes with --model")),
    }
}

/// The sizes of `base` with those that `arguments` set.
fn altered(
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
    // The base has these as its authors publish them, whatever the file repeats of them.
    arguments.pass_model();
    if sizes.latent_keys.is_some() && arguments.is_off("multi-latent-attention") {
        (sizes.latent_keys, sizes.latent_query, sizes.rotary_size) = (None, None, None);
        (sizes.index_heads, sizes.index_head_size, sizes.index_top_k) = (None, None, None);
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
