//! Files of the simulators SimuMax and Calculon: JSON of models, and of strategies or executions.
//!
//! Keys are those of SimuMax's `core/config.py` (May 2026) and Calculon's `llm/llm.py` (February 2024).

mod model;

use question::diagnostic::Diagnostic;
use question::quote;
use serde_json::Value;

use super::arguments::{Arguments, Wrong};
use super::assemble::{Notes, Parts, TOKENS};
use super::source::Source;
use super::table::SIMULATORS;
use super::{Given, Imported, models};
use planning::{SetupDocument, SizesDocument, TrainingDocument};

/// Tokens of a sample where a file does not say them.
const SEQUENCE: u64 = 4096;
/// Tokens of a batch, and devices, of a file that has a model alone.
const BATCH: u64 = 4 << 20;
const DEVICES: u64 = 64;
/// The vocabulary of the models of Calculon, whose files have none: that of the paper that they are from.
const VOCABULARY: u64 = 51_200;

/// Kinds of their files.
#[derive(Clone, Copy, PartialEq)]
enum Kind {
    ModelOfSimumax,
    ModelOfCalculon,
    Strategy,
    Execution,
    System,
}

fn kind(tree: &Value) -> Option<Kind> {
    let has = |keys: &[&str]| keys.iter().all(|key| tree.get(*key).is_some());
    match () {
        () if has(&["layer_num", "hidden_size", "head_num"]) => Some(Kind::ModelOfSimumax),
        () if has(&["hidden", "attn_heads", "num_blocks"]) => Some(Kind::ModelOfCalculon),
        () if has(&["tp_size", "pp_size", "micro_batch_num"]) => Some(Kind::Strategy),
        () if has(&["num_procs", "tensor_par", "pipeline_par"]) => Some(Kind::Execution),
        () if has(&["networks", "matrix"]) || has(&["accelerator", "networks"]) => {
            Some(Kind::System)
        }
        () => None,
    }
}

/// Whether `source` is one of their files.
pub(super) fn is_file(source: &Source<'_>) -> bool {
    kind(source.tree()).is_some()
}

/// The question of one of their files.
pub(super) fn of_file(source: &Source<'_>, given: &Given) -> Result<Imported, Diagnostic> {
    let arguments = arguments_of(source.tree());
    let base = source.given_model(given)?;
    let question = match kind(source.tree()) {
        Some(Kind::Strategy) => strategy(source, &arguments, given, base),
        Some(Kind::Execution) => execution(source, &arguments, given, base),
        Some(Kind::System) | None => {
            let why = "it is the system of a simulator, not a training run";
            let cure =
                "give the strategy or execution, and the nearest built-in machine with --machine";
            return Err(source.wrong(why).with_help(cure));
        }
        Some(of_model) => model_alone(source, &arguments, given, of_model),
    };
    question.map_err(|wrong| source.of_argument(&arguments, wrong))
}

/// The sizes of a tree that is a model of one of them.
pub(super) fn sizes(tree: &Value) -> Option<SizesDocument> {
    let arguments = arguments_of(tree);
    model::of_kind(&arguments, kind(tree)?).ok()
}

fn arguments_of(tree: &Value) -> Arguments {
    let arguments = Arguments::of_tree(tree);
    arguments.are_of(&SIMULATORS);
    arguments
}

fn needed(arguments: &Arguments, name: &str) -> Result<u64, Wrong> {
    let missing = || Wrong::missing(name, "a plan needs it: add it to the file");
    arguments.whole(name)?.ok_or_else(missing)
}

/// A question about a model, whose set-ups are searched.
fn model_alone(
    source: &Source<'_>,
    arguments: &Arguments,
    given: &Given,
    kind: Kind,
) -> Result<Imported, Wrong> {
    let mut notes = Notes::new();
    let model = self::model::of_kind(arguments, kind)?;
    let sequence = model.positions.unwrap_or(SEQUENCE);
    let batch = (BATCH / sequence.max(1)).max(1);
    let devices = given.devices.unwrap_or(DEVICES);
    notes.push(format!("the file has a model alone: set-ups are searched for a batch of {batch} samples of {sequence} tokens on {devices} devices"));
    if kind == Kind::ModelOfCalculon && given.vocabulary.is_none() {
        notes.push(format!(
            "the file has no vocabulary: {VOCABULARY} are taken; give yours with --vocabulary"
        ));
    }
    let parts = Parts {
        model,
        sequence,
        batch,
        tokens: given.tokens.unwrap_or(TOKENS),
        devices,
        ..Parts::default()
    };
    Ok(parts.imported(source.path, given, notes, arguments))
}

/// The model of a strategy: that which is given, or that which the name of the file begins with.
fn model_of(source: &Source<'_>, base: Option<SizesDocument>) -> Result<SizesDocument, Wrong> {
    let stem = source.path.file_stem().map(|stem| stem.to_string_lossy().into_owned());
    base.or_else(|| models::begins(&stem.unwrap_or_default())).ok_or_else(|| {
        let cure = format!("give the model with --model: its JSON, or {}", models::NAMES);
        Wrong::new("model", "the file has a set-up, but no model").hint(cure)
    })
}

fn one(word: &str) -> Option<Vec<String>> {
    Some(vec![word.to_owned()])
}

