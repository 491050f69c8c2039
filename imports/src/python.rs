//! Recipes in Python: of Megatron-Bridge, NeMo and torchtitan. Nothing of them is run: literals are read, and a key
//! that anything else sets is not known. What Python itself writes of a recipe is read whole.

#[cfg(test)]
mod against_python;
mod expression;
mod megatron;
mod reader;
#[cfg(test)]
mod tests;
mod tokens;
mod tree;
mod unread;

use question::diagnostic::Diagnostic;
use question::quote;
use serde_json::{Map, Value as Tree};

use self::reader::{Names, Reader, Value};
use self::tokens::{Line, Token};
use self::tree::{LOST, UNREAD, line_of, plain};
use super::arguments::Arguments;
use super::assemble::machine_in;
use super::source::Source;
use super::{Given, Imported, adapters, models, torchtitan};

/// Words of which a recipe has one.
const WORDS: &str = "ConfigContainer run.Partial Trainer.Config TrainingConfig MegatronStrategy WorkloadBaseConfig \
                     model_parallel_size global_batch_size pretrain_config";
/// The recipe of pre-training in a file of NeMo.
const PRETRAIN: &str = "pretrain_recipe";
/// Words in names of recipes of other training.
const OTHERS: [&str; 4] = ["finetune", "sft", "peft", "lora"];
/// Keys of a set-up of torchtitan, which are named where they are not known.
const ESSENTIAL: &str = "parallelism.tensor-parallel-degree parallelism.pipeline-parallel-degree \
                         parallelism.context-parallel-degree parallelism.expert-parallel-degree \
                         training.num-tokens-per-microbatch-per-dp-rank training.max-context-length";
/// The most recipes that an error names.
const MOST_NAMED: usize = 12;
/// The key that a file of `python -m debubble.recipe` begins with.
const HEADER: &str = "debubble_recipe";
/// The deepest nesting of keys.
const MOST_DEEP: usize = 64;
/// The file that says all of a recipe.
pub(super) const DUMP: &str = "the log of a run, or what `python -m debubble.recipe MODULE:FUNCTION` writes where the \
                               framework is installed";

/// Whether `source` is a recipe.
pub(super) fn is_recipe(source: &Source<'_>) -> bool {
    let text = source.text;
    let has_line = |start: &str| text.starts_with(start) || text.contains(&format!("\n{start}"));
    let is_python = ["def ", "import ", "from ", "class "].into_iter().any(has_line);
    is_python && WORDS.split(' ').any(|word| text.contains(word))
}

/// A recipe: its name, and the object that it makes.
struct Recipe {
    name: String,
    tree: Tree,
    /// Whether a framework has written it, every key with the value that it really has.
    is_dump: bool,
}

/// The question of a recipe.
pub(super) fn of_recipe(source: &Source<'_>, given: &Given) -> Result<Imported, Diagnostic> {
    let lines = tokens::lines(source.text).map_err(|why| source.wrong(&why))?;
    question(source, &chosen(source, &lines, given)?, given)
}

/// The keys of the table `text`, a literal of Python or JSON, or the line of it that is not read.
pub(super) fn literal(text: &str) -> Result<Tree, String> {
    let lines = tokens::lines(text)?;
    let mut reader = Reader::new(&[], 0);
    let read =
        lines.first().and_then(|line| reader.read(&line.tokens)).filter(|_| lines.len() == 1);
    Ok(read.map(|value| reader.tree(&value, 0, &mut 0)).ok_or("it is not a table")?)
}

/// Gives `take` the keys of `tree` with dots between, each with its value, or the line where it is not read.
pub(super) fn leaves(tree: &Tree, prefix: &str, take: &mut impl FnMut(&str, Result<&Tree, u64>)) {
    match (
        tree,
        line_of(tree)
            .filter(|_| tree.get(UNREAD).or(tree.get("class")).is_some() || tree.is_array()),
    ) {
        (_, Some(line)) => take(prefix, Err(line)),
        (Tree::Object(table), None) => {
            for (key, value) in table {
                let dot = if prefix.is_empty() { "" } else { "." };
                leaves(value, &format!("{prefix}{dot}{}", key.replace('_', "-")), take);
            }
        }
        (value, None) => take(prefix, Ok(value)),
    }
}

