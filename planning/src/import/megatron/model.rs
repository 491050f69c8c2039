//! The sizes of a model.

use super::super::arguments::{Arguments, Wrong};
use super::super::models;
use super::{Given, Notes, base, missing};
use crate::SizesDocument;

/// Vocabularies of tokenizers that a script names without their size, by the beginnings of their names: the
/// `vocab_size` of the models' own files.
const TOKENIZERS: [(&str, u64); 13] = [
    ("GPT2BPETokenizer", 50257),
    ("Llama2Tokenizer", 32000),
    ("deepseek-ai/DeepSeek-V", 129_280),
    ("deepseek-ai/DeepSeek-R1", 129_280),
    ("meta-llama/Meta-Llama-3", 128_256),
    ("meta-llama/Llama-3", 128_256),
    ("meta-llama/Llama-4", 202_048),
    ("mistralai/Mixtral-8x7B", 32000),
    ("Qwen/Qwen3", 151_936),
    ("moonshotai/Kimi-K2", 163_840),
    ("openai/gpt-oss", 201_088),
    ("nvidia/Nemotron-H", 131_072),
    ("nvidia/NVIDIA-Nemotron", 131_072),
];

/// The sizes that `arguments` say.
pub(super) fn sizes(
    arguments: &Arguments,
    given: &Given,
    known: Option<SizesDocument>,
    notes: &mut Notes,
) -> Result<SizesDocument, Wrong> {
    let lacks = |name: &str| missing(arguments, name);
    let hidden = match (arguments.whole("hidden-size")?, known) {
        (None, Some(known)) => return base::altered(arguments, given, known, notes),
        (hidden, _) => {
            base::unplanned(arguments)?;
            hidden.ok_or_else(|| lacks("hidden-size"))?
        }
    };
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
    let gated = ["swiglu", "quick-geglu", "geglu"].iter().any(|name| arguments.has(name));
    let dense = match arguments.whole("ffn-hidden-size")? {
        Some(width) => width,
        // As Megatron-LM fills it in.
        None if gated => hidden.saturating_mul(8) / 3 / 64 * 64,
        None => hidden.saturating_mul(4),
    };
    let has_biases = arguments
        .flag("add-bias-linear")
        .unwrap_or(!arguments.is_dump && !arguments.has("disable-bias-linear"));
    let untied = arguments.has("untie-embeddings-and-output-weights");
    let norm = arguments.text("normalization")?.map_or("layer", |norm| match norm.as_str() {
        "RMSNorm" => "rms",
        _ => "layer",
    });
    let grouped = arguments.has("group-query-attention");
    if arguments.has("add-qkv-bias") && !has_biases {
        notes.push("--add-qkv-bias is left out: biases are those of all linear layers".to_owned());
    }
    let mut sizes = SizesDocument {
        layers,
        hidden,
        heads,
        kv_heads: if grouped { arguments.whole("num-query-groups")? } else { None },
        ffn: Some(dense),
        gated: Some(gated),
        norm: Some(norm.to_owned()),
        vocabulary: vocabulary(arguments, given)?,
        positions: positions(arguments)?,
        mtp: arguments.whole("mtp-num-layers")?.filter(|layers| *layers > 0),
        tied: Some(!untied),
        biases: Some(has_biases),
        ..SizesDocument::default()
    };
    if let Some((letters, mtp)) = letters {
        sizes.pattern = Some(letters);
        sizes.mtp = mtp.or(sizes.mtp);
    }
    attention(arguments, &mut sizes)?;
    mixers(arguments, &mut sizes)?;
    experts(arguments, dense, &mut sizes, notes)?;
    Ok(sizes)
}

/// The learned positions, if there are any.
fn positions(arguments: &Arguments) -> Result<Option<u64>, Wrong> {
    let kind = arguments.text("position-embedding-type")?;
    let learned = kind.is_none_or(|kind| kind == "learned_absolute");
    let positions = arguments.whole("max-position-embeddings")?;
    Ok(positions.filter(|_| learned && !arguments.has("no-position-embedding")))
}

/// The letters of a hybrid without its chunks, and its layers of multi-token prediction.
pub(super) fn letters_of(pattern: &str) -> (String, Option<u64>) {
    let mut parts = pattern.split('/');
    let main: String = parts.next().unwrap_or_default().chars().filter(|c| *c != '|').collect();
    let mtp = parts.count() as u64;
    (main, (mtp > 0).then_some(mtp))
}

pub(super) fn vocabulary(arguments: &Arguments, given: &Given) -> Result<u64, Wrong> {
    if given.vocabulary.is_some() {
        arguments.has("vocab-size");
    }
    let said = || Ok(arguments.whole("vocab-size")?.or(arguments.whole("padded-vocab-size")?));
    if let Some(size) = given.vocabulary.map_or_else(said, |size| Ok(Some(size)))? {
        return Ok(size);
    }
    let of_type = arguments.text("tokenizer-type");
    let of_model = arguments.text("tokenizer-model");
    let names = [of_model, of_type].into_iter().flatten().flatten();
    let listed = |name: &str| TOKENIZERS.iter().find(|(own, _)| name.starts_with(own));
    let known = |name: String| {
        let of_model = || models::named(&name).map(|sizes| sizes.vocabulary);
        listed(&name).map(|(_, size)| *size).or_else(of_model)
    };
    // Without a tokenizer the files of GPT-2 are named.
    let of_files = arguments.has("vocab-file").then_some(TOKENIZERS[0].1);
    names.filter_map(known).next().or(of_files).ok_or_else(|| Wrong {
        name: "vocab-size".to_owned(),
        message: "it is missing, and the tokenizer does not tell it".to_owned(),
        cure: Some("give --vocabulary, or the log of a run".to_owned()),
    })
}

