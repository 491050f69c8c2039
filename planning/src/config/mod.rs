//! A model from the `config.json` that Hugging Face keeps beside its weights.

mod adapters;
mod document;
mod experts;
mod families;
mod keys;
mod layers;
mod names;
mod parts;
mod size_errors;
mod sizes;
mod unsupported_keys;
mod vision;

use std::path::Path;

use plan::{Attention, Frozen, Sizes, Transformer};
use question::diagnostic::Diagnostic;
use question::host::Context;
use question::{python_json, quote};
use serde_json::{Map, Value};

use self::document::Unique;
use self::families::{Family, Mixing};
use self::names::shown;
pub use self::vision::Vision;

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
    /// The weights that its file says are not trained, if it is an `adapter_config.json`.
    pub frozen: Option<Frozen>,
    /// Its vision encoder, where that is asked for and there is one.
    pub vision: Option<Vision>,
}

/// What is asked of a config.
#[derive(Clone, Copy)]
pub struct Wanted {
    /// Tokens of the sequences trained on, if they are given: otherwise as many as the model is made for, at most 4096.
    pub sequence: Option<u64>,
    /// How attention is computed.
    pub attention: Attention,
    /// Whether the vision encoder is asked for, too.
    pub vision: bool,
}

/// Reads the model of `path`. Of an `adapter_config.json` it is that of the `config.json` beside it.
pub fn read(context: &Context<'_>, path: &Path, wanted: Wanted) -> Result<Model, Diagnostic> {
    let text = context.read_text(path, MAX_FILE)?;
    let file = File::new(path, &text);
    let keys = object(&file)?;
    let Some(own) = adapters::of(&file, &keys).map_err(Diagnostic::of_kind)? else {
        return of_keys(&file, keys, wanted);
    };
    let text = context.read_text(&own.base, MAX_FILE)?;
    let mut model = parse(&File::new(&own.base, &text), wanted)?;
    model.frozen = Some(own.frozen(model.transformer.layers));
    model.assumed.extend(own.assumed);
    Ok(model)
}

fn parse(file: &File, wanted: Wanted) -> Result<Model, Diagnostic> {
    of_keys(file, object(file)?, wanted)
}

/// The keys of a file.
fn object(file: &File) -> Result<Map<String, Value>, Diagnostic> {
    let File { path, text, .. } = *file;
    // Nesting beyond 128 levels is refused by the parser.
    let Unique(value) = serde_json::from_str(&python_json::as_json(text)).map_err(|error| {
        let place = place(text, error.line(), error.column());
        let wrong = match error.classify() {
            serde_json::error::Category::Data => error.to_string(),
            _ => format!("this is not JSON: {error}"),
        };
        Diagnostic::at(path, text, place, wrong)
    })?;
    match value {
        Value::Object(keys) => Ok(keys),
        _ => Err(Diagnostic::at(path, text, None, "a config is an object: { .. }".to_owned())),
    }
}

fn of_keys(file: &File, keys: Map<String, Value>, wanted: Wanted) -> Result<Model, Diagnostic> {
    let parts = parts::of(file, keys, wanted.vision)?;
    let model_type = match parts.keys.get("model_type") {
        None | Some(Value::Null) => "",
        Some(Value::String(name)) => name,
        Some(other) => return Err(file.not("a name", "model_type", other)),
    };
    let config = Config { file, keys: &parts.keys, model_type };
    let mut model = config.model(wanted.sequence, wanted.attention)?;
    model.assumed.extend(parts.left_out);
    if let Some(part) = parts.vision {
        model.vision = vision::of(file, &part)?;
    }
    Ok(model)
}

/// The byte at a line and column that a parser names, from 1.
fn place(text: &str, line: usize, column: usize) -> Option<std::ops::Range<usize>> {
    let before: usize = text.split_inclusive('\n').take(line.checked_sub(1)?).map(str::len).sum();
    let at = (before + column.saturating_sub(1)).min(text.len());
    text.is_char_boundary(at).then_some(at..at)
}

/// Where errors point to.
struct File<'a> {
    path: &'a Path,
    text: &'a str,
    /// The part that is read, where there is one.
    part: &'static str,
}

impl<'a> File<'a> {
    /// A file whose language model is read.
    fn new(path: &'a Path, text: &'a str) -> Self {
        Self { path, text, part: "text_config" }
    }
}

