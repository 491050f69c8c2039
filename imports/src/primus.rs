//! Experiments of Primus: YAML with a module, presets of it and of its model that lie in other files, and overrides.
//!
//! Presets lie in `primus/configs/modules` and `primus/configs/models` by framework, each with `extends`; overrides stand
//! over the preset of the module, and that over the preset of the model, as in `core/launcher/parser.py` of
//! August 2026.

use std::path::Path;

use question::diagnostic::Diagnostic;
use question::quote;
use serde_json::{Map, Value};

use super::arguments::{Arguments, Wrong};
use super::assemble::machine_in;
use super::source::Source;
use super::table::MEGATRON;
use super::{Given, Imported, maxtext, models, of_megatron, torchtitan, yaml};
use planning::ModelDocument;
use planning::SizesDocument;

/// The most presets that extend each other in a row.
const MOST_EXTENDED: usize = 8;
/// Keys that name the presets which a preset extends.
const EXTENDS: [&str; 3] = ["extends", "bases", "includes"];
/// The preset of what all language models share.
const SHARED: &str = "language_model.yaml";
/// The machine of files that name none.
const MACHINE: &str = "mi300x";

/// Schedules of Primus' own pipeline, by its `pp_algorithm`.
const ALGORITHMS: [(&str, &str); 7] = [
    ("1f1b", "1f1b"),
    ("1f1b-interleaved", "1f1b-i"),
    ("zero-bubble", "zb-h1"),
    ("zero-bubble-heuristic", "zb-auto"),
    ("zbv-formatted", "zb-v"),
    ("v-half", "v-half"),
    ("v-min", "v-min"),
];

/// Whether `source` is an experiment: modules of which one names a framework.
pub(super) fn is_experiment(source: &Source<'_>) -> bool {
    module(source.tree()).is_some()
}

/// The module that is trained.
fn module(tree: &Value) -> Option<&Value> {
    let modules = tree.get("modules")?.as_object()?;
    let has = |module: &&Value| module.get("framework").is_some_and(Value::is_string);
    modules.get("pre_trainer").filter(has).or_else(|| modules.values().find(has))
}

/// The question of an experiment.
pub(super) fn of_experiment(source: &Source<'_>, given: &Given) -> Result<Imported, Diagnostic> {
    let module = module(source.tree()).cloned().unwrap_or_default();
    let module = resolved(&module, given).map_err(|variable| {
        let why = format!("only the environment knows {}", quote::clip(&variable));
        source.wrong(&why).with_help(format!("give it: --set {}=VALUE", quote::clip(&variable)))
    })?;
    let text = |key: &str| module.get(key).and_then(Value::as_str).unwrap_or_default();
    let framework = text("framework");
    let mut notes = Vec::new();
    let of_module = preset(source, ("modules", framework, text("config")), given)?;
    let of_model = preset(source, ("models", framework, text("model")), given)?;
    let base = match &of_model {
        Some(_) => None,
        None => Some(named(source, text("model"), &mut notes)?),
    };
    // Values that all language models share are not a choice of the author of one.
    let shared = preset(source, ("models", framework, SHARED), given)?;
    let mut shared = shared.unwrap_or_else(|| Value::Object(Map::new()));
    let of_model = of_model.map(|mut own| {
        own.as_object_mut()
            .into_iter()
            .for_each(|own| own.retain(|key, value| shared.get(key) != Some(value)));
        own
    });
    of_module.into_iter().for_each(|own| merge(&mut shared, own));
    let mut own = of_model.unwrap_or_else(|| Value::Object(Map::new()));
    merge(&mut own, module.get("overrides").cloned().unwrap_or_else(|| Value::Object(Map::new())));
    let mut given = given.clone();
    given.machine = given.machine.or_else(|| machine_in(&source.path.to_string_lossy()));
    if given.machine.is_none() {
        notes.push(format!("the machine is taken to be {MACHINE}: name yours with --machine"));
        given.machine = Some(MACHINE.to_owned());
    }
    let mut imported = match framework {
        "megatron" | "megatron_bridge" => {
            megatron(source, (&shared, &own), &given, base, &mut notes)?
        }
        "torchtitan" => torchtitan::of_arguments(source, &layered(&shared, &own), &given, base)?,
        "maxtext" => maxtext::of_arguments(source, &layered(&shared, &own), &given)?,
        other => {
            let why = format!("framework: {} is not read", quote::clip(other));
            let cure = "megatron, megatron_bridge, torchtitan and maxtext are";
            return Err(source.wrong(&why).with_help(cure));
        }
    };
    imported.notes.splice(0..0, notes);
    Ok(imported)
}

