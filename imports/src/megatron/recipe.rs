//! The recipe of training.

use super::super::adapters;
use super::super::arguments::{Arguments, Wrong};
use super::Notes;
use planning::{SetupDocument, TrainingDocument};

/// Kernels of attention that write no scores to memory, of DeepSpeed's fork.
const FLASH: [&str; 5] = [
    "use-flash-attn",
    "use-flash-attn-v1",
    "use-flash-attn-v2",
    "use-flash-attn-triton",
    "use-flash-attn-builder",
];

/// How attention is computed.
pub(super) fn attention(arguments: &Arguments) -> Result<Option<String>, Wrong> {
    let backend = arguments.text("attention-backend")?;
    let is_local = arguments.text("transformer-impl")?.as_deref() == Some("local");
    // Kernels of today are the default of the other implementation alone.
    let is_old = is_local || arguments.has("deepspeed");
    let has_flash = FLASH.map(|name| arguments.has(name)).contains(&true);
    let is_core = match backend {
        Some(backend) => backend.contains("local") || backend.contains("unfused"),
        None => is_old && !has_flash,
    };
    Ok(is_core.then(|| "core".to_owned()))
}

/// The recipe that `arguments` say.
pub(super) fn training(
    arguments: &Arguments,
    setup: &SetupDocument,
    notes: &mut Notes,
) -> Result<TrainingDocument, Wrong> {
    if !["bf16", "fp16"].map(|name| arguments.has(name)).contains(&true) {
        notes.push("neither --bf16 nor --fp16 is there: products in 32 bits are not planned, bf16 is taken".to_owned());
    }
    let (cuda_graphs, cuda_graph_modules) = graphs(arguments)?;
    let offload = match arguments.has("fine-grained-activation-offloading") {
        true => Some(arguments.all("offload-modules")?).filter(|modules| !modules.is_empty()),
        false => None,
    };
    let is_half = bytes(arguments, "main-grads-dtype")?.is_some_and(|bytes| bytes < 4)
        || arguments.has("grad-reduce-in-bf16");
    let small = !arguments.has("accumulate-allreduce-grads-in-fp32") && is_half;
    let capacity = arguments.number("moe-expert-capacity-factor")?;
    let training = TrainingDocument {
        gradient_bytes: small.then_some(2),
        optimizer_bytes: optimizer_bytes(arguments)?,
        optimizer_offload: match arguments.has("optimizer-cpu-offload") {
            true => Some(arguments.number("optimizer-offload-fraction")?.unwrap_or(1.0)),
            false => None,
        },
        offload,
        precision: precision(arguments)?,
        cuda_graphs,
        cuda_graph_modules,
        dispatcher: dispatcher(arguments)?,
        overlap_parameters: (arguments.has("overlap-param-gather") && setup.zero != Some(0))
            .then_some(true),
        capacity_factor: capacity.filter(|_| !arguments.has("disable-moe-token-dropping")),
        sequence_parallel: Some(arguments.has("sequence-parallel"))
            .filter(|_| setup.tensor.is_some()),
        ..TrainingDocument::default()
    };
    let training = arguments.fill("training", &training)?;
    adapters::with(arguments, notes, training)
}

/// Which launches CUDA graphs replace, and the modules that graphs of modules capture.
fn graphs(arguments: &Arguments) -> Result<(Option<String>, Option<Vec<String>>), Wrong> {
    let scope = arguments.all("cuda-graph-scope")?;
    let of_step = scope.iter().any(|scope| scope == "full_iteration");
    let modules = captured(arguments, scope)?;
    // Before `--cuda-graph-impl` both kinds of graphs of modules had names of their own.
    let is_older = ["external-cuda-graph", "enable-cuda-graph"].map(|name| arguments.has(name));
    let kind = arguments.text("cuda-graph-impl")?;
    Ok(match (kind.as_deref(), is_older.contains(&true)) {
        _ if of_step => (Some("full".to_owned()), None),
        (Some("full_iteration"), _) => (Some("full".to_owned()), None),
        (Some("none") | None, false) => (None, None),
        _ => (Some("partial".to_owned()), modules),
    })
}

/// The modules that graphs capture, by either argument for them, of which `scope` is the older; without a name a
/// layer whole. `None` where that is of experts, which need as many rows in every step.
fn captured(arguments: &Arguments, scope: Vec<String>) -> Result<Option<Vec<String>>, Wrong> {
    let all = [arguments.all("cuda-graph-modules")?, scope].concat().join(" ");
    let names = all.split([',', ' ', '[', ']', '\'', '"']).filter(|name| !name.is_empty());
    let names: Vec<&str> = names.filter(|name| !name.starts_with("full")).collect();
    let names = match (names.is_empty(), arguments.has("num-experts")) {
        (true, true) => return Ok(None),
        (true, false) => vec!["attn", "mlp"],
        (false, _) => names,
    };
    Ok(Some(names.into_iter().map(str::to_owned).collect()))
}

/// The format of the products of layers.
fn precision(arguments: &Arguments) -> Result<Option<String>, Wrong> {
    let old = ["fp8-hybrid", "fp8-e4m3"].map(|name| arguments.has(name)).contains(&true);
    let eight = arguments.text("fp8-format")?.or(arguments.text("fp8")?);
    let eight = eight.or(old.then(|| "hybrid".to_owned()));
    let four = arguments.text("fp4-format")?.or(arguments.text("fp4")?);
    let recipe = arguments.text("fp8-recipe")?;
    arguments.text("fp4-recipe")?;
    let name = match (four, eight, recipe.as_deref()) {
        (Some(_), _, _) => "nvfp4",
        (None, Some(_), Some("blockwise")) => "fp8-blockwise",
        (None, Some(_), Some("mxfp8")) => "mxfp8",
        (None, Some(_), _) => "fp8",
        (None, None, _) => return Ok(None),
    };
    Ok(Some(name.to_owned()))
}

fn dispatcher(arguments: &Arguments) -> Result<Option<String>, Wrong> {
    let kind = arguments.text("moe-token-dispatcher-type")?;
    let backend = arguments.text("moe-flex-dispatcher-backend")?;
    let deep = arguments.has("moe-enable-deepep");
    Ok(match (kind.as_deref(), backend) {
        (Some("flex"), Some(backend)) => Some(backend),
        (Some("flex"), None) => Some("deepep".to_owned()),
        _ if deep => Some("deepep".to_owned()),
        _ => None,
    })
}

/// Bytes of a number of the format `name`, if the file says it.
fn bytes(arguments: &Arguments, name: &str) -> Result<Option<u64>, Wrong> {
    Ok(arguments.text(name)?.map(|format| match format.trim_start_matches("torch.") {
        "bf16" | "fp16" | "bfloat16" | "float16" => 2,
        "fp8" | "uint8" => 1,
        _ => 4,
    }))
}

/// Bytes of the state of the optimizer, where it is kept in other formats than 32 bits.
fn optimizer_bytes(arguments: &Arguments) -> Result<Option<u64>, Wrong> {
    let mut sum = 0;
    for name in ["main-params-dtype", "exp-avg-dtype", "exp-avg-sq-dtype"] {
        sum += bytes(arguments, name)?.unwrap_or(4);
    }
    Ok(Some(sum).filter(|_| arguments.has("use-precision-aware-optimizer")))
}