/// The keys of `tree` as arguments.
pub(super) fn arguments(tree: &Tree) -> Arguments {
    let mut arguments = Arguments::of_tree(&Tree::Null);
    leaves(tree, "", &mut |name, value| match value {
        Ok(value) => arguments.add_tree(name, value),
        Err(line) => arguments.set_unknown(name, line, true),
    });
    arguments
}

/// Whether `source` is a file that `python -m debubble.recipe` writes.
pub(super) fn is_dump(source: &Source<'_>) -> bool {
    source.text.trim_start().starts_with('{') && source.tree().get(HEADER).is_some()
}

/// The question of one, whose keys have dots between.
pub(super) fn of_dump(source: &Source<'_>, given: &Given) -> Result<Imported, Diagnostic> {
    let mut tree = Tree::Object(Map::new());
    for (name, value) in source.tree().get("keys").and_then(Tree::as_object).into_iter().flatten() {
        let mut place = Some(&mut tree);
        for part in name.split('.').take(MOST_DEEP) {
            let table = place.and_then(Tree::as_object_mut);
            place = table.map(|own| own.entry(part).or_insert_with(|| Tree::Object(Map::new())));
        }
        *place.ok_or_else(|| source.wrong(&format!("{name}: it is two values")))? = value.clone();
    }
    let name = source.tree().pointer("/debubble_recipe/function").and_then(Tree::as_str);
    of_keys(source, (name.unwrap_or_default(), tree), given)
}

/// The question of a name and keys, every one of a run with the value that it has.
pub(super) fn of_keys(
    source: &Source<'_>,
    (name, tree): (&str, Tree),
    given: &Given,
) -> Result<Imported, Diagnostic> {
    let recipe = Recipe { name: name.to_owned(), tree, is_dump: true };
    match is_configuration(&recipe.tree) {
        true => question(source, &recipe, given),
        false => Err(source.wrong("it is not a configuration of a training run that is known")),
    }
}

fn question(source: &Source<'_>, recipe: &Recipe, given: &Given) -> Result<Imported, Diagnostic> {
    let mut given = given.clone();
    given.machine = given.machine.or_else(|| machine_in(&recipe.name));
    let mut imported = match is_torchtitan(&recipe.tree) {
        true => of_torchtitan(source, recipe, &mut given)?,
        false => megatron::question(source, recipe, &given)?,
    };
    if recipe.name != PRETRAIN && !recipe.name.is_empty() {
        imported.document.title = Some(recipe.name.clone());
    }
    Ok(imported)
}

/// Takes the keys `names` that are not set as not known, where a line that is not read may have set them; a note on
/// those of a function that is not read.
fn complete(
    recipe: &Recipe,
    paths: &[&str],
    names: &str,
    arguments: &mut Arguments,
) -> Option<String> {
    let paths = paths.iter().filter(|_| !recipe.is_dump);
    let objects: Vec<&Tree> = paths.filter_map(|path| recipe.tree.pointer(path)).collect();
    let class =
        |own: &&Tree| own.get("class")?.as_str().filter(|own| is_function(own)).map(quote::clip);
    let line = |own: &&Tree| {
        // A function with arguments sets other keys by them.
        let is_made_of = class(own).is_some() && own.pointer("/of/0").is_some();
        let lost = own.get(UNREAD).or(own.get(LOST)).and_then(Tree::as_u64);
        lost.or_else(|| line_of(own).filter(|_| is_made_of))
    };
    let mut taken = Vec::new();
    let lost = objects.iter().find_map(line);
    for name in names.split_ascii_whitespace() {
        match lost {
            _ if arguments.is_set(name) => {}
            Some(line) => arguments.set_unknown(name, line, true),
            None => taken.push(arguments.written(name)),
        }
    }
    let taken = if taken.is_empty() { "none of the set-up".to_owned() } else { taken.join(", ") };
    let bases: Vec<String> = objects.iter().filter_map(class).collect();
    let bases = Some(bases.join(", ")).filter(|bases| !bases.is_empty())?;
    Some(format!(
        "what {bases} sets is not known: keys that the recipe does not set have their defaults: {taken}"
    ))
}

