//! Sharding, recomputation and formats of a job.

use question::quote;

use super::super::adapters;
use super::super::arguments::{Arguments, Wrong};
use super::super::assemble::Notes;
use planning::{SetupDocument, SizesDocument, TrainingDocument};

/// Sets what `data` replicas shard.
pub(super) fn sharding(
    arguments: &Arguments,
    setup: &mut SetupDocument,
    data: u64,
) -> Result<(), Wrong> {
    let replicas = arguments.whole("parallelism.data-parallel-replicate-degree")?.unwrap_or(1);
    let shards = data / replicas.max(1);
    let when = arguments.text("parallelism.fsdp-reshard-after-forward")?;
    let in_pipeline = setup.pipeline.is_some();
    // Gathered parameters stay until the end of the step in a pipeline, unless they are given up after every forward.
    (setup.zero, setup.reshard) = match (shards, when.as_deref(), in_pipeline) {
        (0 | 1, _, _) if replicas > 1 => (Some(0), None),
        (_, Some("never"), false) => (Some(2), None),
        (_, Some("always"), true) => (Some(3), Some("after-forward".to_owned())),
        _ => (Some(3), None),
    };
    setup.shard_groups = (replicas > 1 && shards > 1).then_some(replicas);
    Ok(())
}

/// Sets what is recomputed.
pub(super) fn recompute(
    arguments: &Arguments,
    model: &SizesDocument,
    setup: &mut SetupDocument,
    notes: &mut Notes,
) -> Result<(), Wrong> {
    let mode = arguments.text("activation-checkpoint.mode")?;
    let option = arguments.text("activation-checkpoint.selective-ac-option")?;
    let one = |word: &str| Some(vec![word.to_owned()]);
    let chunks = match &setup.layout {
        Some(_) => setup.pipeline.unwrap_or(1),
        None => setup.pipeline.unwrap_or(1).saturating_mul(setup.chunks.unwrap_or(1)),
    };
    let option = option.unwrap_or_else(|| "2".to_owned());
    setup.recompute = match mode.as_deref().unwrap_or("selective") {
        "none" => None,
        "full" => one("full"),
        "selective" if option == "op" => one("selective_op"),
        "selective" => {
            let every = option.parse::<u64>().ok().filter(|every| *every > 0);
            let every = every.ok_or_else(|| {
                let message = format!("{} is neither op nor a number", quote::clip(&option));
                Wrong::new("activation-checkpoint.selective-ac-option", message)
            })?;
            let own = (model.layers / chunks.max(1) / every).max(1);
            if every > 1 {
                notes.push(format!("every {every} layers one is recomputed: the first {own} of each chunk are planned"));
                setup.recompute_layers = Some(own);
            }
            one("full")
        }
        "memory_budget" => {
            notes.push("activation_checkpoint.mode = memory_budget lets the compiler choose: selective_op is planned".to_owned());
            one("selective_op")
        }
        other => {
            let message = format!("{} is not a mode that is known", quote::clip(other));
            return Err(Wrong::new("activation-checkpoint.mode", message)
                .hint("write none, selective or full"));
        }
    };
    Ok(())
}

/// The recipe of training.
pub(super) fn training(
    arguments: &Arguments,
    setup: &SetupDocument,
    notes: &mut Notes,
) -> Result<TrainingDocument, Wrong> {
    let components = arguments.all("compile.components")?;
    let of_model = components.is_empty() || components.iter().any(|one| one == "model");
    let is_on = arguments.has("compile.enable") || arguments.has("training.compile");
    let is_compiled = is_on && of_model;
    let overlaps = arguments.has("parallelism.enable-async-tensor-parallel");
    let (precision, head_precision) = precision(arguments)?;
    let rotate = arguments.text("parallelism.context-parallel-rotate-method")?;
    let dispatcher = arguments.text("parallelism.expert-parallel-comm-backend")?;
    let small = arguments.text("training.dtype")?.as_deref() == Some("bfloat16");
    let pairs = arguments.flag("parallelism.pipeline-parallel-expert-parallel-overlap");
    let is_dualpipe = setup.schedule.as_deref() == Some("dualpipe-v") && setup.expert.is_some();
    if arguments.flag("parallelism.enable-sequence-parallel") == Some(false) {
        notes.push(
            "enable_sequence_parallel is off: each device of a tensor group holds whole sequences"
                .to_owned(),
        );
    }
    let training = TrainingDocument {
        // Parameters, gradients and both moments in 16 bits, without a copy in 32.
        gradient_bytes: small.then_some(2),
        optimizer_bytes: small.then_some(4),
        compiled: Some(is_compiled),
        precision,
        head_precision,
        dispatcher: dispatcher.filter(|name| name != "standard"),
        two_streams: (is_dualpipe && pairs != Some(false)).then_some(true),
        overlap_tensor: (overlaps && setup.tensor.is_some()).then_some(true),
        sequence_parallel: arguments
            .flag("parallelism.enable-sequence-parallel")
            .filter(|_| setup.tensor.is_some()),
        context_exchange: setup.context.map(|_| match rotate.as_deref() {
            Some("alltoall") => "ring".to_owned(),
            _ => "all-gather".to_owned(),
        }),
        ..TrainingDocument::default()
    };
    adapters::with(arguments, notes, training)
}

/// Formats of the products of layers, and of that with the vocabulary.
fn precision(arguments: &Arguments) -> Result<(Option<String>, Option<String>), Wrong> {
    let converters = arguments.all("model.converters")?;
    let has = |word: &str| converters.iter().any(|own| own.to_lowercase().contains(word));
    let is_old = arguments.has("float8.enable-float8-linear");
    let of_float8 = arguments.all("float8.filter-fqns")?;
    let of_mx = arguments.all("mx.filter-fqns")?;
    let (format, filtered) = match () {
        () if has("nvfp4") => ("nvfp4", Vec::new()),
        () if has("mx") => ("mxfp8", of_mx),
        () if has("float8") || is_old => ("fp8", of_float8),
        () => return Ok((None, None)),
    };
    let is_head = |name: &String| matches!(name.as_str(), "output" | "lm_head");
    // The output layer is kept by default with scales for blocks.
    let is_kept = filtered.iter().any(is_head) || format != "fp8";
    Ok((Some(format.to_owned()), (!is_kept).then(|| format.to_owned())))
}