impl File<'_> {
    /// An error at the place of `key`.
    fn wrong(&self, key: &str, message: String) -> Diagnostic {
        let quoted = format!("\"{key}\"");
        let from = self.text.find(&format!("\"{}\"", self.part)).unwrap_or(0);
        let within = self.text[from..].find(&quoted).map(|at| at + from);
        let place = within.or_else(|| self.text.find(&quoted)).map(|at| at..at + quoted.len());
        Diagnostic::at(self.path, self.text, place, message).about(key)
    }

    fn not(&self, wanted: &str, key: &str, given: &Value) -> Diagnostic {
        let given = quote::clip(&given.to_string());
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
        let sizes = match (self.model_type, families::family(self.model_type)) {
            ("gpt2", _) => {
                self.check_keys(&[keys::GPT2_SIZES], taken, true)?;
                self.gpt2(taken, attention)?
            }
            (families::HYBRID, _) => {
                self.check_keys(&[keys::SIZES, keys::HYBRID, "layer_types"], taken, true)?;
                self.hybrid(taken, attention)?
            }
            (name, _) if families::MAMBA.contains(&name) => {
                self.check_keys(&[keys::SIZES, keys::MAMBA], taken, true)?;
                self.beside_mamba(taken, attention)?
            }
            (_, Some(family)) => self.known(family, taken, attention)?,
            (_, None) => self.known(
                &families::like_llama(self.model_type, self.named_experts()),
                taken,
                attention,
            )?,
        };
        if sequence.is_none() {
            assumed.push(format!("`sequence` is not given: samples have {taken} tokens"));
        }
        if !families::is_known(self.model_type) {
            self.is_like_llama()?;
            assumed.push(format!(
                "{} is not known: it is read as built like llama, with a gated MLP, RMS norms and \
                 no learned positions{}; a table [model] says otherwise",
                self.kind(),
                if sizes.experts.is_some() {
                    ", its experts by the names of their keys"
                } else {
                    ""
                },
            ));
        }
        assumed.extend(self.assumptions(&sizes));
        let transformer = Transformer::new(sizes).map_err(|error| self.size_error(&error))?;
        let rotary_base = self.rotary_base();
        Ok(Model { transformer, rotary_base, assumed, frozen: None, vision: None })
    }

    /// The assumptions about a model with these `sizes`, a sentence each.
    fn assumptions(&self, sizes: &Sizes) -> Vec<String> {
        let mut all = Vec::new();
        let family = families::family(self.model_type);
        for (key, value) in family.map_or(&[][..], |family| family.defaults) {
            if !self.has(key) {
                let kind = self.kind();
                all.push(format!("`{key}` is not given: {value}, as the class of {kind} takes"));
            }
        }
        if self.has("quantization_config") {
            let of = "`quantization_config` tells the format of the published weights";
            all.push(format!("{of}: a plan trains in the formats that [training] says"));
        }
        if sizes.mtp > 0 {
            let layers = if sizes.mtp == 1 { "layer" } else { "layers" };
            all.push(format!(
                "{} {layers} of multi-token prediction are trained with the model, and are not counted \
                 among its parameters",
                sizes.mtp,
            ));
        }
        let in_chunks = family.is_some_and(|family| matches!(family.mixing, Mixing::Chunks));
        if let Some(window) = sizes.window.filter(|_| in_chunks) {
            let same = "attention in chunks is planned as windows of as many tokens";
            all.push(format!("{same}: {window}"));
        }
        all
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

    /// A model of `family`, after every key was checked.
    fn known(
        &self,
        family: &Family,
        sequence: u64,
        attention: Attention,
    ) -> Result<Sizes, Diagnostic> {
        self.check_keys(&family.keys(), sequence, family.windows)?;
        let sizes = self.llama(family, sequence, attention)?;
        match family.explicit.iter().find(|key| !self.has(key)) {
            Some(key) => Err(self.missing(&[key])),
            None => Ok(sizes),
        }
    }

    /// Checks that a model of unknown kind has a gated MLP, judging by its activation.
    fn is_like_llama(&self) -> Result<(), Diagnostic> {
        if self.is_gated() {
            return Ok(());
        }
        let activation = self.keys.get("hidden_act").unwrap_or(&Value::Null);
        let given = quote::clip(&activation.to_string());
        let message = format!(
            "{} is not known, and with hidden_act {given} it is not built like llama",
            self.kind()
        );
        Err(self.file.wrong("hidden_act", message).with_help(self.cure()))
    }

    /// Whether the activation is one of gated MLPs.
    fn is_gated(&self) -> bool {
        let activation = self.keys.get("hidden_act").and_then(Value::as_str);
        matches!(activation, Some("silu" | "swish" | "swiglu"))
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
        self.agreed(names)?.ok_or_else(|| self.missing(names))
    }

    /// The same, where there is one.
    fn agreed(&self, names: &[&str]) -> Result<Option<u64>, Diagnostic> {
        let Some(first) = self.optional(names)? else { return Ok(None) };
        for name in names {
            if let Some(other) = self.optional(&[name])?.filter(|other| *other != first) {
                let names: Vec<&str> =
                    names.iter().copied().filter(|name| self.has(name)).collect();
                let message = format!("{} are {first} and {other}", names.join(" and "));
                return Err(self.file.wrong(name, message));
            }
        }
        Ok(Some(first))
    }

    fn missing(&self, names: &[&str]) -> Diagnostic {
        let message = format!("there is no {}", names.join(" or "));
        self.file.wrong(names[0], message).with_help(self.cure())
    }
}

#[cfg(test)]
mod tests;
