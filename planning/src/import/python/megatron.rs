//! Recipes of Megatron-Bridge and NeMo: their objects have the names of Megatron-LM's arguments.

use question::diagnostic::Diagnostic;
use serde_json::Value as Tree;

use super::super::arguments::Arguments;
use super::super::source::Source;
use super::super::{Given, Imported, models, of_megatron};
use super::{Recipe, plain};
use crate::SizesDocument;

/// Objects of a recipe whose fields are arguments, the later over the earlier: of Megatron-Bridge, then of NeMo.
const OBJECTS: [&str; 18] = [
    "/tokenizer",
    "/dataset",
    "/optimizer",
    "/ddp",
    "/comm_overlap",
    "/mixed_precision",
    "/train",
    "/model",
    "/data",
    "/optim/config",
    "/model/config",
    "/trainer/strategy/ddp",
    "/trainer/plugins",
    "/trainer/strategy",
    "/trainer",
    "/peft",
    "/validation",
    "",
];

/// Names of recipes, and those of Megatron-LM.
const NAMES: [(&str, &str); 9] = [
    ("num-moe-experts", "num-experts"),
    ("gated-linear-unit", "swiglu"),
    ("sequence-length", "seq-length"),
    ("num-nodes", "nnodes"),
    ("max-steps", "train-iters"),
    ("num-gpus", "world-size"),
    ("layernorm-zero-centered-gamma", "apply-layernorm-1p"),
    ("multi-latent-attention-enabled", "multi-latent-attention"),
    ("max-sequence-length", "seq-length"),
];

/// Fields of objects that no argument of Megatron-LM is, and that change no step; of those that do, defaults.
const SET_ASIDE: [&str; 16] = [
    "blend",
    "split",
    "scaled-",
    "params-dtype",
    "autocast",
    "grad-reduce-in-fp32",
    "num-layers-at-",
    "fp8-param",
    "fp4-param",
    "init-model",
    "hf-",
    "deterministic",
    "generation",
    "limit-",
    "val-check",
    "val-",
];

/// The question of a recipe.
pub(super) fn question(
    source: &Source<'_>,
    recipe: &Recipe,
    given: &Given,
) -> Result<Imported, Diagnostic> {
    let tree = &recipe.tree;
    let mut arguments = Arguments::of_tree(&Tree::Null);
    for path in OBJECTS {
        let object = if path.is_empty() { Some(tree) } else { tree.pointer(path) };
        let fields = object.map(|object| flat(object, &arguments));
        fields.into_iter().for_each(|fields| arguments.add_tree("", &fields));
    }
    if let Some(Tree::Array(callbacks)) = tree.pointer("/trainer/callbacks") {
        let is_overlap = |own: &&Tree| {
            own.get("class")
                .and_then(Tree::as_str)
                .is_some_and(|class| class.contains("CommOverlap"))
        };
        let overlaps = callbacks.iter().filter(is_overlap);
        overlaps.for_each(|own| arguments.add_tree("", &flat(own, &Arguments::default())));
    }
    precision(tree, &mut arguments);
    layout(tree, &mut arguments);
    sharing(&mut arguments);
    for name in ["bf16", "use-distributed-optimizer"] {
        arguments.default_on(name);
    }
    let base = base(tree, recipe);
    if base.is_some() {
        // The sizes of a model that is known by its name are there; fields alter them.
        ["hidden-size", "num-attention-heads", "ffn-hidden-size"]
            .iter()
            .for_each(|name| arguments.set(name, None));
    }
    of_megatron(source, &arguments, given, base)
}

/// The plain fields of an object under the names of Megatron-LM; empty ones do not unset those of others.
fn flat(object: &Tree, before: &Arguments) -> Tree {
    let Tree::Object(fields) = plain(object) else { return Tree::Null };
    let is_plain = |value: &Tree| match value {
        Tree::Object(_) => false,
        Tree::Array(parts) => !parts.iter().any(Tree::is_object),
        _ => true,
    };
    let renamed =
        fields.into_iter().filter(|(_, value)| is_plain(value)).filter_map(|(name, value)| {
            let dashed = name.replace('_', "-");
            if SET_ASIDE.iter().any(|own| dashed.starts_with(own))
                && dashed != "grad-reduce-in-fp32"
            {
                return None;
            }
            let own = NAMES
                .iter()
                .find(|(own, _)| *own == dashed)
                .map_or(dashed.as_str(), |(_, name)| name);
            let is_kept = value.is_null() && before.has(own);
            (!is_kept).then(|| (own.to_owned(), words(own, value)))
        });
    Tree::Object(renamed.collect())
}