/// The keys of an experiment over those that it inherits.
fn layered(shared: &Value, own: &Value) -> Arguments {
    let mut arguments = Arguments::of_tree(shared);
    arguments.inherit();
    arguments.add_tree("", own);
    arguments
}

/// The question for Megatron-LM of the presets that models share, and of the rest.
fn megatron(
    source: &Source<'_>,
    (shared, own): (&Value, &Value),
    given: &Given,
    base: Option<SizesDocument>,
    notes: &mut Vec<String>,
) -> Result<Imported, Diagnostic> {
    let mut arguments = layered(shared, own);
    arguments.are_of(&MEGATRON);
    // Defaults of the presets, where these are not there.
    ["bf16", "use-distributed-optimizer", "overlap-grad-reduce", "sequence-parallel"]
        .into_iter()
        .for_each(|name| arguments.default_on(name));
    let wrong = |wrong| source.of_argument(&arguments, wrong);
    let schedule = schedule(&arguments, notes).map_err(wrong)?;
    let has_deepep = arguments.has("use-turbo-deepep");
    let flavor = arguments.text("flavor").map_err(wrong)?.unwrap_or_default();
    let path = arguments.text("hf-path").map_err(wrong)?.unwrap_or_default();
    let base = match base {
        None if !arguments.has("hidden-size") => {
            models::named(&path).or_else(|| models::begins(&flavor))
        }
        base => base,
    };
    let mut imported = of_megatron(source, &arguments, given, base)?;
    let document = &mut imported.document;
    let has_experts =
        matches!(&document.model, ModelDocument::Sizes(sizes) if sizes.experts.is_some());
    if has_deepep && has_experts && document.training.dispatcher.is_none() {
        document.training.dispatcher = Some("deepep".to_owned());
    }
    let stages = document.setup.as_ref().and_then(|setup| setup.pipeline);
    if let (Some(schedule), Some(setup), Some(_)) = (schedule, &mut document.setup, stages) {
        setup.schedule = Some(schedule.to_owned());
        if !schedule.starts_with("1f1b") {
            notes.push(format!(
                "{schedule} runs in Primus, not in Megatron-LM: framework is left out"
            ));
            document.framework = None;
        }
    }
    Ok(imported)
}

/// The schedule of Primus' own pipelines, where one is turned on.
fn schedule(arguments: &Arguments, notes: &mut Vec<String>) -> Result<Option<&'static str>, Wrong> {
    let algorithm = arguments.text("pp-algorithm")?;
    let stages = arguments.whole("pipeline-model-parallel-size")?.unwrap_or(1);
    let of_patch = super::megatron::of_zero_bubble(arguments, stages, notes)?;
    if arguments.has("patch-primus-pipeline") {
        let algorithm = algorithm.unwrap_or_else(|| "1f1b-interleaved".to_owned());
        let found = ALGORITHMS.iter().find(|(own, _)| *own == algorithm);
        return found.map(|(_, name)| Some(*name)).ok_or_else(|| {
            let message = format!("no schedule is known as {}", quote::clip(&algorithm));
            let all = ALGORITHMS.map(|(own, _)| own).join(", ");
            Wrong::new("pp-algorithm", message).hint(format!("write one of {all}"))
        });
    }
    let has_patch = arguments.has("patch-zero-bubble");
    Ok(has_patch.then_some(of_patch.unwrap_or("zb-auto")))
}

/// The sizes of the model that a preset which is not there is about.
fn named(
    source: &Source<'_>,
    preset: &str,
    notes: &mut Vec<String>,
) -> Result<SizesDocument, Diagnostic> {
    let stem = preset.trim_end_matches(".yaml").trim_end_matches("-fp8");
    let Some(sizes) = models::named(stem) else {
        let why = format!(
            "model: {} is not in the same folder, and no model has this name",
            quote::clip(preset)
        );
        let cure = "put the presets of Primus next to it as in its repository, or give --model";
        return Err(source.wrong(&why).with_help(cure));
    };
    notes.push(format!("{} is not next to the file: the sizes are those that the authors of the model publish, the rest is as Primus' presets have it by default", quote::clip(preset)));
    Ok(sizes)
}

