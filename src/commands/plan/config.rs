//! A model from the `config.json` that Hugging Face keeps beside its weights.

use std::path::Path;

use plan::{Attention, Biases, Experts, Norm, Sizes, Transformer};
use serde_json::{Map, Value};

use crate::commands::note;
use crate::error::Error;
use crate::files;

/// Kinds of models that are built as their keys are read; others get a note.
const LIKE_LLAMA: [&str; 9] =
    ["llama", "mistral", "mixtral", "qwen2", "qwen2_moe", "qwen3", "qwen3_moe", "yi", "internlm2"];
/// The largest config file: those of today have a few kilobytes.
const MAX_FILE: u64 = 1 << 20;
/// The length of sequences where neither question nor config says.
const SEQUENCE: u64 = 2048;

/// Reads the model of `path`, trained on sequences of `sequence` tokens, or as many as it was made
/// for.
pub fn read(
    path: &Path,
    sequence: Option<u64>,
    attention: Attention,
) -> Result<Transformer, Error> {
    let text = files::read_text(path, MAX_FILE)?;
    // Nesting beyond 128 levels is refused by the parser.
    let value: Value = serde_json::from_str(&text).map_err(|error| {
        let place = place(&text, error.line(), error.column());
        Error::scenario(path, &text, place, format!("this is no JSON: {error}"))
    })?;
    let Value::Object(keys) = &value else {
        return Err(Error::scenario(path, &text, None, "a config is an object: { .. }".to_owned()));
    };
    let config = Config { path, text: &text, keys: text_config(keys) };
    config.model(sequence, attention)
}

/// The part that describes the language model, where a config has several.
fn text_config(keys: &Map<String, Value>) -> &Map<String, Value> {
    match keys.get("text_config") {
        Some(Value::Object(inner)) => inner,
        _ => keys,
    }
}

/// The byte at a line and column that a parser names, from 1.
fn place(text: &str, line: usize, column: usize) -> Option<std::ops::Range<usize>> {
    let before: usize = text.split_inclusive('\n').take(line.checked_sub(1)?).map(str::len).sum();
    let at = (before + column.saturating_sub(1)).min(text.len());
    text.is_char_boundary(at).then_some(at..at)
}

struct Config<'a> {
    path: &'a Path,
    text: &'a str,
    keys: &'a Map<String, Value>,
}

