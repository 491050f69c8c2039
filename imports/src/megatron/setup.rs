//! The set-up of a run.

use super::super::arguments::{Arguments, Wrong};
use super::Notes;
use planning::{SetupDocument, SizesDocument};

/// The set-up that `arguments` say for `model`.
pub(super) fn setup(
    arguments: &Arguments,
    model: &SizesDocument,
    notes: &mut Notes,
) -> Result<SetupDocument, Wrong> {
    let pipeline = arguments.degree("pipeline-model-parallel-size")?;
    let stages = pipeline.unwrap_or(1);
    let layout = arguments.text("pipeline-model-parallel-layout")?;
    let layout = layout.map(|text| {
        text.parse().map_err(|error: pipeline::LayoutError| {
            Wrong::new("pipeline-model-parallel-layout", error.to_string())
        })
    });
    let counted = [
        arguments.has("account-for-embedding-in-pipeline-split"),
        arguments.has("account-for-loss-in-pipeline-split"),
    ];
    let schedule = super::of_zero_bubble(arguments, stages, notes)?;
    let schedule = schedule.filter(|_| stages > 1 && !arguments.is_keys());
    notes.extend(
        schedule.map(|name| {
            format!("{name} runs in a fork, not in Megatron-LM: framework is left out")
        }),
    );
    // A V has two chunks by itself.
    let chunks = chunks(arguments, model, stages)?;
    let layout = layout.transpose()?.or_else(|| counted_layout(model, (stages, chunks), counted));
    let (recompute, recompute_layers) = recompute(arguments, notes)?;
    let expert = arguments.degree("expert-model-parallel-size")?;
    let is_whole = arguments.has("deepspeed") && !arguments.has("enable-expert-tensor-parallelism");
    let of_experts = arguments.whole("expert-tensor-parallel-size")?;
    let of_experts = of_experts.or(is_whole.then_some(1));
    let setup = SetupDocument {
        chunks: chunks.filter(|_| layout.is_none()),
        expert: expert.filter(|_| model.experts.is_some()),
        zero: Some(zero(arguments)?),
        microbatch: Some(1),
        schedule: schedule.map(str::to_owned),
        recompute,
        recompute_layers,
        layout,
        ..SetupDocument::default()
    };
    let mut setup = arguments.fill("setup", &setup)?;
    let tensor = setup.tensor.unwrap_or(1);
    setup.expert_tensor = of_experts.filter(|own| *own != tensor && model.experts.is_some());
    Ok(setup)
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
        return Ok(if arguments.has("torch-fsdp2-no-reshard-after-forward") { 2 } else { 3 });
    }
    if arguments.has("deepspeed") {
        return arguments.whole("zero-stage")?.ok_or_else(|| {
            Wrong::new("deepspeed-config", "the ZeRO stage is in this file, which is not read")
                .hint("put it next to the script as JSON, or add --zero-stage to the launch")
        });
    }
    Ok(match strategy.as_deref().filter(|_| is_sharded) {
        Some("optim_grads") => 2,
        Some("optim") => 1,
        Some("no_shard") => 0,
        Some(_) => 3,
        None if is_sharded => 3,
        None => {
            let by_layer = arguments.text("optimizer")?.as_deref() == Some("dist_muon");
            u64::from(is_distributed || by_layer)
        }
    })
}

/// The recomputation, and the layers of a chunk that have it.
fn recompute(
    arguments: &Arguments,
    notes: &mut Notes,
) -> Result<(Option<Vec<String>>, Option<u64>), Wrong> {
    let granularity = arguments.text("recompute-granularity")?;
    let modules = arguments.all("recompute-modules")?;
    let old_method = arguments.text("activations-checkpoint-method")?;
    let method = arguments.text("recompute-method")?.or(old_method);
    let layers = arguments.whole("recompute-num-layers")?;
    let one = |word: &str| Some(vec![word.to_owned()]);
    let selective = arguments.has("recompute-activations");
    // Megatron-LM before 2023, and Megatron-DeepSpeed.
    let is_old_full =
        arguments.has("checkpoint-activations") || arguments.has("activations-checkpoint-method");
    let is_of_experts = arguments.has("moe-layer-recompute");
    let granularity = granularity.or(is_old_full.then(|| "full".to_owned()));
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
        _ if is_of_experts => (Some(["core_attn", "moe"].map(str::to_owned).to_vec()), None),
        _ if selective => (one("selective"), None),
        _ => (None, None),
    })
}