/// Heads, latents and windows.
fn attention(arguments: &Arguments, sizes: &mut SizesDocument) -> Result<(), Wrong> {
    let channels = arguments.whole("kv-channels")?;
    if arguments.has("multi-latent-attention") {
        // The defaults of Megatron-LM's MLATransformerConfig.
        let rotary = arguments.whole("qk-pos-emb-head-dim")?.unwrap_or(64);
        let plain = arguments.whole("qk-head-dim")?.unwrap_or(128);
        sizes.latent_keys = Some(arguments.whole("kv-lora-rank")?.unwrap_or(512));
        sizes.latent_query = arguments.whole("q-lora-rank")?;
        sizes.rotary_size = Some(rotary);
        sizes.head_size = Some(plain.saturating_add(rotary));
        sizes.value_size = Some(arguments.whole("v-head-dim")?.unwrap_or(128));
        sizes.kv_heads = None;
        arguments.has("qk-layernorm");
    } else {
        // Sizes of a latent that is not used.
        for name in
            ["kv-lora-rank", "q-lora-rank", "qk-head-dim", "qk-pos-emb-head-dim", "v-head-dim"]
        {
            arguments.has(name);
        }
        sizes.head_size =
            channels.filter(|size| sizes.heads.checked_mul(*size) != Some(sizes.hidden));
        sizes.qk_norm = arguments.has("qk-layernorm").then_some(true);
    }
    sizes.sinks = arguments.text("softmax-type")?.filter(|kind| kind == "learnable").map(|_| true);
    sizes.attention_gate = arguments.has("attention-output-gate").then_some(true);
    let window = arguments.text("window-size")?;
    let before = window.and_then(|window| {
        let first =
            window.trim_matches(['(', ')']).split(',').next()?.trim().parse::<u64>().ok()?;
        first.checked_add(1)
    });
    sizes.window = before;
    if before.is_some() {
        sizes.full_every =
            arguments.text("window-attn-skip-freq")?.and_then(|every| every.parse().ok());
    }
    Ok(())
}

/// Linear attention and Mamba-2.
fn mixers(arguments: &Arguments, sizes: &mut SizesDocument) -> Result<(), Wrong> {
    let variant = arguments.text("experimental-attention-variant")?;
    if matches!(variant.as_deref(), Some("gdn" | "gated_delta_net")) {
        sizes.full_every =
            arguments.text("linear-attention-freq")?.and_then(|every| every.parse().ok());
        sizes.linear_convolution = arguments.whole("linear-conv-kernel-dim")?;
        sizes.linear_key_heads = arguments.whole("linear-num-key-heads")?;
        sizes.linear_value_heads = arguments.whole("linear-num-value-heads")?;
        sizes.linear_key_size = arguments.whole("linear-key-head-dim")?;
        sizes.linear_value_size = arguments.whole("linear-value-head-dim")?;
    }
    if sizes.pattern.as_ref().is_some_and(|letters| letters.contains('M')) {
        // The defaults of Megatron-LM.
        let size = arguments.whole("mamba-head-dim")?.unwrap_or(64);
        sizes.mamba_head_size = Some(size);
        sizes.mamba_state = Some(arguments.whole("mamba-state-dim")?.unwrap_or(128));
        sizes.mamba_groups = Some(arguments.whole("mamba-num-groups")?.unwrap_or(8));
        let heads = arguments.whole("mamba-num-heads")?;
        sizes.mamba_heads = Some(heads.unwrap_or(sizes.hidden.saturating_mul(2) / size.max(1)));
    }
    Ok(())
}

fn experts(
    arguments: &Arguments,
    dense: u64,
    sizes: &mut SizesDocument,
    notes: &mut Notes,
) -> Result<(), Wrong> {
    let Some(count) = arguments.whole("num-experts")?.filter(|count| *count > 1) else {
        return Ok(());
    };
    sizes.experts = Some(count);
    sizes.top_k = Some(arguments.whole("moe-router-topk")?.unwrap_or(2));
    sizes.ffn = Some(arguments.whole("moe-ffn-hidden-size")?.unwrap_or(dense));
    sizes.shared_ffn =
        arguments.whole("moe-shared-expert-intermediate-size")?.filter(|width| *width > 0);
    sizes.shared_gate = arguments.has("moe-shared-expert-gate").then_some(true);
    sizes.router_bias = arguments.has("moe-router-enable-expert-bias").then_some(true);
    if sizes.pattern.is_some() {
        sizes.dense_ffn =
            sizes.pattern.as_ref().filter(|letters| letters.contains('-')).map(|_| dense);
        return Ok(());
    }
    let Some(frequency) = arguments.text("moe-layer-freq")? else { return Ok(()) };
    layers_of_experts(&frequency, dense, sizes, notes)
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
        Wrong {
        name: "moe-layer-freq".to_owned(),
        message: format!("{} is no pattern of layers with experts that a plan knows", question::quote::clip(frequency)),
        cure: Some("a plan knows the first layers without experts, as in [0]*3+[1]*58, or every n-th layer with them".to_owned()),
    }
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
