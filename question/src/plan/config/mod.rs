//! A model from the `config.json` that Hugging Face keeps beside its weights.

mod document;
mod judge;
mod keys;
mod parts;

use std::path::Path;

use plan::{Attention, Biases, Experts, ModelError, Norm, Sizes, Transformer};
use serde_json::{Map, Value};

use self::document::Unique;
use self::keys::{AttentionBias, Family};
use crate::diagnostic::Diagnostic;
use crate::echo;
use crate::host::Context;

/// The largest config file: those of today have a few kilobytes.
const MAX_FILE: u64 = 1 << 20;
/// The longest samples where the question does not say; shorter where the model was made for less.
const SEQUENCE: u64 = 4096;

/// A model as it was read.
pub struct Model {
    /// The sizes of the model.
    pub transformer: Transformer,
    /// The base of the frequencies of rotary positions, if the config has it.
    pub rotary_base: Option<u64>,
    /// The assumptions that were made on the way, a sentence each.
    pub assumed: Vec<String>,
}

/// Reads the model of `path`, trained on sequences of `sequence` tokens, or as many as it was made
/// for.
pub fn read(
    context: &Context<'_>,
    path: &Path,
    sequence: Option<u64>,
    attention: Attention,
) -> Result<Model, Diagnostic> {
    let text = context.read_text(path, MAX_FILE)?;
    parse(&File { path, text: &text }, sequence, attention)
}

fn parse(file: &File, sequence: Option<u64>, attention: Attention) -> Result<Model, Diagnostic> {
    let File { path, text } = *file;
    // Nesting beyond 128 levels is refused by the parser.
    let Unique(value) = serde_json::from_str(text).map_err(|error| {
        let place = place(text, error.line(), error.column());
        let wrong = match error.classify() {
            serde_json::error::Category::Data => error.to_string(),
            _ => format!("this is no JSON: {error}"),
        };
        Diagnostic::at(path, text, place, wrong)
    })?;
    let Value::Object(keys) = value else {
        return Err(Diagnostic::at(path, text, None, "a config is an object: { .. }".to_owned()));
    };
    let parts = parts::of(file, keys)?;
    let model_type = match parts.keys.get("model_type") {
        None | Some(Value::Null) => "",
        Some(Value::String(name)) => name,
        Some(other) => return Err(file.not("a name", "model_type", other)),
    };
    let config = Config { file, keys: &parts.keys, model_type };
    let mut model = config.model(sequence, attention)?;
    model.assumed.extend(parts.left_out);
    Ok(model)
}

/// The byte at a line and column that a parser names, from 1.
fn place(text: &str, line: usize, column: usize) -> Option<std::ops::Range<usize>> {
    let before: usize = text.split_inclusive('\n').take(line.checked_sub(1)?).map(str::len).sum();
    let at = (before + column.saturating_sub(1)).min(text.len());
    text.is_char_boundary(at).then_some(at..at)
}

/// A name of a stranger's file in a message with many of them: no longer than names are.
fn shown(name: &str) -> String {
    echo::clip(&name.chars().take(40).collect::<String>())
}

/// Where errors point to.
struct File<'a> {
    path: &'a Path,
    text: &'a str,
}

impl File<'_> {
    /// An error at the place of `key`.
    fn wrong(&self, key: &str, message: String) -> Diagnostic {
        let quoted = format!("\"{key}\"");
        // Where there is a part for the text, that is what is read.
        let from = self.text.find("\"text_config\"").unwrap_or(0);
        let within = self.text[from..].find(&quoted).map(|at| at + from);
        let place = within.or_else(|| self.text.find(&quoted)).map(|at| at..at + quoted.len());
        Diagnostic::at(self.path, self.text, place, message).about(key)
    }

    fn not(&self, wanted: &str, key: &str, given: &Value) -> Diagnostic {
        let given = echo::clip(&given.to_string());
        self.wrong(key, format!("{key} is {given}: it must be {wanted}"))
    }
}

/// The part of a config that describes a language model.
struct Config<'a> {
    file: &'a File<'a>,
    keys: &'a Map<String, Value>,
    model_type: &'a str,
}

