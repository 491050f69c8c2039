//! Configurations of MaxText: YAML with degrees within a slice (`ici_`) and between slices (`dcn_`).
//!
//! Keys and defaults are those of its `configs/base.yml` and `configs/types.py` of August 2026.

mod model;

use question::diagnostic::Diagnostic;
use question::quote;
use serde_json::Value;

use super::arguments::{Arguments, Wrong};
use super::assemble::{Notes, Parts, Steps, least_common, least_devices, product, whole_nodes};
use super::source::Source;
use super::table::MAXTEXT;
use super::{Given, Imported};
use planning::{SetupDocument, SizesDocument, TrainingDocument};

/// Devices of a node.
const NODE: u64 = 8;

/// Whether `source` is a configuration: keys of its own, at the top of a YAML file.
pub(super) fn is_configuration(source: &Source<'_>) -> bool {
    let tree = source.tree();
    let has = |key: &str| tree.get(key).is_some();
    let of_degrees = ["ici_fsdp_parallelism", "dcn_data_parallelism", "ici_tensor_parallelism"];
    !source.is_toml()
        && (has("base_emb_dim")
            || of_degrees.into_iter().any(has)
            || (has("base_config") && has("model_name"))
            || (has("per_device_batch_size") && has("max_target_length")))
}

/// The question of a configuration.
pub(super) fn of_configuration(source: &Source<'_>, given: &Given) -> Result<Imported, Diagnostic> {
    let arguments = Arguments::of_tree(source.tree());
    of_arguments(source, &arguments, given)
}

/// The question of the keys of a configuration.
pub(super) fn of_arguments(
    source: &Source<'_>,
    arguments: &Arguments,
    given: &Given,
) -> Result<Imported, Diagnostic> {
    arguments.are_of(&MAXTEXT);
    let wrong = |wrong| source.of_argument(arguments, wrong);
    let base = match source.given_model(given)? {
        Some(base) => base,
        None => {
            let name = arguments.text("model-name").map_err(wrong)?.unwrap_or_default();
            let beside = model_file(source, &name)?;
            model::sizes(arguments, &name, beside.as_ref()).map_err(wrong)?
        }
    };
    question(source, arguments, given, base).map_err(wrong)
}

/// The keys of the model `name`, which lie in a folder `models` above the file.
fn model_file(source: &Source<'_>, name: &str) -> Result<Option<Value>, Diagnostic> {
    if name.is_empty() || name.contains(['/', '\\']) {
        return Ok(None);
    }
    let file = format!("{name}.yml");
    for folder in ["models", "configs/models", "src/maxtext/configs/models"] {
        let found = source.upwards(&format!("{folder}/{file}"));
        if let Some(folder) = found.as_deref().and_then(std::path::Path::parent) {
            return source.beside(folder, &file);
        }
    }
    Ok(None)
}

/// The degrees of an axis within a slice times those between slices; `None` where one of them is what is left.
fn axis(arguments: &Arguments, name: &str) -> Result<Option<u64>, Wrong> {
    let mut all = Some(1_u64);
    for place in ["ici", "dcn"] {
        let key = format!("{place}-{name}-parallelism");
        let own = match arguments.text(&key)? {
            Some(text) if text.trim() == "-1" => None,
            Some(_) => arguments.whole(&key)?,
            // The rest goes to sharding within a slice, and to replicas between them.
            None if matches!(key.as_str(), "ici-fsdp-parallelism" | "dcn-data-parallelism") => None,
            None => Some(1),
        };
        all = all.zip(own).map(|(all, own)| all.saturating_mul(own.max(1)));
    }
    Ok(all)
}

/// Degrees of a run.
struct Degrees {
    setup: SetupDocument,
    /// Replicas that shard, and those that do not.
    fsdp: Option<u64>,
    data: Option<u64>,
}

