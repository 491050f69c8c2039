//! The sizes of a model.

use super::super::arguments::{Arguments, Wrong};
use super::super::models;
use super::{Given, Notes, missing};
use planning::SizesDocument;

/// The sizes that `arguments` say of a model `hidden` wide.
pub(super) fn sizes(
    arguments: &Arguments,
    given: &Given,
    hidden: u64,
    notes: &mut Notes,
) -> Result<SizesDocument, Wrong> {
    let lacks = |name: &str| missing(arguments, name);
    let heads =
        arguments.whole("num-attention-heads")?.ok_or_else(|| lacks("num-attention-heads"))?;
    let pattern =
        arguments.text("hybrid-layer-pattern")?.or(arguments.text("hybrid-override-pattern")?);
    let letters = pattern.map(|pattern| letters_of(&pattern));
    let layers = match (&letters, arguments.whole("num-layers")?) {
        (Some((letters, _)), _) => letters.len() as u64,
        (None, Some(layers)) => layers,
        (None, None) => return Err(lacks("num-layers")),
    };
    let (dense, gated) = feed_forward(arguments, hidden)?;
    let has_biases = arguments
        .flag("add-bias-linear")
        .unwrap_or(!arguments.is_dump && !arguments.has("disable-bias-linear"));
    if arguments.has("add-qkv-bias") && !has_biases {
        notes.push("--add-qkv-bias is left out: biases are those of all linear layers".to_owned());
    }
    let sizes = SizesDocument {
        layers,
        hidden,
        heads,
        ffn: Some(dense),
        gated: Some(gated),
        norm: Some("layer".to_owned()),
        vocabulary: vocabulary(arguments, given)?,
        positions: positions(arguments)?,
        tied: Some(!arguments.has("untie-embeddings-and-output-weights")),
        biases: Some(has_biases),
        ..SizesDocument::default()
    };
    let mut sizes = arguments.fill("model", &sizes)?;
    if arguments.has("group-query-attention") {
        sizes = arguments.fill("groups", &sizes)?;
    }
    if let Some((letters, mtp)) = letters {
        sizes.pattern = Some(letters);
        sizes.mtp = mtp.or(sizes.mtp);
    }
    let sizes = mixers(arguments, indexer(arguments, attention(arguments, sizes)?, notes)?)?;
    experts(arguments, dense, sizes, notes)
}

/// The width of the feed-forward network of a model `hidden` wide, and whether it is gated.
fn feed_forward(arguments: &Arguments, hidden: u64) -> Result<(u64, bool), Wrong> {
    let gates = ["swiglu", "quick-geglu", "geglu", "glu-activation"];
    let gated = gates.iter().any(|name| arguments.has(name));
    let dense = match arguments.whole("ffn-hidden-size")? {
        Some(width) => width,
        // As Megatron-LM fills it in.
        None if gated => hidden.saturating_mul(8) / 3 / 64 * 64,
        None => hidden.saturating_mul(4),
    };
    Ok((dense, gated))
}

/// The learned positions, if there are any.
fn positions(arguments: &Arguments) -> Result<Option<u64>, Wrong> {
    let kind = arguments.text("position-embedding-type")?;
    let is_rotary = arguments.has("use-rotary-position-embeddings") && !arguments.has("deepspeed");
    let learned = kind.map_or(!is_rotary, |kind| kind == "learned_absolute");
    let positions = arguments.whole("max-position-embeddings")?;
    let is_off = arguments.has("no-position-embedding");
    Ok(positions.filter(|_| learned && !is_off))
}

/// The letters of a hybrid without its chunks, and its layers of multi-token prediction.
pub(super) fn letters_of(pattern: &str) -> (String, Option<u64>) {
    let mut parts = pattern.split('/');
    let main: String = parts.next().unwrap_or_default().chars().filter(|c| *c != '|').collect();
    let mtp = parts.count() as u64;
    (main, (mtp > 0).then_some(mtp))
}

pub(super) fn vocabulary(arguments: &Arguments, given: &Given) -> Result<u64, Wrong> {
    for name in
        ["vocab-size", "padded-vocab-size", "tokenizer-type", "tokenizer-model", "vocab-file"]
    {
        arguments.has(name);
    }
    let said = || Ok(arguments.whole("vocab-size")?.or(arguments.whole("padded-vocab-size")?));
    if let Some(size) = given.vocabulary.map_or_else(said, |size| Ok(Some(size)))? {
        return Ok(size);
    }
    let of_type = arguments.text("tokenizer-type");
    let of_model = arguments.text("tokenizer-model");
    let names = [of_model, of_type].into_iter().flatten().flatten();
    let known = |name: String| {
        models::of_tokenizer(&name).or_else(|| models::named(&name).map(|sizes| sizes.vocabulary))
    };
    // Without a tokenizer the files of GPT-2 are named.
    let of_files = arguments.has("vocab-file").then(|| models::of_tokenizer("GPT2BPETokenizer"));
    names.filter_map(known).next().or(of_files.flatten()).ok_or_else(|| {
        Wrong::new("vocab-size", "it is missing, and the tokenizer does not tell it")
            .hint("give --vocabulary, or the log of a run")
    })
}

