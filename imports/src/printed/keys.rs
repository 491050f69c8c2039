//! Printed configurations under the names that recipes have.

use serde_json::{Map, Value, json};

use crate::measured::line::without_colours;

/// Names of NeMo before version 2 that Megatron-LM calls otherwise.
const OF_NEMO: [(&str, &str); 7] = [
    ("encoder_seq_length", "seq_length"),
    ("activations_checkpoint_granularity", "recompute_granularity"),
    ("activations_checkpoint_method", "recompute_method"),
    ("activations_checkpoint_num_layers", "recompute_num_layers"),
    ("bias", "add_bias_linear"),
    ("ub_tp_comm_overlap", "tp_comm_overlap"),
    ("num_moe_experts", "num_experts"),
];
/// Settings of NeMo before version 2 that change a step, and that a plan does not know.
const UNPLANNED: [&str; 3] = [
    "fsdp",
    "activations_checkpoint_layers_per_pipeline",
    "num_micro_batches_with_partial_activation_checkpoints",
];
/// Enumerations whose members are printed as numbers, from 1.
const ENUMERATIONS: [(&str, &[&str]); 2] = [
    ("AttnBackend", &["flash", "fused", "unfused", "local", "auto"]),
    ("CudaGraphScope", &["full_iteration", "attn", "mlp", "moe", "moe_router", "moe_preprocess"]),
];

/// The keys of NeMo before version 2 as those of a recipe.
pub(super) fn of_nemo(tree: &Value) -> Result<Value, String> {
    let mut own = tree.clone();
    let model =
        tree.get("model").and_then(Value::as_object).ok_or("the configuration has no model")?;
    let known =
        |name: &&&str| model.get(**name).is_some_and(|own| !own.is_null() && *own != json!(false));
    if let Some(name) = UNPLANNED.iter().find(known) {
        return Err(format!("model.{name}: a plan does not know it"));
    }
    let word = |table: &str, key: &str| {
        let own = tree.pointer(&format!("/{table}/{key}")).and_then(Value::as_str);
        own.unwrap_or_default().to_lowercase()
    };
    let mut renamed = Map::new();
    for (name, value) in model {
        let own = OF_NEMO.iter().find(|(own, _)| own == name).map_or(name.as_str(), |(_, own)| own);
        renamed.insert(own.to_owned(), resolved(tree, value));
    }
    let mut set = |name: &str, value: Value| drop(renamed.insert(name.to_owned(), value));
    set("gated_linear_unit", word("model", "activation").ends_with("glu").into());
    if word("model", "normalization") == "rmsnorm" {
        set("normalization", "RMSNorm".into());
    }
    if word("model/tokenizer", "library") == "megatron" {
        set("tokenizer_type", tree.pointer("/model/tokenizer/type").cloned().unwrap_or_default());
    }
    let is_sharded = word("model/optim", "name").contains("distributed");
    set("use_distributed_optimizer", is_sharded.into());
    own["model"] = Value::Object(renamed);
    Ok(own)
}

/// A value in place of `${model.name}` or `${.name}`.
fn resolved(tree: &Value, value: &Value) -> Value {
    let name = || value.as_str()?.strip_prefix("${")?.strip_suffix('}');
    let Some(name) = name() else { return value.clone() };
    let path = match name.strip_prefix('.') {
        Some(name) => format!("/model/{name}"),
        None => format!("/{}", name.replace('.', "/")),
    };
    tree.pointer(&path).unwrap_or(value).clone()
}

/// The keys of Megatron-Bridge as those of a recipe: classes in place of targets, names in place of functions.
pub(super) fn of_bridge(tree: &Value) -> Value {
    let mut own = with_classes(tree);
    let inner =
        own.pointer_mut("/model/transformer").and_then(Value::as_object_mut).map(std::mem::take);
    if let Some((model, inner)) = own.get_mut("model").and_then(Value::as_object_mut).zip(inner) {
        model.extend(inner);
    }
    own
}