fn degrees(arguments: &Arguments, model: &SizesDocument) -> Result<Degrees, Wrong> {
    let several = |names: &[&str]| -> Result<Option<u64>, Wrong> {
        let mut all = 1_u64;
        for name in names {
            all = all.saturating_mul(axis(arguments, name)?.unwrap_or(1));
        }
        Ok(Some(all).filter(|all| *all > 1))
    };
    let expert = match arguments.text("ici-expert-parallelism")?.as_deref() {
        // The rest of a slice, which is taken to be a node.
        Some("-1") => Some((NODE / several(&["tensor", "context"])?.unwrap_or(1)).max(1)),
        _ => several(&["expert"])?,
    };
    let tensor = several(&["tensor", "tensor-sequence", "tensor-transpose", "autoregressive"])?;
    let setup = SetupDocument {
        tensor,
        pipeline: several(&["pipeline"])?,
        context: several(&[
            "context",
            "sequence",
            "context-usp-ulysses",
            "context-autoregressive",
        ])?,
        expert: expert.filter(|_| model.experts.is_some()),
        ..SetupDocument::default()
    };
    let fsdp = axis(arguments, "fsdp")?.zip(axis(arguments, "fsdp-transpose")?).map(
        |(own, transposed)| own.saturating_mul(transposed).saturating_mul(expert.unwrap_or(1)),
    );
    Ok(Degrees { setup, fsdp, data: axis(arguments, "data")? })
}

fn question(
    source: &Source<'_>,
    arguments: &Arguments,
    given: &Given,
    model: SizesDocument,
) -> Result<Imported, Wrong> {
    let mut notes = Notes::new();
    let sequence = arguments.whole("max-target-length")?.unwrap_or(2048);
    let Degrees { mut setup, fsdp, data } = degrees(arguments, &model)?;
    let group = product([setup.tensor, setup.pipeline, setup.context]);
    let said = fsdp.zip(data).map(|(fsdp, data)| fsdp.saturating_mul(data).saturating_mul(group));
    let explicit = group.saturating_mul(fsdp.unwrap_or(1)).saturating_mul(data.unwrap_or(1));
    let least = least_common(least_devices(&setup), explicit);
    let devices = given.devices.or(said).unwrap_or_else(|| whole_nodes(least, &mut notes));
    let replicas = (devices / group.max(1)).max(1);
    (setup.zero, setup.shard_groups) = match (fsdp, data) {
        (Some(1), _) => (Some(0), None),
        (_, Some(data)) if data > 1 && replicas > data => (Some(3), Some(data)),
        _ => (Some(3), None),
    };
    let each = arguments.number("per-device-batch-size")?.unwrap_or(12.0);
    let batch = batch(arguments, &mut setup, (each, devices, replicas))?;
    circular(arguments, &model, &mut setup, &mut notes)?;
    remat(arguments, &mut setup, &mut notes)?;
    let steps = arguments.whole("steps")?;
    let names = ["steps", "steps"].map(str::to_owned);
    let tokens = Steps { samples: None, steps, names }.tokens(given, (batch, sequence), &mut notes);
    let attention = arguments.text("attention")?.filter(|kind| kind == "dot_product");
    let has_experts = model.experts.is_some();
    let training = training(arguments, &setup, has_experts, &mut notes)?;
    let parts = Parts {
        model,
        sequence,
        attention: attention.map(|_| "core".to_owned()),
        batch,
        tokens,
        devices,
        training,
        setup: Some(setup),
        ..Parts::default()
    };
    notes.push("MaxText is none of the frameworks of a plan: the kernels are those of Megatron-LM on the machine".to_owned());
    Ok(parts.imported(source.path, given, notes, arguments))
}