/// Heads, latents and windows.
fn attention(arguments: &Arguments, mut sizes: SizesDocument) -> Result<SizesDocument, Wrong> {
    let channels = arguments.whole("kv-channels")?;
    let plain = arguments.whole("qk-head-dim")?.unwrap_or(128);
    if arguments.has("multi-latent-attention") {
        // The defaults of Megatron-LM's MLATransformerConfig.
        (sizes.latent_keys, sizes.rotary_size, sizes.value_size) = (Some(512), Some(64), Some(128));
        sizes = arguments.fill("latents", &sizes)?;
        sizes.head_size = sizes.rotary_size.map(|rotary| plain.saturating_add(rotary));
        sizes.kv_heads = None;
        arguments.has("qk-layernorm");
    } else {
        // Sizes of a latent that is not used are read, too.
        arguments.fill("latents", &SizesDocument::default())?;
        sizes = arguments.fill("heads", &sizes)?;
        sizes.head_size =
            channels.filter(|size| sizes.heads.checked_mul(*size) != Some(sizes.hidden));
    }
    let window = arguments.text("window-size")?;
    sizes.window = window.and_then(|window| {
        let first = window.trim_matches(['(', ')']).split(',').next()?.trim().parse::<u64>();
        first.ok()?.checked_add(1)
    });
    if sizes.window.is_some() {
        sizes.full_every =
            arguments.text("window-attn-skip-freq")?.and_then(|every| every.parse().ok());
    }
    Ok(sizes)
}

/// The indexer of sparse attention, with notes on what a plan has otherwise.
fn indexer(
    arguments: &Arguments,
    sizes: SizesDocument,
    notes: &mut Notes,
) -> Result<SizesDocument, Wrong> {
    let variant = arguments.text("experimental-attention-variant")?;
    let backend = arguments.text("dsa-kernel-backend")?;
    let coefficient = arguments.text("dsa-indexer-loss-coeff")?;
    let is_sparse = arguments.has("dsa-indexer-use-sparse-loss");
    let frequency = arguments.whole("dsa-indexer-topk-freq")?;
    let own = arguments.fill("indexer", &sizes)?;
    if variant.as_deref() != Some("dsa") {
        return Ok(sizes);
    }
    if frequency.is_some_and(|every| every > 1) {
        let why = "a plan does not know layers that take the keys of another layer's indexer";
        return Err(Wrong::new("dsa-indexer-topk-freq", why).hint("take it out: all layers choose"));
    }
    let is_trained = coefficient.is_some_and(|given| given.parse() != Ok(0.0));
    let mut note = |is: bool, text: &str| notes.extend(is.then(|| text.to_owned()));
    note(
        backend.is_none_or(|name| name == "none"),
        "--dsa-kernel-backend is none: a plan has fused kernels, which take less time and memory",
    );
    note(
        !is_trained,
        "--dsa-indexer-loss-coeff is not there: a plan trains the indexer, which takes more time",
    );
    note(
        is_trained && !is_sparse,
        "--dsa-indexer-use-sparse-loss is not there: a plan has it, which takes less time",
    );
    Ok(own)
}

/// Linear attention and Mamba-2.
fn mixers(arguments: &Arguments, mut sizes: SizesDocument) -> Result<SizesDocument, Wrong> {
    let variant = arguments.text("experimental-attention-variant")?;
    if matches!(variant.as_deref(), Some("gdn" | "gated_delta_net")) {
        sizes.full_every =
            arguments.text("linear-attention-freq")?.and_then(|every| every.parse().ok());
        sizes = arguments.fill("linear", &sizes)?;
    }
    if sizes.pattern.as_ref().is_some_and(|letters| letters.contains('M')) {
        // The defaults of Megatron-LM.
        (sizes.mamba_head_size, sizes.mamba_state, sizes.mamba_groups) =
            (Some(64), Some(128), Some(8));
        sizes = arguments.fill("mamba", &sizes)?;
        let size = sizes.mamba_head_size.unwrap_or(1).max(1);
        sizes.mamba_heads = sizes.mamba_heads.or(Some(sizes.hidden.saturating_mul(2) / size));
    }
    Ok(sizes)
}