/// A strategy of SimuMax.
fn strategy(
    source: &Source<'_>,
    arguments: &Arguments,
    given: &Given,
    base: Option<SizesDocument>,
) -> Result<Imported, Wrong> {
    let mut notes = Notes::new();
    let model = model_of(source, base)?;
    let sequence = arguments.whole("seq-len")?.unwrap_or(SEQUENCE);
    let expert = arguments.degree("ep-size")?.filter(|_| model.experts.is_some());
    let of_experts = arguments.whole("etp-size")?.filter(|_| model.experts.is_some());
    let devices = given.devices.or(arguments.whole("world-size")?).unwrap_or(8);
    let (recompute, recompute_layers) = recompute(arguments, &mut notes)?;
    let setup = SetupDocument {
        expert,
        zero: Some(arguments.whole("zero-state")?.unwrap_or(1).min(3)),
        microbatch: Some(1),
        recompute,
        recompute_layers,
        ..SetupDocument::default()
    };
    let mut setup = arguments.fill("setup", &setup)?;
    setup.expert_tensor = of_experts.filter(|own| *own != setup.tensor.unwrap_or(1));
    let group = super::assemble::product([setup.tensor, setup.pipeline, setup.context]);
    let data = (devices / group.max(1)).max(1);
    let count = arguments.whole("micro-batch-num")?.unwrap_or(1).max(1);
    let batch = setup.microbatch.unwrap_or(1).saturating_mul(count).saturating_mul(data);
    let attention = arguments.has("use-math-sdp") || arguments.flag("use-flash-sdp") == Some(false);
    let is_tensor = setup.tensor.is_some();
    let training = TrainingDocument {
        sequence_parallel: arguments.flag("enable-sequence-parallel").filter(|_| is_tensor),
        overlap_transfers: arguments.flag("pp-comm-async").filter(|_| setup.pipeline.is_some()),
        ..TrainingDocument::default()
    };
    let parts = Parts {
        model,
        sequence,
        attention: attention.then(|| "core".to_owned()),
        batch,
        tokens: given.tokens.unwrap_or(TOKENS),
        framework: Some("megatron"),
        devices,
        training: arguments.fill("training", &training)?,
        setup: Some(setup),
        ..Parts::default()
    };
    Ok(parts.imported(source.path, given, notes, arguments))
}

/// The recomputation of a strategy of SimuMax.
fn recompute(
    arguments: &Arguments,
    notes: &mut Notes,
) -> Result<(Option<Vec<String>>, Option<u64>), Wrong> {
    let granularity = arguments.text("recompute-granularity")?;
    let layers = arguments.whole("recompute-layer-num")?;
    let modules = arguments.all("megatron-recompute-modules")?;
    let of_megatron = arguments.has("megatron-recompute");
    let parts = ["attn-recompute", "mla-rms-recompute", "mlp-recompute", "mlp-rms-recompute"]
        .map(|name| arguments.has(name));
    if !arguments.has("enable-recompute") {
        return Ok((None, None));
    }
    if of_megatron && !modules.is_empty() {
        return Ok((Some(modules), None));
    }
    Ok(match granularity.as_deref() {
        Some("full_block") => match layers {
            Some(0) => (None, None),
            layers => (one("full"), layers),
        },
        Some("selective_recompute") => {
            let names = ["core_attn", "mla_up_proj", "mlp", "layernorm"];
            let chosen = names.into_iter().zip(parts).filter(|(_, is)| *is);
            let chosen: Vec<String> = chosen
                .map(|(name, _)| name.to_owned())
                .filter(|name| name != "mla_up_proj")
                .collect();
            notes.push(format!(
                "selective_recompute: {} are recomputed in all layers, as Megatron-LM names them",
                chosen.join(", ")
            ));
            (Some(chosen).filter(|chosen| !chosen.is_empty()), None)
        }
        _ => (one("full"), None),
    })
}

/// An execution of Calculon.
fn execution(
    source: &Source<'_>,
    arguments: &Arguments,
    given: &Given,
    base: Option<SizesDocument>,
) -> Result<Imported, Wrong> {
    let notes = Notes::new();
    let model = model_of(source, base)?;
    let sequence = model.positions.unwrap_or(SEQUENCE);
    let kind = arguments.text("tensor-par-comm-type")?;
    let overlap = arguments.text("tensor-par-overlap")?;
    let recompute = match arguments.text("activation-recompute")?.as_deref() {
        Some("full") => one("full"),
        Some("attn_only") => one("core_attn"),
        _ => None,
    };
    let setup = SetupDocument {
        zero: Some(u64::from(arguments.has("optimizer-sharding"))),
        microbatch: Some(1),
        recompute,
        ..SetupDocument::default()
    };
    let setup = arguments.fill("setup", &setup)?;
    let training = TrainingDocument {
        sequence_parallel: setup.tensor.map(|_| kind.as_deref() == Some("rs_ag")),
        overlap_tensor: overlap.filter(|kind| kind != "none").map(|_| true),
        ..TrainingDocument::default()
    };
    let parts = Parts {
        model,
        sequence,
        // Calculon's attention writes its scores to memory.
        attention: Some("core".to_owned()),
        batch: needed(arguments, "batch-size")?,
        tokens: given.tokens.unwrap_or(TOKENS),
        framework: Some("megatron"),
        devices: given.devices.map_or_else(|| needed(arguments, "num-procs"), Ok)?,
        training: arguments.fill("training", &training)?,
        setup: Some(setup),
        ..Parts::default()
    };
    Ok(parts.imported(source.path, given, notes, arguments))
}

/// The machine that is built in of a name such as `h100_80g_nvl8.json` of a system, with why.
pub(super) fn machine(name: &str) -> Result<String, String> {
    let stem = name.rsplit(['/', '\\']).next().unwrap_or(name);
    super::assemble::machine_in(stem).ok_or_else(|| {
        format!(
            "{}: rates of a simulator's system are not read: name a built-in machine",
            quote::clip(name)
        )
    })
}
