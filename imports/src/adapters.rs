//! Adapters of low rank (LoRA) in recipes of Megatron-Bridge, NeMo and torchtitan.

use serde_json::Value as Tree;

use super::arguments::{Arguments, Wrong};
use super::assemble::Notes;
use planning::TrainingDocument;

/// The arguments that adapters become.
const RANK: &str = "lora-rank";
const MODULES: &str = "lora-modules";
/// Words about them, to be told.
const TOLD: &str = "lora-notes";
/// The rank of Megatron-Bridge and NeMo, unless a recipe sets it.
const RANK_OF_BRIDGE: u64 = 32;
/// The rank of torchtitan, unless a configuration sets it.
const RANK_OF_TORCHTITAN: u64 = 8;

/// Sets the adapters of `peft`, an object of Megatron-Bridge or NeMo; whether it is one that trains adapters. `name` is
/// that of the recipe.
pub(super) fn of_peft(peft: Option<&Tree>, name: &str, arguments: &mut Arguments) -> bool {
    let Some(peft @ Tree::Object(fields)) = peft else { return false };
    let words = [peft.get("class"), peft.pointer("/of/0")];
    let words: Vec<String> =
        words.into_iter().flatten().filter_map(Tree::as_str).map(str::to_lowercase).collect();
    let names_it = |text: &str| ["lora", "dora", "peft"].iter().any(|word| text.contains(word));
    let has_fields = fields.contains_key("target_modules") || fields.contains_key("dim");
    let is_own = words.iter().any(|word| names_it(word));
    let is_named = has_fields && names_it(&name.to_lowercase());
    if !(is_own || is_named) {
        return false;
    }
    let mut told = Vec::new();
    if words.iter().any(|word| word.contains("dora")) {
        told.push("DoRA is planned as LoRA of its rank, without its magnitudes".to_owned());
    }
    let rank = peft.get("dim").and_then(Tree::as_u64);
    if rank.is_none() {
        told.push(format!(
            "the rank of the adapters is not known: {RANK_OF_BRIDGE}, as by default"
        ));
    }
    set(arguments, rank.unwrap_or(RANK_OF_BRIDGE), modules(peft, &mut told), told);
    true
}

/// Sets the adapters of the converters of a model of torchtitan, if one of them makes any.
pub(super) fn of_converters(converters: &Tree, arguments: &mut Arguments) {
    let Tree::Array(all) = converters else { return };
    let is_own = |own: &&Tree| {
        let class = own.get("class").and_then(Tree::as_str);
        class.is_some_and(|class| class.contains("LoRA"))
    };
    let Some(own) = all.iter().find(is_own) else { return };
    let mut told = Vec::new();
    let mut names = modules(own, &mut told);
    if names.is_empty() {
        names.push("all-linear".to_owned());
        told.push("the adapter of the output layer is left out".to_owned());
    }
    let rank = own.get("rank").and_then(Tree::as_u64).unwrap_or(RANK_OF_TORCHTITAN);
    set(arguments, rank, names, told);
}

/// The products that have adapters, each once, by their own names.
fn modules(own: &Tree, told: &mut Vec<String>) -> Vec<String> {
    let Some(Tree::Array(all)) = own.get("target_modules") else { return Vec::new() };
    let mut names: Vec<String> = Vec::new();
    for path in all.iter().filter_map(Tree::as_str) {
        let name = path.rsplit('.').next().unwrap_or(path);
        if name != path && told.iter().all(|one| !one.starts_with("adapters")) {
            told.push(
                "adapters that a path restricts to some layers are planned in all".to_owned(),
            );
        }
        if !names.iter().any(|known| known == name) {
            names.push(name.to_owned());
        }
    }
    names
}

fn set(arguments: &mut Arguments, rank: u64, modules: Vec<String>, told: Vec<String>) {
    arguments.set(RANK, Some(vec![rank.to_string()]));
    arguments.set(MODULES, Some(modules).filter(|all| !all.is_empty()));
    arguments.set(TOLD, Some(told).filter(|all| !all.is_empty()));
}

/// `training` with the adapters of `arguments`, if there are any.
pub(super) fn with(
    arguments: &Arguments,
    notes: &mut Notes,
    training: TrainingDocument,
) -> Result<TrainingDocument, Wrong> {
    notes.extend(arguments.all(TOLD)?);
    let modules = arguments.all(MODULES)?;
    Ok(TrainingDocument {
        lora_rank: arguments.whole(RANK)?,
        lora_modules: Some(modules).filter(|all| !all.is_empty()),
        ..training
    })
}