/// The preset `file` of a framework, with those that it extends; it lies above the experiment as in the repository
/// of Primus, or beside it.
fn preset(
    source: &Source<'_>,
    (kind, framework, file): (&str, &str, &str),
    given: &Given,
) -> Result<Option<Value>, Diagnostic> {
    let is_name =
        !file.is_empty() && !file.contains(['/', '\\']) && !framework.contains(['/', '\\', '.']);
    if !is_name {
        return Ok(None);
    }
    let above = source.upwards(&format!("primus/configs/{kind}/{framework}/{file}"));
    let folder = above.as_deref().and_then(Path::parent);
    let folder = folder.or_else(|| source.path.parent()).unwrap_or(Path::new(""));
    extended(source, folder, file, given, 0)
}

/// The preset `file` in `folder`, over those that it extends.
fn extended(
    source: &Source<'_>,
    folder: &Path,
    file: &str,
    given: &Given,
    depth: usize,
) -> Result<Option<Value>, Diagnostic> {
    let Some(tree) = source.beside(folder, file)? else { return Ok(None) };
    let mut tree = resolved(&tree, given).unwrap_or(tree);
    if depth >= MOST_EXTENDED {
        return Err(source.wrong(&format!("{} extends too many presets", quote::clip(file))));
    }
    let own = tree.as_object_mut().map(|table| EXTENDS.map(|key| table.remove(key)));
    let own: Vec<Value> = own.into_iter().flatten().flatten().collect();
    let bases = own.iter().flat_map(names).take(MOST_EXTENDED);
    let mut merged = Value::Object(Map::new());
    for base in bases {
        let path = folder.join(base);
        let name = path.file_name().map(|name| name.to_string_lossy().into_owned());
        let below = path.parent().unwrap_or(folder);
        let base = extended(source, below, &name.unwrap_or_default(), given, depth + 1)?;
        base.into_iter().for_each(|base| merge(&mut merged, base));
    }
    merge(&mut merged, tree);
    Ok(Some(merged))
}

/// The names in a value that is one or a list of them.
fn names(value: &Value) -> Vec<&str> {
    match value {
        Value::String(one) => vec![one],
        Value::Array(all) => all.iter().filter_map(Value::as_str).collect(),
        _ => Vec::new(),
    }
}

/// Puts the keys of `over` over those of `under`, table by table.
fn merge(under: &mut Value, over: Value) {
    match (under, over) {
        (Value::Object(under), Value::Object(over)) => {
            for (key, value) in over {
                merge(under.entry(key).or_insert(Value::Null), value);
            }
        }
        (under, over) => *under = over,
    }
}

/// `value` with the variables of the environment in it, `${NAME}` or `${NAME:default}`, as the caller gives them.
fn resolved(value: &Value, given: &Given) -> Result<Value, String> {
    Ok(match value {
        Value::String(text) if text.contains("${") => {
            let text = expanded(text, given)?;
            yaml::plain(text.trim_matches(['"', '\'']))
        }
        Value::Array(parts) => {
            Value::Array(parts.iter().map(|part| resolved(part, given)).collect::<Result<_, _>>()?)
        }
        Value::Object(table) => {
            let part = |(key, value): (&String, &Value)| Ok((key.clone(), resolved(value, given)?));
            Value::Object(table.iter().map(part).collect::<Result<_, String>>()?)
        }
        other => other.clone(),
    })
}

fn expanded(text: &str, given: &Given) -> Result<String, String> {
    let mut out = String::new();
    let mut rest = text;
    while let Some((before, after)) = rest.split_once("${") {
        out += before;
        let Some((inner, behind)) = after.split_once('}') else {
            return Ok(out + "${" + after);
        };
        let (name, default) =
            inner.split_once(':').map_or((inner, None), |(name, default)| (name, Some(default)));
        let value = given.variables.get(name).map(String::as_str).or(default);
        out += value.ok_or_else(|| name.to_owned())?;
        rest = behind;
    }
    Ok(out + rest)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn variables_have_the_values_of_the_caller_or_their_defaults() {
        let variables = [("TP".to_owned(), "4".to_owned())].into();
        let given = Given { variables, ..Given::default() };
        let of = |text: &str| resolved(&Value::String(text.to_owned()), &given);
        assert_eq!(of("${TP:1}"), Ok(Value::from(4)));
        assert_eq!(of("${PP:2}"), Ok(Value::from(2)));
        assert_eq!(of("${MODEL:llama3_8B}.yaml"), Ok(Value::from("llama3_8B.yaml")));
        assert_eq!(of("${PATH_OF_DATA:null}"), Ok(Value::Null));
        assert_eq!(of("${NONE}"), Err("NONE".to_owned()));
        assert_eq!(of("${OPEN"), Ok(Value::from("${OPEN")));
    }
}
