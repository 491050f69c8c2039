//! Recipes in Python: of Megatron-Bridge, NeMo and torchtitan.

mod builtins;
mod calls;
mod expression;
mod megatron;
mod operators;
mod run;
mod syntax;
mod tokens;
mod values;

use std::rc::Rc;

use question::diagnostic::Diagnostic;
use question::quote;
use serde_json::Value as Tree;

use self::run::{Module, Run, Stop};
use self::values::Value;
use super::arguments::Arguments;
use super::assemble::machine_in;
use super::source::Source;
use super::{Given, Imported, adapters, models, torchtitan};

/// Words of which a recipe has one.
const WORDS: [&str; 9] = [
    "ConfigContainer",
    "run.Partial",
    "Trainer.Config",
    "TrainingConfig",
    "MegatronStrategy",
    "WorkloadBaseConfig",
    "model_parallel_size",
    "global_batch_size",
    "pretrain_config",
];

/// The recipe of pre-training in a file of NeMo.
const PRETRAIN: &str = "pretrain_recipe";

/// The most recipes that an error names.
const MOST_NAMED: usize = 12;

/// Whether `source` is a recipe.
pub(super) fn is_recipe(source: &Source<'_>) -> bool {
    let text = source.text;
    let has_line = |start: &str| text.starts_with(start) || text.contains(&format!("\n{start}"));
    let is_python = ["def ", "import ", "from ", "class "].into_iter().any(has_line);
    is_python && WORDS.iter().any(|word| text.contains(word))
}

/// A recipe: its name, and the object that it makes.
struct Recipe {
    name: String,
    tree: Tree,
}

/// The question of a recipe.
pub(super) fn of_recipe(source: &Source<'_>, given: &Given) -> Result<Imported, Diagnostic> {
    let run = Run::new(source);
    let main = run.main().map_err(|why| source.wrong(&why))?;
    let recipe = chosen(source, &run, &main, given)?;
    let mut given = given.clone();
    given.machine = given.machine.or_else(|| machine_in(&recipe.name));
    let mut imported = match is_torchtitan(&recipe.tree) {
        true => {
            given.devices = given.devices.or_else(|| devices_in(&recipe.name));
            of_torchtitan(source, &recipe, &given)?
        }
        false => megatron::question(source, &recipe, &given)?,
    };
    if recipe.name != PRETRAIN {
        imported.document.title = Some(recipe.name.clone());
    }
    let lacking = run.lacking.borrow();
    let of_recipes = lacking.iter().filter(|(name, _)| is_lacking(name, &recipe.tree));
    let names: Vec<String> = of_recipes
        .map(|(name, module)| match module.as_str() {
            "" => quote::clip(name),
            module => format!("{} of {}", quote::clip(name), quote::clip(module)),
        })
        .collect();
    if !names.is_empty() {
        let text = format!(
            "what these set is not known, since their files are not beside this one: {}",
            names.join(", ")
        );
        imported.notes.push(text);
    }
    if run.unknown_branches.get() {
        imported.notes.push("branches whose conditions only a run knows are left out".to_owned());
    }
    Ok(imported)
}

/// Whether a function that is not there is a recipe or a helper of one.
fn is_lacking(name: &str, tree: &Tree) -> bool {
    let is_class = name.starts_with(|c: char| c.is_ascii_uppercase());
    let made = ["", "/train", "/trainer", "/trainer/strategy", "/training", "/parallelism"];
    let begins = |class: &str| class.split('.').next() == Some(name);
    let class = |path: &&str| tree.pointer(path)?.get("class")?.as_str();
    let of_tree = made.iter().filter_map(class).any(begins);
    !is_class && (of_tree || name.ends_with("_config") || name.starts_with('_'))
}

/// The recipe that is asked for, or the only one.
fn chosen(
    source: &Source<'_>,
    run: &Run<'_>,
    main: &Rc<Module>,
    given: &Given,
) -> Result<Recipe, Diagnostic> {
    let long = || source.wrong("it takes too many steps to follow");
    let all = main.names_in_order();
    if let Some(name) = &given.recipe {
        let is_there = all.contains(name);
        let recipe = if is_there { made(run, main, name).map_err(|_| long())? } else { None };
        return recipe.ok_or_else(|| {
            let message = match is_there {
                true => format!("{} makes no configuration that is known", quote::clip(name)),
                false => format!("no recipe is called {}", quote::clip(name)),
            };
            source.wrong(&message).with_help(named(&all))
        });
    }
    let mut found = Vec::new();
    for name in all.iter().filter(|name| !name.starts_with('_')) {
        found.extend(made(run, main, name).map_err(|_| long())?);
    }
    // Recipes of pre-training, where there are others.
    let is_other = |recipe: &Recipe| {
        let name = recipe.name.to_lowercase();
        ["finetune", "sft", "peft", "lora"].iter().any(|word| name.contains(word))
    };
    if found.iter().filter(|recipe| !is_other(recipe)).count() == 1 {
        found.retain(|recipe| !is_other(recipe));
    }
    if found.iter().any(|recipe| recipe.name == PRETRAIN) {
        found.retain(|recipe| recipe.name == PRETRAIN);
    }
    let names: Vec<String> = found.iter().map(|recipe| recipe.name.clone()).collect();
    match (found.pop(), names.len()) {
        (Some(recipe), 1) => Ok(recipe),
        (None, _) => {
            let message = "no function in it makes a configuration of a training run that is known";
            Err(source.wrong(message).with_help("give the file of a recipe"))
        }
        (Some(_), count) => {
            Err(source.wrong(&format!("it has {count} recipes")).with_help(named(&names)))
        }
    }
}