fn with_classes(tree: &Value) -> Value {
    match tree {
        Value::Array(parts) => parts.iter().map(with_classes).collect(),
        Value::Object(table) => {
            let target = table.get("_target_").and_then(Value::as_str);
            let last = target.map(|target| target.rsplit('.').next().unwrap_or_default());
            let member = table.get("_args_").and_then(|own| own.get(0));
            match (target, last, member) {
                (Some(target), _, None) if table.get("_call_") == Some(&json!(false)) => {
                    target.into()
                }
                (_, Some(last), Some(member)) if table.len() == 3 => {
                    let words =
                        ENUMERATIONS.iter().find(|(own, _)| *own == last).map(|(_, words)| *words);
                    let at =
                        member.as_u64().and_then(|at| usize::try_from(at.checked_sub(1)?).ok());
                    let word = at.zip(words).and_then(|(at, words)| words.get(at));
                    word.map_or_else(|| member.clone(), |word| (*word).into())
                }
                _ => {
                    let mut own: Map<String, Value> = table
                        .iter()
                        .map(|(name, value)| (name.clone(), with_classes(value)))
                        .collect();
                    own.remove("_target_");
                    own.extend(last.map(|last| ("class".to_owned(), last.into())));
                    Value::Object(own)
                }
            }
        }
        value => value.clone(),
    }
}

/// Words of converters of torchtitan, and their formats.
const CONVERTED: [(&str, &str); 5] = [
    ("to Float8Linear", "Float8"),
    ("use dynamic float8", "Float8"),
    ("to MXFP8Linear", "MX"),
    ("use dynamic mxfp8", "MX"),
    ("to NVFP4Linear", "NVFP4"),
];

/// The keys of torchtitan's main branch as those of a recipe. Classes are not printed: they follow from keys, and
/// formats from the lines `before` them.
pub(super) fn of_main(tree: &Value, before: &str) -> Result<Value, String> {
    let mut own = tree.clone();
    let has = |path: &str, key: &str| tree.pointer(path).is_some_and(|own| own.get(key).is_some());
    let checkpoint = "/activation_checkpoint";
    if let Some(table) = own.pointer_mut(checkpoint).and_then(Value::as_object_mut) {
        let class = match () {
            () if has(checkpoint, "memory_budget") => "MemoryBudget",
            () if table.keys().any(|key| key.contains("recompute")) => "Selective",
            () => "Full",
        };
        table.insert("class".to_owned(), class.into());
    }
    let since = before.rfind("torchtitan version: ").map(|at| &before[at..]);
    let since = since
        .ok_or("the log lacks the first lines of the run, which say whether products are in FP8")?;
    let said = CONVERTED.iter().filter(|(words, _)| since.contains(words));
    let found = said.map(|(_, class)| json!({ "class": class })).collect();
    own["model_spec"]["converters"] = Value::Array(found);
    if let Some(name) = dispatcher(&tree["model_spec"], 0) {
        own["model_spec"]["moe_comm_backend"] = name.into();
    }
    Ok(own)
}

/// How tokens go to experts, by the keys of the first dispatcher in `tree`.
fn dispatcher(tree: &Value, depth: usize) -> Option<&'static str> {
    let inner: Vec<&Value> = match tree {
        Value::Object(own) if own.contains_key("non_blocking_capacity_factor") => {
            return Some("hybridep");
        }
        Value::Object(own) if own.contains_key("cudagraphable") => return Some("deepep"),
        Value::Object(own) => own.values().collect(),
        Value::Array(parts) => parts.iter().collect(),
        _ => return None,
    };
    inner.into_iter().filter(|_| depth < 64).find_map(|own| dispatcher(own, depth + 1))
}

/// The devices of the mesh that torchtitan says it builds.
pub(super) fn mesh(text: &str) -> Option<u64> {
    let line = without_colours(text.lines().find(|line| line.contains("device mesh with"))?);
    let degrees: Vec<&str> = match line.split_once("device mesh with parallelism: ") {
        Some((_, all)) => {
            let own = all.split(", ").filter(|one| !one.starts_with('e'));
            own.filter_map(|one| Some(one.split_once('=')?.1)).collect()
        }
        None => line.rsplit_once('[')?.1.trim_end().trim_end_matches(']').split(", ").collect(),
    };
    let degrees = degrees.iter().map(|own| own.trim().parse::<u64>().ok());
    degrees.collect::<Option<Vec<_>>>().map(|all| all.into_iter().fold(1, u64::saturating_mul))
}