/// The global batch of `each` samples a device, and the microbatch.
#[allow(clippy::cast_precision_loss, clippy::cast_possible_truncation, clippy::cast_sign_loss)]
fn batch(
    arguments: &Arguments,
    setup: &mut SetupDocument,
    (each, devices, replicas): (f64, u64, u64),
) -> Result<u64, Wrong> {
    let stages = setup.pipeline.unwrap_or(1);
    let pieces = arguments.positive("num-pipeline-microbatches")?.unwrap_or(stages);
    let pieces = if stages > 1 { pieces } else { 1 };
    let wrong = |message: String| {
        Wrong::new("per-device-batch-size", message)
            .hint("name the devices of the run with --devices")
    };
    let samples = each * devices as f64;
    if !(0.5..1e15).contains(&samples) {
        return Err(wrong(format!("{each} samples of {devices} devices are not a batch")));
    }
    let samples = samples.round() as u64;
    let parts = replicas.saturating_mul(pieces);
    if samples < parts || !samples.is_multiple_of(parts) {
        return Err(wrong(format!(
            "{samples} samples of {devices} devices are not a multiple of {replicas} replicas x {pieces} microbatches"
        )));
    }
    setup.microbatch = Some(samples / parts);
    let times = arguments.whole("gradient-accumulation-steps")?.unwrap_or(1).max(1);
    Ok(samples.saturating_mul(times))
}

/// The chunks of a circular pipeline.
fn circular(
    arguments: &Arguments,
    model: &SizesDocument,
    setup: &mut SetupDocument,
    notes: &mut Notes,
) -> Result<(), Wrong> {
    let each = arguments.whole("num-layers-per-pipeline-stage")?.unwrap_or(1).max(1);
    let repeats = arguments.positive("num-pipeline-repeats")?;
    let Some(stages) = setup.pipeline else { return Ok(()) };
    let repeats = repeats.unwrap_or(model.layers / stages.saturating_mul(each).max(1)).max(1);
    setup.chunks = Some(repeats).filter(|repeats| *repeats > 1);
    if repeats > 1 {
        setup.schedule = Some("looped-bfs".to_owned());
        notes.push(format!("MaxText's circular pipeline runs {repeats} repeats forward for all microbatches, then backward: looped-bfs"));
    } else {
        setup.schedule = Some("gpipe".to_owned());
    }
    if arguments.has("pipeline-delay-activation-forwarding") {
        notes.push(
            "pipeline_delay_activation_forwarding doubles the bubble: the plan is without it"
                .to_owned(),
        );
    }
    Ok(())
}

/// The recomputation.
fn remat(arguments: &Arguments, setup: &mut SetupDocument, notes: &mut Notes) -> Result<(), Wrong> {
    let policy = arguments.text("remat-policy")?.unwrap_or_else(|| "full".to_owned());
    setup.recompute = match policy.as_str() {
        "full" => Some(vec!["full".to_owned()]),
        policy if policy.starts_with("minimal") => {
            notes.push(format!("remat_policy = {policy} keeps the results of all products and recomputes the rest: nothing is recomputed in the plan"));
            None
        }
        policy => {
            notes.push(format!(
                "remat_policy = {} keeps some results: all of a layer is recomputed in the plan",
                quote::clip(policy)
            ));
            Some(vec!["full".to_owned()])
        }
    };
    Ok(())
}

fn training(
    arguments: &Arguments,
    setup: &SetupDocument,
    has_experts: bool,
    notes: &mut Notes,
) -> Result<TrainingDocument, Wrong> {
    let format = arguments.text("quantization")?.unwrap_or_default();
    let precision = match format.as_str() {
        "" => None,
        format if format.contains("mxfp8") => Some("mxfp8"),
        format if format.contains("nvfp4") => Some("nvfp4"),
        format if format.contains("fp8") => Some("fp8"),
        format => {
            notes.push(format!(
                "quantization = {}: products in bf16 are planned",
                quote::clip(format)
            ));
            None
        }
    };
    // -1 drops none.
    let capacity = arguments.number("capacity-factor")?.filter(|factor| *factor > 0.0);
    let small = arguments.text("weight-dtype")?.as_deref() == Some("bfloat16");
    arguments.text("dtype")?;
    Ok(TrainingDocument {
        // Weights, gradients and both moments in 16 bits.
        gradient_bytes: small.then_some(2),
        optimizer_bytes: small.then_some(4),
        precision: precision.map(str::to_owned),
        capacity_factor: capacity.filter(|_| has_experts),
        context_exchange: setup.context.map(|_| "all-gather".to_owned()),
        ..TrainingDocument::default()
    })
}
