//! Recipes of Megatron-Bridge and NeMo: their objects have the names of Megatron-LM's arguments.

use question::diagnostic::Diagnostic;
use question::quote;
use serde_json::Value as Tree;

use super::super::arguments::Arguments;
use super::super::source::Source;
use super::super::{Given, Imported, adapters, models, of_megatron};
use super::reader::has;
use super::tree::{UNREAD, line_of, plain};
use super::{Recipe, complete, devices_in, put};

/// Objects of a recipe whose fields are arguments, the later over the earlier: of Megatron-Bridge, then of NeMo. Those of
/// tables without objects come last.
const OBJECTS: &str = "/ddp /comm_overlap /train /model /trainer/strategy/ddp /trainer/strategy /trainer /model/config /peft";
/// Objects of which some fields are arguments, and none other changes a step.
const ASIDE: &str = "/tokenizer /dataset /optimizer /mixed_precision /data /optim/config /trainer/plugins /validation";
/// Objects that say which set-up there is.
const READ: [&str; 8] = [
    "",
    "/model",
    "/train",
    "/ddp",
    "/comm_overlap",
    "/trainer",
    "/trainer/strategy",
    "/model/config",
];
/// Arguments of a set-up, which are named where they are not known.
const ESSENTIAL: &str = "tensor-model-parallel-size pipeline-model-parallel-size context-parallel-size \
                         expert-model-parallel-size virtual-pipeline-model-parallel-size micro-batch-size \
                         global-batch-size seq-length sequence-parallel recompute-granularity";
/// Names of recipes, and those of Megatron-LM.
const NAMES: &str = "devices=nproc-per-node num-moe-experts=num-experts gated-linear-unit=swiglu sequence-length=seq-length \
                     num-nodes=nnodes max-steps=train-iters num-gpus=world-size max-sequence-length=seq-length \
                     layernorm-zero-centered-gamma=apply-layernorm-1p multi-latent-attention-enabled=multi-latent-attention";
/// Fields that change no step.
const HARMLESS: &str = "accelerator accumulate-grad-batches cuda-graph-warmup-steps gradient-as-bucket-view \
                        limit-test-batches limit-val-batches tp-comm-bootstrap-backend val-check-interval";
/// Words of formats of products, with the recipe of FP8, the first that is in a name.
const FORMATS: &str = "mxfp8=mxfp8 fp8_mx=mxfp8 subchannel=blockwise blockwise=blockwise fp8_sc=blockwise fp8=tensorwise";
/// Layers of a layout by name, and their letters.
const LETTERS: &str = "embedding=E decoder=t mtp=m loss=L";