/// How to name one of `names`.
fn named(names: &[String]) -> String {
    let some: Vec<String> = names.iter().take(MOST_NAMED).map(|name| quote::clip(name)).collect();
    let more = if names.len() > MOST_NAMED { " .." } else { "" };
    format!("name one with --recipe: {}{more}", some.join(", "))
}

/// The recipe `name` of `main`, if it is one.
fn made(run: &Run<'_>, main: &Rc<Module>, name: &str) -> Result<Option<Recipe>, ()> {
    let Some(value) = run.named(name, main) else { return Ok(None) };
    let value = match value {
        Value::Function(..) => match run.applied(&value, Vec::new(), Default::default()) {
            Ok(value) | Err(Stop::Return(value)) => value,
            Err(Stop::TooLong) => return Err(()),
        },
        value => value,
    };
    let Value::Table(_) = value else { return Ok(None) };
    let tree = value.tree();
    Ok(is_configuration(&tree).then(|| Recipe { name: name.to_owned(), tree }))
}

/// Whether an object is the configuration of a run.
fn is_configuration(tree: &Tree) -> bool {
    let has = |key: &str| has(tree, key);
    let of_bridge = has("model") && has("train");
    let of_nemo = has("model") && has("trainer");
    let of_table =
        has("tensor_model_parallel_size") && (has("global_batch_size") || has("num_gpus"));
    of_bridge || of_nemo || of_table || is_torchtitan(tree)
}

fn is_torchtitan(tree: &Tree) -> bool {
    has(tree, "model_spec") && (has(tree, "training") || has(tree, "parallelism"))
}

fn has(tree: &Tree, key: &str) -> bool {
    tree.get(key).is_some_and(|value| !value.is_null())
}

/// The devices that a name such as `.._1024gpu_h100_..` has.
fn devices_in(name: &str) -> Option<u64> {
    let lower = name.to_lowercase();
    let count =
        lower.split('_').find_map(|word| word.strip_suffix("gpu").or(word.strip_suffix("gpus")))?;
    count.parse().ok().filter(|count| *count > 0)
}

/// The question of a configuration of torchtitan's main branch.
fn of_torchtitan(
    source: &Source<'_>,
    recipe: &Recipe,
    given: &Given,
) -> Result<Imported, Diagnostic> {
    let tree = &recipe.tree;
    let mut arguments = Arguments::of_tree(&Tree::Null);
    for table in ["training", "parallelism", "compile"] {
        tree.get(table).into_iter().for_each(|own| arguments.add_tree(table, &plain(own)));
    }
    let spec = tree.get("model_spec").cloned().unwrap_or_default();
    let flavor = spec.pointer("/of/0").and_then(Tree::as_str).unwrap_or_default();
    let converters: Vec<String> = match spec.get("converters") {
        Some(Tree::Array(all)) => {
            all.iter().filter_map(|own| own.get("class")?.as_str().map(str::to_owned)).collect()
        }
        _ => Vec::new(),
    };
    let filtered = spec.pointer("/converters/0/filter_fqns").cloned().unwrap_or_default();
    arguments.add_tree("float8.filter-fqns", &filtered);
    arguments.set("model.converters", Some(converters));
    adapters::of_converters(spec.get("converters").unwrap_or(&Tree::Null), &mut arguments);
    let backend = spec.get("moe_comm_backend").and_then(Tree::as_str);
    let backend = backend.filter(|name| matches!(*name, "deepep" | "hybridep"));
    arguments
        .set("parallelism.expert-parallel-comm-backend", backend.map(|name| vec![name.to_owned()]));
    let checkpoint = tree.pointer("/activation_checkpoint/class").and_then(Tree::as_str);
    let mode = match checkpoint.unwrap_or_default() {
        class if class.starts_with("Full") => "full",
        class if class.starts_with("Selective") => "selective",
        class if class.starts_with("MemoryBudget") => "memory_budget",
        _ => "none",
    };
    arguments.set("activation-checkpoint.mode", Some(vec![mode.to_owned()]));
    arguments.set("activation-checkpoint.selective-ac-option", Some(vec!["op".to_owned()]));
    // The family is the folder of the registry, as models/llama3/config_registry.py.
    let family = source.path.parent().and_then(|folder| folder.file_name());
    let family = family.map(|name| name.to_string_lossy().into_owned()).unwrap_or_default();
    arguments.set("model.name", Some(vec![family.clone()]));
    arguments.set("model.flavor", Some(vec![flavor.to_owned()]));
    let is_named = models::named(&format!("{family}-{flavor}")).is_some();
    let base = if is_named { None } else { models::begins(&recipe.name) };
    torchtitan::of_arguments(source, &arguments, given, base)
}

/// The fields of an object, without how it was made.
fn plain(tree: &Tree) -> Tree {
    let mut tree = tree.clone();
    if let Tree::Object(fields) = &mut tree {
        ["class", "of"].into_iter().for_each(|key| drop(fields.remove(key)));
    }
    tree
}