/// Whether a call by this name is that of a function, not of a class.
fn is_function(name: &str) -> bool {
    let last = name.rsplit('.').next().unwrap_or_default();
    let is_word = last.starts_with(|c: char| c.is_ascii_lowercase() || c == '_');
    is_word && last != "function" && !name.contains("from_hf")
}

/// Sets argument `name`, or takes it as not known.
fn put(arguments: &mut Arguments, name: &str, value: &Tree) {
    match line_of(value) {
        Some(line) => arguments.set_unknown(name, line, value.get(UNREAD).is_some()),
        None => arguments.add_tree(name, value),
    }
}

/// The recipe that is asked for, or the only one of pre-training.
fn chosen(source: &Source<'_>, lines: &[Line], given: &Given) -> Result<Recipe, Diagnostic> {
    let name = |line: &Line| match line.tokens.as_slice() {
        [Token::Name(word), Token::Name(name), ..] if word == "def" => Some(name.clone()),
        [Token::Name(name), Token::Mark("="), ..] => Some(name.clone()),
        _ => None,
    };
    let all: Vec<String> = lines.iter().filter_map(name).collect();
    let asked = given.recipe.as_ref();
    let is_asked = |name: &&String| asked.map_or(!name.starts_with('_'), |own| own == *name);
    let (mut found, mut steps, mut unread) = (Vec::new(), 0, None);
    for name in all.iter().filter(is_asked) {
        let mut reader = Reader::new(lines, steps);
        let made = match reader.frames[0].get(name).cloned() {
            Some(Value::Function(at)) => reader.follow(at, Vec::new(), Names::new()),
            made => made.unwrap_or(Value::Plain(Tree::Null)),
        };
        if reader.is_long() {
            let help = format!("name a recipe with --recipe, or give {DUMP}");
            return Err(source.wrong("it takes too long to read").with_help(help));
        }
        steps = reader.steps;
        let tree = reader.tree(&made, 0, &mut 0);
        let is_of_call = tree.get("class").and_then(Tree::as_str).is_some_and(is_function);
        if is_configuration(&tree) {
            found.push(Recipe { name: name.clone(), tree, is_dump: false });
        } else if unread.is_none() && (is_of_call || tree.get(UNREAD).is_some()) {
            unread = line_of(&tree).map(|line| (name, line));
        }
    }
    let has = |recipe: &Recipe, word: &str| recipe.name.to_lowercase().contains(word);
    let is_other = |recipe: &Recipe| OTHERS.iter().any(|word| has(recipe, word));
    if found.iter().filter(|recipe| !is_other(recipe)).count() == 1 {
        found.retain(|recipe| !is_other(recipe));
    }
    if found.iter().any(|recipe| recipe.name == PRETRAIN) {
        found.retain(|recipe| recipe.name == PRETRAIN);
    }
    let message = match (found.len(), asked.filter(|asked| !all.contains(asked)), unread) {
        (1, ..) => String::new(),
        (2.., ..) => format!("it has {} recipes", found.len()),
        (_, Some(asked), _) => format!("no recipe is called {}", quote::clip(asked)),
        (_, None, Some((name, line))) => {
            let name = quote::clip(name);
            format!("{name}: what it makes is not known: line {line} is not read")
        }
        _ => "no function in it makes a configuration of a training run that is known".to_owned(),
    };
    let names = found.iter().map(|recipe| &recipe.name);
    let names: Vec<&String> = if found.is_empty() { all.iter().collect() } else { names.collect() };
    let more = if names.len() > MOST_NAMED { " .." } else { "" };
    let some: Vec<String> = names.iter().take(MOST_NAMED).map(|name| quote::clip(name)).collect();
    let help = match unread.filter(|_| found.is_empty()) {
        Some(_) => format!("give {DUMP}"),
        None => format!("name one with --recipe: {}{more}", some.join(", ")),
    };
    let one = found.pop().filter(|_| message.is_empty());
    one.ok_or_else(|| source.wrong(&message).with_help(help))
}