/// The first pair of a table whose name is as it is asked for.
fn of_table(table: &'static str, is: impl Fn(&str) -> bool) -> Option<&'static str> {
    let mut pairs = table.split_ascii_whitespace().filter_map(|pair| pair.split_once('='));
    pairs.find(|(name, _)| is(name)).map(|(_, value)| value)
}

/// The question of a recipe.
pub(super) fn question(
    source: &Source<'_>,
    recipe: &Recipe,
    given: &Given,
) -> Result<Imported, Diagnostic> {
    let tree = &recipe.tree;
    let mut arguments = Arguments::of_tree(&Tree::Null);
    let add = |path: &str, arguments: &mut Arguments| {
        tree.pointer(path).into_iter().for_each(|object| flat(object, arguments));
    };
    ASIDE.split_ascii_whitespace().for_each(|path| add(path, &mut arguments));
    arguments.inherit();
    let trains_adapters = adapters::of_peft(tree.get("peft"), &recipe.name, &mut arguments);
    let objects = OBJECTS.split_ascii_whitespace().chain([""]);
    let is_read = |path: &&str| !(trains_adapters && *path == "/peft");
    objects.filter(is_read).for_each(|path| add(path, &mut arguments));
    let callbacks = tree.pointer("/trainer/callbacks").and_then(Tree::as_array);
    let class = |own: &Tree| own.get("class").and_then(Tree::as_str).unwrap_or_default().to_owned();
    let overlaps = callbacks.into_iter().flatten().filter(|own| class(own).contains("CommOverlap"));
    overlaps.for_each(|own| flat(own, &mut arguments));
    precision(tree, &mut arguments);
    layout(tree, &mut arguments);
    sharing(&mut arguments);
    ["bf16", "use-distributed-optimizer"].iter().for_each(|name| arguments.default_on(name));
    let devices = devices_in(&recipe.name).filter(|_| !arguments.has("world-size"));
    let one = |word: String| Some(vec![word]);
    devices.into_iter().for_each(|devices| arguments.set("world-size", one(devices.to_string())));
    arguments.is_dump = recipe.is_dump;
    if given.vocabulary.is_some() {
        arguments.set("vocab-size", None);
    }
    for (name, value) in &given.variables {
        arguments.set(&name.replace('_', "-"), one(value.clone()));
    }
    let note = complete(recipe, &READ, ESSENTIAL, &mut arguments);
    let stem = source.path.file_stem().map(|stem| stem.to_string_lossy().into_owned());
    let mut words = Vec::new();
    words_in(tree.get("model").unwrap_or(&Tree::Null), 0, &mut words);
    words_in(tree.pointer("/model/config").unwrap_or(&Tree::Null), 0, &mut words);
    let base = words.iter().find_map(|word| models::named(word));
    let base = base.or_else(|| models::begins(&recipe.name));
    let base = base.or_else(|| models::begins(&stem.unwrap_or_default()));
    if base.is_none() && given.model.is_none() && !arguments.has("hidden-size") {
        let name = words.iter().find(|word| word.contains(['/', '-'])).unwrap_or(&recipe.name);
        let message = format!("the sizes of {} are not known", quote::clip(name));
        let cure = format!("name a model of its sizes with --model, {}", models::NAMES);
        return Err(source.wrong(&message).with_help(cure));
    }
    if base.is_some() && !recipe.is_dump {
        // The sizes of a model that is known by its name are there; fields alter them.
        let sizes = ["hidden-size", "num-attention-heads", "ffn-hidden-size"];
        sizes.iter().for_each(|name| arguments.set(name, None));
    }
    let mut imported = of_megatron(source, &arguments, given, base)?;
    imported.notes.extend(note.into_iter().chain(arguments.unread_values()));
    Ok(imported)
}

/// Sets the fields of an object under the names of Megatron-LM; empty ones do not unset those of others.
fn flat(object: &Tree, arguments: &mut Arguments) {
    for (name, value) in plain(object) {
        let dashed = name.replace('_', "-");
        let own = of_table(NAMES, |own| own == dashed).unwrap_or(&dashed);
        if !has(HARMLESS, own) && (!value.is_null() || !arguments.is_set(own)) {
            put(arguments, own, &words(own, value));
        }
    }
}

/// A list of one empty word, or dtypes of torch, as arguments have them.
fn words(name: &str, value: Tree) -> Tree {
    match value {
        value if line_of(&value).is_some() => value,
        Tree::Array(_) if name == "moe-layer-freq" => Tree::String(value.to_string()),
        Tree::String(text) => Tree::String(text.trim_start_matches("torch.").to_owned()),
        Tree::Array(parts) if parts.is_empty() => Tree::Null,
        value => value,
    }
}

/// The format of products, by the name of a function or of a choice.
fn precision(tree: &Tree, arguments: &mut Arguments) {
    let own = tree.get("mixed_precision").or_else(|| tree.pointer("/trainer/plugins"));
    let own = own.unwrap_or(&Tree::Null);
    let words = [Some(own), own.get("class"), own.pointer("/of/0")];
    let words: Vec<&str> = words.into_iter().flatten().filter_map(Tree::as_str).collect();
    let name = words.join(" ").to_lowercase();
    let one = |word: &str| Some(vec![word.to_owned()]);
    let named = ["bf16", "fp16", "fp8", "fp4", "mixed"];
    let is_named = named.iter().any(|word| name.contains(word)) || own.is_null();
    match of_table(FORMATS, |word| name.contains(word)) {
        _ if arguments.has("fp8") || arguments.has("fp4") => {}
        _ if !is_named || own.get(UNREAD).is_some() => {
            arguments.set_unknown("fp8", line_of(own).unwrap_or_default(), true);
        }
        _ if name.contains("nvfp4") => arguments.set("fp4", one("e2m1")),
        Some(recipe) => {
            arguments.set("fp8", one("hybrid"));
            if !arguments.has("fp8-recipe") {
                arguments.set("fp8-recipe", one(recipe));
            }
        }
        None => {}
    }
}

/// A layout that lists the layers of each chunk by name, as Megatron-LM writes it in letters.
fn layout(tree: &Tree, arguments: &mut Arguments) {
    let own = |path: &str| tree.pointer(&format!("{path}/pipeline_model_parallel_layout"));
    let Some(Tree::Array(chunks)) = own("/model").or_else(|| own("/trainer/strategy")) else {
        return;
    };
    let letter = |layer: &Tree| of_table(LETTERS, |own| layer.as_str() == Some(own));
    let chunk = |chunk: &Tree| chunk.as_array()?.iter().map(letter).collect::<Option<String>>();
    let text: Option<Vec<String>> = chunks.iter().map(chunk).collect();
    arguments.set("pipeline-model-parallel-layout", text.map(|text| vec![text.join("|")]));
}

/// Fields that say the opposite of an argument, or the same in another way.
fn sharing(arguments: &mut Arguments) {
    if let Some(is_shared) = arguments.flag("share-embeddings-and-output-weights") {
        let untied = (!is_shared).then(Vec::new);
        arguments.set("untie-embeddings-and-output-weights", untied);
    }
    if arguments.has("num-query-groups") {
        arguments.set("group-query-attention", Some(Vec::new()));
    }
    if arguments.flag("grad-reduce-in-fp32") == Some(false) {
        arguments.set("grad-reduce-in-bf16", Some(Vec::new()));
    }
    if arguments.has("tp-comm-overlap") && !arguments.has("sequence-parallel") {
        arguments.set("tp-comm-overlap", None);
    }
}

/// The words that an object was made of, and its class without its endings.
fn words_in(tree: &Tree, depth: usize, found: &mut Vec<String>) {
    match tree {
        Tree::String(text) if text.len() < 100 => found.push(text.clone()),
        Tree::Object(fields) if depth <= 4 => {
            let class = fields.get("class").and_then(Tree::as_str).unwrap_or_default();
            found.push(class.replace("Config", "").replace("ModelProvider", ""));
            fields.get("of").into_iter().for_each(|of| words_in(of, depth + 1, found));
        }
        Tree::Array(parts) if depth <= 4 => {
            parts.iter().take(4).for_each(|part| words_in(part, depth + 1, found));
        }
        _ => {}
    }
}