impl Config<'_> {
    fn model(&self, sequence: Option<u64>, attention: Attention) -> Result<Transformer, Error> {
        let family = match self.keys.get("model_type") {
            None | Some(Value::Null) => "",
            Some(Value::String(name)) => name,
            Some(other) => return Err(self.not("a name", "model_type", other)),
        };
        let sizes = match family {
            "gpt2" => self.gpt2(sequence, attention)?,
            _ => self.llama(family, sequence, attention)?,
        };
        if family != "gpt2" && !LIKE_LLAMA.contains(&family) {
            note(&format!(
                "{}: the model_type `{family}` is read as if it were built like llama: gated MLP, \
                 RMS norms, no learned positions; a table [model] says otherwise",
                self.path.display()
            ));
        }
        Transformer::new(sizes).map_err(|error| self.wrong("hidden_size", error.to_string()))
    }

    /// Keys as GPT-2 has them: everything has a bias, positions are learned, the head is tied.
    fn gpt2(&self, sequence: Option<u64>, attention: Attention) -> Result<Sizes, Error> {
        let hidden = self.required(&["n_embd"])?;
        let heads = self.required(&["n_head"])?;
        let positions = self.required(&["n_positions", "n_ctx"])?;
        Ok(Sizes {
            layers: self.required(&["n_layer"])?,
            hidden,
            heads,
            kv_heads: heads,
            head_size: self.head_size(hidden, heads)?,
            ffn: self.optional(&["n_inner"])?.unwrap_or(hidden.saturating_mul(4)),
            gated: false,
            vocabulary: self.required(&["vocab_size"])?,
            sequence: sequence.unwrap_or(positions),
            positions,
            experts: None,
            tied: self.flag("tie_word_embeddings")?.unwrap_or(true),
            biases: Biases { qkv: true, output: true, mlp: true },
            norm: Norm::Layer,
            attention,
        })
    }

    /// Keys as Llama, Mistral, Mixtral, Qwen and those after them have: gated, rotary, RMS norms.
    fn llama(
        &self,
        family: &str,
        sequence: Option<u64>,
        attention: Attention,
    ) -> Result<Sizes, Error> {
        let hidden = self.required(&["hidden_size"])?;
        let heads = self.required(&["num_attention_heads"])?;
        let experts = self.optional(&["num_local_experts", "num_experts"])?;
        let experts = match experts {
            Some(count) => Some(Experts { count, top_k: self.required(&["num_experts_per_tok"])? }),
            None => None,
        };
        let moe = self.optional(&["moe_intermediate_size"])?.filter(|_| experts.is_some());
        let ffn = match moe {
            Some(ffn) => ffn,
            None => self.required(&["intermediate_size"])?,
        };
        let bias = self.flag("attention_bias")?.unwrap_or(false);
        // Qwen 1 and 2 have a bias on queries, keys and values, which their configs do not name.
        let qkv = bias || (matches!(family, "qwen2" | "qwen2_moe") && !self.has("attention_bias"));
        let longest = self.optional(&["max_position_embeddings"])?.unwrap_or(SEQUENCE);
        Ok(Sizes {
            layers: self.required(&["num_hidden_layers"])?,
            hidden,
            heads,
            kv_heads: self.optional(&["num_key_value_heads"])?.unwrap_or(heads),
            head_size: match self.optional(&["head_dim"])? {
                Some(size) => size,
                None => self.head_size(hidden, heads)?,
            },
            ffn,
            gated: true,
            vocabulary: self.required(&["vocab_size"])?,
            sequence: sequence.unwrap_or(longest.min(SEQUENCE.max(4096))),
            positions: 0,
            experts,
            tied: self.flag("tie_word_embeddings")?.unwrap_or(false),
            biases: Biases { qkv, output: bias, mlp: self.flag("mlp_bias")?.unwrap_or(false) },
            norm: Norm::Rms,
            attention,
        })
    }

    fn head_size(&self, hidden: u64, heads: u64) -> Result<u64, Error> {
        if heads > 0 && hidden.is_multiple_of(heads) {
            return Ok(hidden / heads);
        }
        let message = format!("a hidden size of {hidden} cannot be cut into {heads} heads");
        Err(self.wrong("num_attention_heads", message))
    }

    fn has(&self, key: &str) -> bool {
        self.keys.get(key).is_some_and(|value| !value.is_null())
    }

    /// Whether `key` says yes, if it says anything.
    fn flag(&self, key: &str) -> Result<Option<bool>, Error> {
        match self.keys.get(key) {
            None | Some(Value::Null) => Ok(None),
            Some(Value::Bool(flag)) => Ok(Some(*flag)),
            Some(other) => Err(self.not("true or false", key, other)),
        }
    }

    fn not(&self, wanted: &str, key: &str, given: &Value) -> Error {
        let given: String = given.to_string().chars().take(40).collect();
        self.wrong(key, format!("{key} is {given}: it must be {wanted}"))
    }

    /// The first of `names` that there is, as a count.
    fn optional(&self, names: &[&str]) -> Result<Option<u64>, Error> {
        let Some(name) = names.iter().find(|name| self.has(name)) else { return Ok(None) };
        let given = &self.keys[*name];
        let wrong = || self.not("a whole number", name, given);
        given.as_u64().ok_or_else(wrong).map(Some)
    }

    fn required(&self, names: &[&str]) -> Result<u64, Error> {
        self.optional(names)?.ok_or_else(|| {
            let message = format!("there is no {}", names.join(" or "));
            let cure = "configs of llama, mistral, mixtral, qwen and gpt2 are read; other models \
                        can be given as a table [model]";
            self.wrong(names[0], message).with_help(cure)
        })
    }

    fn wrong(&self, key: &str, message: String) -> Error {
        let quoted = format!("\"{key}\"");
        let place = self.text.find(&quoted).map(|at| at..at + quoted.len());
        Error::scenario(self.path, self.text, place, message)
    }
}