impl Config<'_> {
    fn model(&self, sequence: Option<u64>, attention: Attention) -> Result<Model, Diagnostic> {
        let mut assumed = Vec::new();
        let longest = ["max_position_embeddings", "n_positions", "n_ctx"];
        let longest = self.optional(&longest)?.unwrap_or(SEQUENCE);
        let taken = sequence.unwrap_or(longest.min(SEQUENCE));
        let sizes = match (self.model_type, keys::family(self.model_type)) {
            ("gpt2", _) => {
                self.judge(&[keys::GPT2_SIZES], taken, true)?;
                self.gpt2(taken, attention)?
            }
            (_, Some(family)) => self.known(family, taken, attention)?,
            (_, None) => self.known(keys::like_llama(), taken, attention)?,
        };
        if sequence.is_none() {
            assumed.push(format!("`sequence` is not given: samples have {taken} tokens"));
        }
        if self.model_type != "gpt2" && keys::family(self.model_type).is_none() {
            self.is_like_llama()?;
            assumed.push(format!(
                "{} is not known: it is read as built like llama, with a gated MLP, RMS norms and \
                 no learned positions; a table [model] says otherwise",
                self.kind(),
            ));
        }
        let transformer = Transformer::new(sizes).map_err(|error| self.impossible(&error))?;
        Ok(Model { transformer, rotary_base: self.rotary_base(), assumed })
    }

    /// The base of rotary positions, which changes nothing but what a plan is exported as.
    fn rotary_base(&self) -> Option<u64> {
        let nested = self.keys.get("rope_parameters").and_then(|all| all.get("rope_theta"));
        let base = self.keys.get("rope_theta").or(nested)?.as_f64()?;
        // Larger whole numbers are not exact.
        let is_whole = base.fract() == 0.0 && (1.0..=1e15).contains(&base);
        #[allow(clippy::cast_possible_truncation, clippy::cast_sign_loss)]
        is_whole.then_some(base as u64)
    }

    /// The kind of model in words.
    fn kind(&self) -> String {
        match self.model_type {
            "" => "a model without model_type".to_owned(),
            name => format!("the model_type `{}`", shown(name)),
        }
    }

    /// A model of `family`, after every key was judged.
    fn known(
        &self,
        family: &Family,
        sequence: u64,
        attention: Attention,
    ) -> Result<Sizes, Diagnostic> {
        let mut read = vec![keys::SIZES];
        if let AttentionBias::Key(key) = family.bias {
            read.push(key);
        }
        if family.mlp_bias {
            read.push("mlp_bias");
        }
        if let Some(width) = family.experts {
            read.extend(keys::EXPERTS);
            read.extend([keys::TOP_K, width]);
        }
        self.judge(&read, sequence, family.windows)?;
        let sizes = self.llama(family, sequence, attention)?;
        match family.explicit.iter().find(|key| !self.has(key)) {
            Some(key) => Err(self.missing(&[key])),
            None => Ok(sizes),
        }
    }

    /// Whether a model of unknown kind has an MLP with a gate, as far as its activation tells.
    fn is_like_llama(&self) -> Result<(), Diagnostic> {
        let activation = self.keys.get("hidden_act").unwrap_or(&Value::Null);
        match activation {
            Value::String(name) if matches!(name.as_str(), "silu" | "swish" | "swiglu") => Ok(()),
            other => {
                let given = echo::clip(&other.to_string());
                let message = format!(
                    "{} is not known, and with hidden_act {given} it is not built like llama",
                    self.kind()
                );
                Err(self.file.wrong("hidden_act", message).with_help(judge::cure()))
            }
        }
    }

    /// Keys as GPT-2 has them: everything has a bias, positions are learned, the head is tied.
    fn gpt2(&self, sequence: u64, attention: Attention) -> Result<Sizes, Diagnostic> {
        let hidden = self.required(&["n_embd"])?;
        let heads = self.required(&["n_head"])?;
        Ok(Sizes {
            layers: self.required(&["n_layer"])?,
            hidden,
            heads,
            kv_heads: heads,
            head_size: self.head_size("n_head", hidden, heads)?,
            ffn: self.optional(&["n_inner"])?.unwrap_or(hidden.saturating_mul(4)),
            gated: false,
            vocabulary: self.required(&["vocab_size"])?,
            sequence,
            positions: self.required(&["n_positions", "n_ctx"])?,
            experts: None,
            tied: self.flag("tie_word_embeddings")?.unwrap_or(true),
            biases: Biases { qkv: true, output: true, mlp: true },
            norm: Norm::Layer,
            qk_norm: false,
            attention,
            ..Sizes::default()
        })
    }

    /// Keys as Llama, Mistral, Mixtral, Qwen and those after them have: gated, rotary, RMS norms.
    fn llama(
        &self,
        family: &Family,
        sequence: u64,
        attention: Attention,
    ) -> Result<Sizes, Diagnostic> {
        let hidden = self.required(&["hidden_size"])?;
        let heads = self.required(&["num_attention_heads"])?;
        let experts = match family.experts {
            Some(_) => Some(Experts {
                count: self.alike(keys::EXPERTS)?,
                top_k: self.required(&[keys::TOP_K])?,
                shared: 0,
            }),
            None => None,
        };
        let [qkv, output] = match family.bias {
            AttentionBias::Never => [false, false],
            AttentionBias::Qkv => [true, false],
            AttentionBias::Key(key) => [self.flag(key)?.unwrap_or(false); 2],
        };
        let mlp = family.mlp_bias && self.flag("mlp_bias")?.unwrap_or(false);
        Ok(Sizes {
            layers: self.required(&["num_hidden_layers"])?,
            hidden,
            heads,
            kv_heads: self.optional(&["num_key_value_heads"])?.unwrap_or(heads),
            head_size: match self.optional(&["head_dim"])? {
                Some(size) => size,
                None => self.head_size("num_attention_heads", hidden, heads)?,
            },
            ffn: self.required(&[family.experts.unwrap_or("intermediate_size")])?,
            gated: true,
            vocabulary: self.required(&["vocab_size"])?,
            sequence,
            positions: 0,
            experts,
            tied: self.flag("tie_word_embeddings")?.unwrap_or(family.tied),
            biases: Biases { qkv, output, mlp },
            norm: Norm::Rms,
            qk_norm: family.qk_norm,
            attention,
            ..Sizes::default()
        })
    }

    fn head_size(&self, key: &str, hidden: u64, heads: u64) -> Result<u64, Diagnostic> {
        if heads > 0 && hidden.is_multiple_of(heads) {
            return Ok(hidden / heads);
        }
        let message = format!("a hidden size of {hidden} cannot be cut into {heads} heads");
        Err(self.file.wrong(key, message))
    }

    fn has(&self, key: &str) -> bool {
        self.keys.get(key).is_some_and(|value| !value.is_null())
    }

    /// Whether `key` says yes, if it says anything.
    fn flag(&self, key: &str) -> Result<Option<bool>, Diagnostic> {
        match self.keys.get(key) {
            None | Some(Value::Null) => Ok(None),
            Some(Value::Bool(flag)) => Ok(Some(*flag)),
            Some(other) => Err(self.file.not("true or false", key, other)),
        }
    }

    /// The first of `names` that there is, as a count.
    fn optional(&self, names: &[&str]) -> Result<Option<u64>, Diagnostic> {
        let Some(name) = names.iter().find(|name| self.has(name)) else { return Ok(None) };
        let given = &self.keys[*name];
        let wrong = || self.file.not("a whole number", name, given);
        given.as_u64().ok_or_else(wrong).map(Some)
    }

    fn required(&self, names: &[&str]) -> Result<u64, Diagnostic> {
        self.optional(names)?.ok_or_else(|| self.missing(names))
    }

    /// The value that all of `names` agree on.
    fn alike(&self, names: &[&str]) -> Result<u64, Diagnostic> {
        let first = self.required(names)?;
        for name in names {
            if let Some(other) = self.optional(&[name])?.filter(|other| *other != first) {
                let message = format!("{} are {first} and {other}", names.join(" and "));
                return Err(self.file.wrong(name, message));
            }
        }
        Ok(first)
    }

    fn missing(&self, names: &[&str]) -> Diagnostic {
        let cure = format!(
            "configs of {} are read; other models can be given as a table [model]",
            keys::families()
        );
        self.file.wrong(names[0], format!("there is no {}", names.join(" or "))).with_help(cure)
    }

    /// Sizes that no model has, by the key that says so.
    fn impossible(&self, error: &ModelError) -> Diagnostic {
        let keys: &[&str] = match error {
            ModelError::Size { what, .. } => match *what {
                "layers" => &["num_hidden_layers", "n_layer"],
                "hidden" => &["hidden_size", "n_embd"],
                "heads" => &["num_attention_heads", "n_head"],
                "kv-heads" => &["num_key_value_heads"],
                "head-size" => &["head_dim"],
                "ffn" => &["moe_intermediate_size", "intermediate_size", "n_inner"],
                "vocabulary" => &["vocab_size"],
                "positions" => &["n_positions", "n_ctx"],
                "experts" => keys::EXPERTS,
                "top-k" => &[keys::TOP_K],
                _ => &["max_position_embeddings", "n_positions", "n_ctx"],
            },
            ModelError::KvHeads { .. } | ModelError::LatentHeads { .. } => &["num_key_value_heads"],
            ModelError::Rotary { .. } => &["qk_rope_head_dim"],
            ModelError::Groups { what: "mamba-heads", .. } => &["mamba_num_heads"],
            ModelError::Groups { .. } => &["linear_num_value_heads"],
            ModelError::Positions { .. } => &["n_positions", "n_ctx"],
            ModelError::TopK { .. } => &[keys::TOP_K],
            ModelError::Parameters
            | ModelError::Kinds { .. }
            | ModelError::Missing { .. }
            | ModelError::Empty
            | ModelError::ManyKinds => &["num_hidden_layers", "n_layer"],
        };
        let key = keys.iter().find(|key| self.has(key)).unwrap_or(&keys[0]);
        let message = match error {
            ModelError::Size { value, most, .. } if self.has(key) => {
                format!("{key} is {value}: it must be from 1 to {most}")
            }
            other => other.to_string(),
        };
        self.file.wrong(key, message)
    }
}

#[cfg(test)]
mod tests;
