//! Files of the simulators SimuMax and Calculon: JSON of models, and of strategies or executions.
//!
//! Keys are those of SimuMax's `core/config.py` (May 2026) and Calculon's `llm/llm.py` (February 2024).

mod model;

use question::diagnostic::Diagnostic;
use question::quote;
use serde_json::Value;

use super::arguments::{Arguments, Wrong};
use super::assemble::{Notes, Parts};
use super::source::Source;
use super::{Given, Imported, models};
use crate::{SetupDocument, SizesDocument, TrainingDocument};

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
    let arguments = Arguments::of_tree(source.tree());
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
    let arguments = Arguments::of_tree(tree);
    model::of_kind(&arguments, kind(tree)?).ok()
}

fn needed(arguments: &Arguments, name: &str) -> Result<u64, Wrong> {
    arguments.whole(name)?.ok_or_else(|| Wrong {
        name: name.to_owned(),
        message: "it is missing".to_owned(),
        cure: Some("a plan needs it: add it to the file".to_owned()),
    })
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
        attention: None,
        batch,
        tokens: given.tokens.unwrap_or(1e12),
        framework: None,
        machine: None,
        devices,
        setup: None,
        training: TrainingDocument::default(),
    };
    Ok(parts.imported(source.path, given, notes, unread(arguments)))
}

/// Keys that change no step.
const HARMLESS: [&str; 20] = [
    "model-type",
    "model-name",
    "dtype",
    "datatype",
    "enable-dropout",
    "mem-factor",
    "training",
    "attention-type",
    "group-linear-mode",
    "make-vocab-size-divisible-by",
    "padded-vocab-size",
    "recompute-variance",
    "use-fp32-accum-grad",
    "use-fused-grad-accumulation",
    "use-fused-norm",
    "use-fused-swiglu",
    "use-accm-weight",
    "capacity",
    "data-par",
    "cp-comm-type",
];

fn unread(arguments: &Arguments) -> Vec<String> {
    // Which network carries a group follows from the machine of a plan.
    let is_net = |name: &str| name.ends_with("-net");
    let unread = arguments.unread().into_iter();
    let left = unread.filter(|name| !HARMLESS.contains(name) && !is_net(name));
    left.map(|name| arguments.written(name)).collect()
}

/// The model of a strategy: that which is given, or that which the name of the file begins with.
fn model_of(source: &Source<'_>, base: Option<SizesDocument>) -> Result<SizesDocument, Wrong> {
    let stem = source.path.file_stem().map(|stem| stem.to_string_lossy().into_owned());
    base.or_else(|| models::begins(&stem.unwrap_or_default())).ok_or_else(|| Wrong {
        name: "model".to_owned(),
        message: "the file has a set-up, but no model".to_owned(),
        cure: Some(format!("give the model with --model: its JSON, or {}", models::NAMES)),
    })
}

fn more(degree: Option<u64>) -> Option<u64> {
    degree.filter(|degree| *degree > 1)
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
    let degree = |name: &str| arguments.whole(name);
    let sequence = degree("seq-len")?.unwrap_or(SEQUENCE);
    let microbatch = degree("micro-batch-size")?.unwrap_or(1);
    let [tensor, pipeline, context, expert] =
        [degree("tp-size")?, degree("pp-size")?, degree("cp-size")?, degree("ep-size")?].map(more);
    let of_experts = degree("etp-size")?.filter(|_| model.experts.is_some());
    let devices = given.devices.or(degree("world-size")?).unwrap_or(8);
    let group = super::assemble::product([tensor, pipeline, context]);
    let data = (devices / group.max(1)).max(1);
    let count = degree("micro-batch-num")?.unwrap_or(1).max(1);
    let batch = microbatch.saturating_mul(count).saturating_mul(data);
    let (recompute, recompute_layers) = recompute(arguments, &mut notes)?;
    let setup = SetupDocument {
        tensor,
        pipeline,
        context,
        expert: expert.filter(|_| model.experts.is_some()),
        expert_tensor: of_experts.filter(|own| *own != tensor.unwrap_or(1)),
        chunks: more(degree("interleaving-size")?),
        zero: Some(degree("zero-state")?.unwrap_or(1).min(3)),
        microbatch: Some(microbatch),
        recompute,
        recompute_layers,
        first_stage_layers: degree("num-layers-in-first-pipeline-stage")?,
        last_stage_layers: degree("num-layers-in-last-pipeline-stage")?,
        ..SetupDocument::default()
    };
    let attention = arguments.has("use-math-sdp") || arguments.flag("use-flash-sdp") == Some(false);
    let dispatcher = arguments.text("moe-dispatcher-policy")?;
    let training = TrainingDocument {
        sequence_parallel: arguments.flag("enable-sequence-parallel").filter(|_| tensor.is_some()),
        overlap_gradients: arguments.flag("overlap-grad-reduce"),
        overlap_transfers: arguments.flag("pp-comm-async").filter(|_| pipeline.is_some()),
        loss: arguments.has("cross-entropy-loss-fusion").then(|| "fused".to_owned()),
        dispatcher: dispatcher.filter(|name| name == "deepep"),
        precision: arguments.has("fp8").then(|| "fp8".to_owned()),
        ..TrainingDocument::default()
    };
    let parts = Parts {
        model,
        sequence,
        attention: attention.then(|| "core".to_owned()),
        batch,
        tokens: given.tokens.unwrap_or(1e12),
        framework: Some("megatron"),
        machine: None,
        devices,
        setup: Some(setup),
        training,
    };
    Ok(parts.imported(source.path, given, notes, unread(arguments)))
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
    let degree = |name: &str| arguments.whole(name);
    let [tensor, pipeline, chunks] =
        [degree("tensor-par")?, degree("pipeline-par")?, degree("pipeline-interleaving")?]
            .map(more);
    let kind = arguments.text("tensor-par-comm-type")?;
    let overlap = arguments.text("tensor-par-overlap")?;
    arguments.has("seq-par-ag-redo");
    let recompute = match arguments.text("activation-recompute")?.as_deref() {
        Some("full") => one("full"),
        Some("attn_only") => one("core_attn"),
        _ => None,
    };
    let setup = SetupDocument {
        tensor,
        pipeline,
        chunks,
        zero: Some(u64::from(arguments.has("optimizer-sharding"))),
        microbatch: Some(degree("microbatch-size")?.unwrap_or(1)),
        recompute,
        ..SetupDocument::default()
    };
    let training = TrainingDocument {
        sequence_parallel: tensor.map(|_| kind.as_deref() == Some("rs_ag")),
        overlap_gradients: arguments.flag("data-par-overlap"),
        overlap_tensor: overlap.filter(|kind| kind != "none").map(|_| true),
        compiled: arguments.flag("fused-activation").filter(|is| *is),
        ..TrainingDocument::default()
    };
    let parts = Parts {
        model,
        sequence,
        // Calculon's attention writes its scores to memory.
        attention: Some("core".to_owned()),
        batch: needed(arguments, "batch-size")?,
        tokens: given.tokens.unwrap_or(1e12),
        framework: Some("megatron"),
        machine: None,
        devices: given.devices.map_or_else(|| needed(arguments, "num-procs"), Ok)?,
        setup: Some(setup),
        training,
    };
    Ok(parts.imported(source.path, given, notes, unread(arguments)))
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