/// A list of one empty word, or dtypes of torch, as arguments have them.
fn words(name: &str, value: Tree) -> Tree {
    match value {
        Tree::Array(_) if name == "moe-layer-freq" => Tree::String(value.to_string()),
        Tree::String(text) => Tree::String(text.trim_start_matches("torch.").to_owned()),
        Tree::Array(parts) if parts.is_empty() => Tree::Null,
        value => value,
    }
}

/// The format of products, by the name of a function or of a choice.
fn precision(tree: &Tree, arguments: &mut Arguments) {
    let own = tree.get("mixed_precision").or_else(|| tree.pointer("/trainer/plugins"));
    let mut name = String::new();
    if let Some(own) = own {
        let words = [own.as_str(), own.get("class").and_then(Tree::as_str)];
        let of = own.pointer("/of/0").and_then(Tree::as_str);
        name = words.into_iter().chain([of]).flatten().collect::<Vec<_>>().join(" ").to_lowercase();
    }
    let one = |word: &str| Some(vec![word.to_owned()]);
    let has = |words: &[&str]| words.iter().any(|word| name.contains(word));
    if arguments.has("fp8") || arguments.has("fp4") {
        return;
    }
    let recipe = match () {
        () if has(&["nvfp4"]) => {
            arguments.set("fp4", one("e2m1"));
            return;
        }
        () if has(&["mxfp8", "fp8_mx"]) => "mxfp8",
        () if has(&["subchannel", "blockwise", "fp8_sc"]) => "blockwise",
        () if has(&["fp8"]) => "tensorwise",
        () => return,
    };
    arguments.set("fp8", one("hybrid"));
    if !arguments.has("fp8-recipe") {
        arguments.set("fp8-recipe", one(recipe));
    }
}

/// A layout that lists the layers of each chunk by name, as Megatron-LM writes it in letters.
fn layout(tree: &Tree, arguments: &mut Arguments) {
    let paths = [
        "/model/pipeline_model_parallel_layout",
        "/trainer/strategy/pipeline_model_parallel_layout",
    ];
    let Some(Tree::Array(chunks)) = paths.iter().find_map(|path| tree.pointer(path)) else {
        return;
    };
    let letter = |layer: &Tree| match layer.as_str() {
        Some("embedding") => Some('E'),
        Some("decoder") => Some('t'),
        Some("mtp") => Some('m'),
        Some("loss") => Some('L'),
        _ => None,
    };
    let chunk = |chunk: &Tree| chunk.as_array()?.iter().map(letter).collect::<Option<String>>();
    let text: Option<Vec<String>> = chunks.iter().map(chunk).collect();
    arguments.set("pipeline-model-parallel-layout", text.map(|text| vec![text.join("|")]));
}

/// Fields that say the opposite of an argument, or the same in another way.
fn sharing(arguments: &mut Arguments) {
    match arguments.flag("share-embeddings-and-output-weights") {
        Some(false) => arguments.set("untie-embeddings-and-output-weights", Some(Vec::new())),
        Some(true) => arguments.set("untie-embeddings-and-output-weights", None),
        None => {}
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

/// The model that the recipe names: by what its model is made of, or by its own name.
fn base(tree: &Tree, recipe: &Recipe) -> Option<SizesDocument> {
    let model = tree.get("model")?;
    let of_parts = |path: &str| {
        let mut parts = model;
        if !path.is_empty() {
            parts = model.pointer(path)?;
        }
        named_in(parts, 0)
    };
    let names = ["", "/config"].iter().find_map(|path| of_parts(path));
    names.or_else(|| models::begins(&recipe.name))
}

/// The model that a word among what an object was made of names.
fn named_in(tree: &Tree, depth: usize) -> Option<SizesDocument> {
    if depth > 4 {
        return None;
    }
    match tree {
        Tree::String(text) if text.len() < 100 => models::named(text),
        Tree::Object(fields) => fields.get("of").and_then(|of| named_in(of, depth + 1)),
        Tree::Array(parts) => parts.iter().take(4).find_map(|part| named_in(part, depth + 1)),
        _ => None,
    }
}