/// Whether an object is the configuration of a run: of Megatron-Bridge, NeMo, a table, or torchtitan.
fn is_configuration(tree: &Tree) -> bool {
    let has = |key: &str| has(tree, key);
    has("model") && (has("train") || has("trainer"))
        || has("tensor_model_parallel_size") && (has("global_batch_size") || has("num_gpus"))
        || is_torchtitan(tree)
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
    given: &mut Given,
) -> Result<Imported, Diagnostic> {
    given.devices = given.devices.or_else(|| devices_in(&recipe.name));
    let tree = &recipe.tree;
    let mut arguments = Arguments::of_tree(&Tree::Null);
    for table in ["training", "parallelism", "compile"] {
        for (name, value) in tree.get(table).map(plain).unwrap_or_default() {
            put(&mut arguments, &format!("{table}.{}", name.replace('_', "-")), &value);
        }
    }
    let of_spec = |path: &str| tree.pointer(&format!("/model_spec{path}"));
    let spec = of_spec("").unwrap_or(&Tree::Null);
    let flavor = of_spec("/flavor").or(of_spec("/of/0")).unwrap_or(&Tree::Null);
    let made = of_spec("/converters").unwrap_or(&Tree::Null);
    let mut classes = Vec::new();
    // The model of a dump has its layers already converted.
    classes_in(if recipe.is_dump { spec } else { made }, 0, &mut classes);
    arguments.set("model.converters", Some(classes));
    let filtered = made.pointer("/0/filter_fqns").unwrap_or(&Tree::Null);
    put(&mut arguments, "float8.filter-fqns", filtered);
    adapters::of_converters(made, &mut arguments);
    let mut parts = made.as_array().into_iter().flatten().chain([made, spec]);
    let unread = parts.find_map(|own| own.get(UNREAD).or(own.get(LOST))?.as_u64());
    unread.into_iter().for_each(|line| arguments.set_unknown("model.converters", line, true));
    let backend = of_spec("/moe_comm_backend").unwrap_or(&Tree::Null);
    let is_default = backend.as_str().is_some_and(|name| !matches!(name, "deepep" | "hybridep"));
    let backend = if is_default { &Tree::Null } else { backend };
    put(&mut arguments, "parallelism.expert-parallel-comm-backend", backend);
    let checkpoint = tree.get("activation_checkpoint").unwrap_or(&Tree::Null);
    let mode = match checkpoint.get("class").and_then(Tree::as_str).unwrap_or_default() {
        class if class.starts_with("Full") => "full".into(),
        class if class.starts_with("Selective") => "selective".into(),
        class if class.starts_with("MemoryBudget") => "memory_budget".into(),
        _ if checkpoint.is_null() => "none".into(),
        _ => checkpoint.clone(),
    };
    put(&mut arguments, "activation-checkpoint.mode", &mode);
    // The family is the folder of the registry, as models/llama3/config_registry.py.
    let folder = source.path.parent().and_then(|folder| folder.file_name());
    let folder = folder.map(|name| name.to_string_lossy().into_owned()).unwrap_or_default();
    let family = of_spec("/name").and_then(Tree::as_str).map_or(folder, str::to_owned);
    let base = format!("{family}-{}", flavor.as_str().unwrap_or_default());
    let base = if models::named(&base).is_some() { None } else { models::begins(&recipe.name) };
    put(&mut arguments, "model.flavor", flavor);
    let one = |value: &str| Some(vec![value.to_owned()]);
    arguments.set("activation-checkpoint.selective-ac-option", one("op"));
    arguments.set("model.name", one(&family));
    given.variables.iter().for_each(|(name, value)| arguments.set(name, one(value)));
    let note = complete(recipe, &["", "/training", "/parallelism"], ESSENTIAL, &mut arguments);
    let mut imported = torchtitan::of_arguments(source, &arguments, given, base)?;
    imported.notes.extend(note.into_iter().chain(arguments.unread_values()));
    Ok(imported)
}

fn classes_in(tree: &Tree, depth: usize, found: &mut Vec<String>) {
    found.extend(tree.get("class").and_then(Tree::as_str).map(str::to_owned));
    let fields = tree.as_object().into_iter().flat_map(Map::values);
    let parts = tree.as_array().into_iter().flatten().chain(fields);
    parts.filter(|_| depth < 64).for_each(|own| classes_in(own, depth + 1, found));
}