fn experts(
    arguments: &Arguments,
    dense: u64,
    mut sizes: SizesDocument,
    notes: &mut Notes,
) -> Result<SizesDocument, Wrong> {
    let Some(count) = arguments.degree("num-experts")? else { return Ok(sizes) };
    // The layers of DeepSpeed's experts, whose tokens go to one.
    let is_deepspeed = arguments.has("deepspeed");
    sizes.experts = Some(count);
    sizes.top_k = Some(if is_deepspeed { 1 } else { 2 });
    sizes = arguments.fill("experts", &sizes)?;
    if sizes.pattern.is_some() {
        sizes.dense_ffn =
            sizes.pattern.as_ref().filter(|letters| letters.contains('-')).map(|_| dense);
    } else if let Some(frequency) = arguments.text("moe-layer-freq")? {
        layers_of_experts(&frequency, dense, &mut sizes, notes)?;
    } else if is_deepspeed {
        sizes.experts_every =
            Some(arguments.whole("expert-interval")?.unwrap_or(2)).filter(|every| *every > 1);
        sizes.dense_ffn = sizes.experts_every.map(|_| dense);
    }
    Ok(sizes)
}

/// The layers with experts by `frequency`, a number or a list, where the others have an MLP of width `dense`.
pub(super) fn layers_of_experts(
    frequency: &str,
    dense: u64,
    sizes: &mut SizesDocument,
    notes: &mut Notes,
) -> Result<(), Wrong> {
    (sizes.dense_layers, sizes.experts_every, sizes.dense_ffn) = (None, None, None);
    let wrong = || {
        let frequency = question::quote::clip(frequency);
        Wrong::new("moe-layer-freq", format!("{frequency} is not a pattern of layers with experts that a plan knows"))
            .hint("a plan knows the first layers without experts, as in [0]*3+[1]*58, or every n-th layer with them")
    };
    let layers = match frequency.parse::<u64>() {
        Ok(0 | 1) => return Ok(()),
        // Megatron-LM counts from the first layer.
        Ok(every) => (0..sizes.layers.min(MOST_LISTED as u64)).map(|at| at % every == 0).collect(),
        Err(_) => listed(frequency).ok_or_else(wrong)?,
    };
    let first = layers.iter().take_while(|has| !**has).count();
    let count = layers.iter().filter(|has| **has).count();
    let is =
        |has: &dyn Fn(usize) -> bool| layers.iter().enumerate().all(|(at, own)| *own == has(at));
    if layers.len() as u64 != sizes.layers || count == 0 {
        return Err(wrong());
    }
    if count < layers.len() {
        sizes.dense_ffn = Some(dense);
    }
    let every = layers.len() / count;
    if is(&|at| at >= first) {
        sizes.dense_layers = Some(first as u64).filter(|first| *first > 0);
    } else if is(&|at| (at + 1).is_multiple_of(first + 1)) {
        sizes.experts_every = Some(first as u64 + 1);
    } else if count * every == layers.len() && is(&|at| at.is_multiple_of(every)) {
        notes.push(format!(
            "--moe-layer-freq has experts in the first of every {every} layers: a plan has them in the last"
        ));
        sizes.experts_every = Some(every as u64);
    } else {
        return Err(wrong());
    }
    Ok(())
}

/// The most layers of a list.
const MOST_LISTED: usize = 10_000;

/// Whether each layer has experts, of a list in Python's words such as `[0]*3+[1]*58`.
fn listed(text: &str) -> Option<Vec<bool>> {
    let mut all = Vec::new();
    let text =
        text.trim().strip_prefix('(').and_then(|text| text.strip_suffix(')')).unwrap_or(text);
    for part in text.split('+') {
        let (list, times) = part
            .trim()
            .split_once('*')
            .map_or((part.trim(), "1"), |(list, times)| (list.trim(), times.trim()));
        let times: usize = times.trim_matches(['(', ')']).parse().ok()?;
        let list = list.trim_matches(['(', ')']).strip_prefix('[')?.strip_suffix(']')?;
        let own = list.split(',').map(|one| match one.trim() {
            "0" => Some(false),
            "1" => Some(true),
            _ => None,
        });
        let own = own.collect::<Option<Vec<bool>>>()?;
        if own.len().checked_mul(times)?.checked_add(all.len())? > MOST_LISTED {
            return None;
        }
        for _ in 0..times {
            all.extend(&own);
        }
    }
    Some(all)
}
