//! Recipes of Megatron-Bridge and NeMo: their objects have the names of Megatron-LM's arguments.

use question::diagnostic::Diagnostic;
use question::quote;
use serde_json::Value as Tree;

use super::super::arguments::Arguments;
use super::super::source::Source;
use super::super::{Given, Imported, adapters, models, of_megatron};
use super::tree::{UNREAD, line_of, plain};
use super::{Recipe, complete, devices_in, put};
use crate::SizesDocument;

/// Objects of a recipe whose fields are arguments, the later over the earlier: of Megatron-Bridge, then of NeMo, and
/// tables without objects.
const OBJECTS: [&str; 10] = [
    "/ddp",
    "/comm_overlap",
    "/train",
    "/model",
    "/trainer/strategy/ddp",
    "/trainer/strategy",
    "/trainer",
    "/model/config",
    "/peft",
    "",
];

/// Objects of which some fields are arguments, and none other changes a step.
const ASIDE: [&str; 8] = [
    "/tokenizer",
    "/dataset",
    "/optimizer",
    "/mixed_precision",
    "/data",
    "/optim/config",
    "/trainer/plugins",
    "/validation",
];

/// Names of recipes, and those of Megatron-LM.
const NAMES: [(&str, &str); 10] = [
    ("devices", "nproc-per-node"),
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

/// Beginnings of fields that no argument of Megatron-LM is, and that change no step; of those that do, defaults.
const SET_ASIDE: &str = "_ account-for- accelerator accumulate-grad allow- async- autocast \
                         bias-activation-fusion bucket-size callbacks check- ckpt- config-name barrier \
                         clone-scatter config-format cp-comm-type data-path default- do- drop-last \
                         fast-cache defer-npy lora- mamba-chunk-size memmap- min-loss-scale name \
                         num-dataset high-freq low-freq old-context persistent- pin-memory random-seed \
                         rank scatter-embedding skip-getting use-fused-weighted config-logger \
                         cuda-graph-warmup deallocate-pipeline-outputs deterministic distribute-saved \
                         enable- env-vars fp4-param fp8-param fp8-wgrad generation gradient-as-bucket \
                         grad- hf- init-model limit- log-every moe-hybridep-num num-sanity \
                         parallel-output params-dtype persist-layer-norm position-embedding-dim \
                         should-pad tp-comm-bootstrap tp-comm-overlap-cfg use-distributed-sampler \
                         use-te-rng use-tokenizer val-";

/// Those of them that are.
const KEPT: [&str; 3] = [
    "account-for-embedding-in-pipeline-split",
    "account-for-loss-in-pipeline-split",
    "grad-reduce-in-fp32",
];

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
    ASIDE.into_iter().for_each(|path| add(path, &mut arguments));
    arguments.inherit();
    let trains_adapters = adapters::of_peft(tree.get("peft"), &recipe.name, &mut arguments);
    let is_read = |path: &&str| !(trains_adapters && *path == "/peft");
    OBJECTS.into_iter().filter(is_read).for_each(|path| add(path, &mut arguments));
    if let Some(Tree::Array(callbacks)) = tree.pointer("/trainer/callbacks") {
        let is_overlap = |own: &&Tree| {
            own.get("class")
                .and_then(Tree::as_str)
                .is_some_and(|class| class.contains("CommOverlap"))
        };
        let overlaps = callbacks.iter().filter(is_overlap);
        overlaps.for_each(|own| flat(own, &mut arguments));
    }
    precision(tree, &mut arguments);
    layout(tree, &mut arguments);
    sharing(&mut arguments);
    for name in ["bf16", "use-distributed-optimizer"] {
        arguments.default_on(name);
    }
    let devices = devices_in(&recipe.name).filter(|_| !arguments.has("world-size"));
    if let Some(devices) = devices {
        arguments.set("world-size", Some(vec![devices.to_string()]));
    }
    arguments.is_dump = recipe.is_dump;
    if given.vocabulary.is_some() {
        arguments.set("vocab-size", None);
    }
    for (name, value) in &given.variables {
        arguments.set(&name.replace('_', "-"), Some(vec![value.clone()]));
    }
    let note = complete(recipe, &READ, ESSENTIAL, &mut arguments);
    let stem = source.path.file_stem().map(|stem| stem.to_string_lossy().into_owned());
    let base = base(tree, recipe).or_else(|| models::begins(&stem.unwrap_or_default()));
    if base.is_none() && given.model.is_none() && !arguments.has("hidden-size") {
        let name = tree.get("model").and_then(|model| word_in(model, 0));
        let name = name.unwrap_or_else(|| recipe.name.clone());
        let message = format!("the sizes of {} are not known", quote::clip(&name));
        let cure = format!("name a model of its sizes with --model, {}", models::NAMES);
        return Err(source.wrong(&message).with_help(cure));
    }
    if base.is_some() && !recipe.is_dump {
        // The sizes of a model that is known by its name are there; fields alter them.
        ["hidden-size", "num-attention-heads", "ffn-hidden-size"]
            .iter()
            .for_each(|name| arguments.set(name, None));
    }
    let mut imported = of_megatron(source, &arguments, given, base)?;
    imported.notes.extend(note.into_iter().chain(arguments.unread_values()));
    Ok(imported)
}

/// Sets the fields of an object under the names of Megatron-LM; empty ones do not unset those of others.
fn flat(object: &Tree, arguments: &mut Arguments) {
    for (name, value) in plain(object) {
        let dashed = name.replace('_', "-");
        let is_set_aside = SET_ASIDE.split_ascii_whitespace().any(|own| dashed.starts_with(own));
        let own =
            NAMES.iter().find(|(own, _)| *own == dashed).map_or(dashed.as_str(), |(_, name)| name);
        let is_kept =
            is_set_aside && !KEPT.contains(&own) || value.is_null() && arguments.is_set(own);
        if !is_kept {
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
    let is_named = has(&["bf16", "fp16", "fp8", "fp4", "mixed"]) || own.is_none_or(Tree::is_null);
    if !is_named || own.is_some_and(|own| own.get(UNREAD).is_some()) {
        arguments.set_unknown("fp8", own.and_then(line_of).unwrap_or_default(), true);
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

/// The first word among what an object was made of.
fn word_in(tree: &Tree, depth: usize) -> Option<String> {
    match tree {
        Tree::String(text) => Some(text.clone()),
        Tree::Object(fields) if depth <= 4 => word_in(fields.get("of")?, depth + 1),
        Tree::Array(parts) if depth <= 4 => parts.iter().find_map(|part| word_in(part, depth + 1)),
        _ => None,
    }
}

/// The model that a word among what an object was made of names.
fn named_in(tree: &Tree, depth: usize) -> Option<SizesDocument> {
    if depth > 4 {
        return None;
    }
    match tree {
        Tree::String(text) if text.len() < 100 => models::named(text),
        Tree::Object(fields) => {
            let class = fields.get("class").and_then(Tree::as_str).unwrap_or_default();
            let class = class.replace("Config", "").replace("ModelProvider", "");
            models::named(&class).or_else(|| named_in(fields.get("of")?, depth + 1))
        }
        Tree::Array(parts) => parts.iter().take(4).find_map(|part| named_in(part, depth + 1)),
        _ => None,
    }
}
