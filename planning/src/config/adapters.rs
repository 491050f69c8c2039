//! `adapter_config.json`: the adapters that PEFT keeps beside their weights, of the model of a `config.json` in the same
//! folder.

use std::path::{Path, PathBuf};

use plan::{Adapters, Frozen, Targets};
use question::diagnostic::Diagnostic;
use question::{nearest, quote};
use serde_json::{Map, Value};

use super::File;

/// The model that has the adapters.
const CONFIG: &str = "config.json";

/// Adapters, and the model that has them.
pub(super) struct Own {
    /// The file of the model.
    pub(super) base: PathBuf,
    adapters: Adapters,
    /// The only layers with adapters, if they are named.
    only: Option<Vec<u64>>,
    /// What is left out, a sentence each.
    pub(super) assumed: Vec<String>,
}

impl Own {
    /// The weights of a model of `layers` layers that are not trained.
    pub(super) fn frozen(&self, layers: u64) -> Frozen {
        let has = |layer: &u64| self.only.as_ref().is_none_or(|only| only.contains(layer));
        let without = (0..layers).filter(|layer| !has(layer));
        let layers = without.map(|layer| layer..=layer).collect();
        Frozen { adapters: Some(self.adapters), layers, ..Frozen::default() }
    }
}

/// The adapters of `keys`, if they are those of an `adapter_config.json`.
pub(super) fn of(file: &File<'_>, keys: &Map<String, Value>) -> Result<Option<Own>, Diagnostic> {
    let Some(kind) = keys.get("peft_type") else { return Ok(None) };
    if kind.as_str() != Some("LORA") {
        let message =
            format!("peft_type is {}: only LORA is planned", quote::clip(&kind.to_string()));
        return Err(file.wrong("peft_type", message));
    }
    let is_set = |key: &&str| match keys.get(*key) {
        None | Some(Value::Null | Value::Bool(false)) => false,
        Some(Value::Array(all)) => !all.is_empty(),
        Some(Value::Object(all)) => !all.is_empty(),
        Some(_) => true,
    };
    let refused =
        ["modules_to_save", "rank_pattern", "target_parameters", "trainable_token_indices"];
    if let Some(key) = refused.iter().find(|key| is_set(key)) {
        let message = format!(
            "{key} trains weights in addition to adapters of one rank, which is not supported"
        );
        return Err(file.wrong(key, message));
    }
    let rank = keys.get("r").and_then(Value::as_u64);
    let rank = rank.ok_or_else(|| match keys.get("r") {
        Some(given) => file.not("a whole number", "r", given),
        None => file.wrong("peft_type", "r, the rank, is missing".to_owned()),
    })?;
    let adapters = Adapters { rank, targets: targets(file, keys)? };
    let dora =
        is_set(&"use_dora").then(|| "DoRA is planned as LoRA, without its magnitudes".to_owned());
    let base = file.path.parent().unwrap_or(Path::new("")).join(CONFIG);
    let only = layers(file, keys)?;
    Ok(Some(Own { base, adapters, only, assumed: dora.into_iter().collect() }))
}

fn targets(file: &File<'_>, keys: &Map<String, Value>) -> Result<Targets, Diagnostic> {
    const KEY: &str = "target_modules";
    let names: Vec<&str> = match keys.get(KEY) {
        Some(Value::String(name)) => vec![name],
        Some(Value::Array(all)) if !all.is_empty() && all.iter().all(Value::is_string) => {
            all.iter().filter_map(Value::as_str).collect()
        }
        Some(given) => return Err(file.not("a name, or a list of names", KEY, given)),
        None => return Err(file.wrong("peft_type", format!("{KEY} is missing"))),
    };
    let mut targets = Targets::default();
    for name in names {
        let own = name.rsplit('.').next().unwrap_or(name);
        let known = Targets::named(own).ok_or_else(|| {
            let near = nearest::question(own, Targets::names());
            let message =
                format!("{KEY} has {}, which is not a product of a layer{near}", quote::clip(name));
            file.wrong(KEY, message)
        })?;
        targets = targets.and(known);
    }
    Ok(targets)
}

/// The layers that `layers_to_transform` names: one, or a list.
fn layers(file: &File<'_>, keys: &Map<String, Value>) -> Result<Option<Vec<u64>>, Diagnostic> {
    const KEY: &str = "layers_to_transform";
    match keys.get(KEY) {
        None | Some(Value::Null) => Ok(None),
        Some(Value::Number(one)) if one.is_u64() => Ok(one.as_u64().map(|one| vec![one])),
        Some(Value::Array(all)) if all.iter().all(Value::is_u64) => {
            Ok(Some(all.iter().filter_map(Value::as_u64).collect()))
        }
        Some(given) => Err(file.not("the number of a layer, or a list of them", KEY, given)),
    }
}
