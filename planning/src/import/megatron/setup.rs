//! The set-up of a run.

use super::super::arguments::{Arguments, Wrong};
use super::Notes;
use crate::{SetupDocument, SizesDocument};

/// The set-up that `arguments` say for `model`.
pub(super) fn setup(
    arguments: &Arguments,
    model: &SizesDocument,
    notes: &mut Notes,
) -> Result<SetupDocument, Wrong> {
    let degree = |name: &str| -> Result<Option<u64>, Wrong> {
        Ok(arguments.whole(name)?.filter(|degree| *degree > 1))
    };
    let pipeline = degree("pipeline-model-parallel-size")?;
    let layout = arguments.text("pipeline-model-parallel-layout")?;
    let layout = layout.map(|text| {
        text.parse().map_err(|error: pipeline::LayoutError| Wrong {
            name: "pipeline-model-parallel-layout".to_owned(),
            message: error.to_string(),
            cure: None,
        })
    });
    let counted = [
        arguments.has("account-for-embedding-in-pipeline-split"),
        arguments.has("account-for-loss-in-pipeline-split"),
    ];
    let parts = (pipeline.unwrap_or(1), chunks(arguments, model, pipeline.unwrap_or(1))?);
    let layout = layout.transpose()?.or_else(|| counted_layout(model, parts, counted));
    let (recompute, recompute_layers) = recompute(arguments, notes)?;
    for name in ["expert-model-parallel-size", "expert-tensor-parallel-size"] {
        arguments.has(name);
    }
    let expert = model.experts.map_or(Ok(None), |_| degree("expert-model-parallel-size"))?;
    let tensor = degree("tensor-model-parallel-size")?;
    let of_experts =
        model.experts.map_or(Ok(None), |_| arguments.whole("expert-tensor-parallel-size"))?;
    let chunks = chunks(arguments, model, pipeline.unwrap_or(1))?;
    Ok(SetupDocument {
        tensor,
        pipeline,
        chunks: chunks.filter(|_| layout.is_none()),
        context: degree("context-parallel-size")?,
        dynamic_context: arguments.has("hybrid-context-parallel").then_some(true),
        expert,
        expert_tensor: of_experts.filter(|size| *size != tensor.unwrap_or(1)),
        zero: Some(zero(arguments)?),
        microbatch: Some(arguments.whole("micro-batch-size")?.unwrap_or(1)),
        recompute,
        recompute_layers,
        layout,
        first_stage_layers: arguments.whole("decoder-first-pipeline-num-layers")?,
        last_stage_layers: arguments.whole("decoder-last-pipeline-num-layers")?,
        ..SetupDocument::default()
    })
}

/// The layout in which the embedding and the loss count as a layer each, where they do.
fn counted_layout(
    model: &SizesDocument,
    (stages, chunks): (u64, Option<u64>),
    counted: [bool; 2],
) -> Option<pipeline::LayerLayout> {
    let parts = stages.checked_mul(chunks.unwrap_or(1))?;
    let [first, last] = counted.map(u64::from);
    let all = model.layers.checked_add(first + last)?;
    let each = all.checked_div(parts)?;
    if parts < 2 || first + last == 0 || all % parts != 0 || parts > 1024 || each < 2 {
        return None;
    }
    let mtp = "m".repeat(usize::try_from(model.mtp.unwrap_or(0)).unwrap_or(0).min(8));
    let middle = format!("t*{each}|").repeat(usize::try_from(parts - 2).unwrap_or(0));
    let text = format!("Et*{}|{middle}t*{}{mtp}L", each - first, each - last);
    text.parse().ok()
}

/// The virtual stages of each stage.
fn chunks(arguments: &Arguments, model: &SizesDocument, stages: u64) -> Result<Option<u64>, Wrong> {
    let said = arguments.whole("num-virtual-stages-per-pipeline-rank")?;
    if let Some(chunks) = said.or(arguments.whole("virtual-pipeline-model-parallel-size")?) {
        return Ok(Some(chunks).filter(|chunks| *chunks > 1));
    }
    let each = arguments.whole("num-layers-per-virtual-pipeline-stage")?;
    let chunks = each.filter(|each| *each > 0).map(|each| model.layers / stages / each);
    Ok(chunks.filter(|chunks| *chunks > 1))
}

/// The state that replicas share.
fn zero(arguments: &Arguments) -> Result<u64, Wrong> {
    let strategy = arguments.text("data-parallel-sharding-strategy")?;
    let sharded = ["use-megatron-fsdp", "use-custom-fsdp", "use-torch-fsdp2"];
    let is_sharded = sharded.map(|name| arguments.has(name)).contains(&true);
    let is_distributed = arguments.has("use-distributed-optimizer");
    if arguments.has("use-torch-fsdp2") {
        return Ok(3);
    }
    // Megatron-DeepSpeed.
    if let Some(stage) = arguments.whole("zero-stage")?.filter(|_| arguments.has("deepspeed")) {
        return Ok(stage);
    }
    Ok(match strategy.as_deref().filter(|_| is_sharded) {
        Some("optim_grads") => 2,
        Some("optim") => 1,
        Some("no_shard") => 0,
        Some(_) => 3,
        None if is_sharded => 3,
        None => u64::from(is_distributed),
    })
}

/// The recomputation, and the layers of a chunk that have it.
fn recompute(
    arguments: &Arguments,
    notes: &mut Notes,
) -> Result<(Option<Vec<String>>, Option<u64>), Wrong> {
    let granularity = arguments.text("recompute-granularity")?;
    let modules = arguments.all("recompute-modules")?;
    let method = arguments.text("recompute-method")?;
    let layers = arguments.whole("recompute-num-layers")?;
    let one = |word: &str| Some(vec![word.to_owned()]);
    let selective = arguments.has("recompute-activations");
    // Megatron-LM before 2022, and Megatron-DeepSpeed.
    let is_old_full = arguments.has("checkpoint-activations");
    Ok(match granularity.as_deref() {
        Some("full") if method.as_deref() == Some("block") => match layers {
            Some(0) => (None, None),
            layers => (one("full"), layers),
        },
        Some("full") => {
            if let Some(layers) = layers.filter(|layers| *layers > 1) {
                let name = arguments.written("recompute-num-layers");
                notes.push(format!("{name} {layers} keeps the inputs of every {layers} layers: those of each are counted"));
            }
            (one("full"), None)
        }
        Some("selective") if !modules.is_empty() => (Some(modules), None),
        Some("selective") => (one("selective"), None),
        _ if is_old_full => (one("full"), None),
        _ if selective => (one("selective"), None),
        _ => (None, None),
    })
}
