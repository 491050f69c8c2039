//! Job files of torchtitan: TOML of its releases up to 0.2, and the same keys in other files.
//!
//! Keys, defaults and rules are those of its `config/job_config.py` and `distributed/pipeline_parallel.py` at 0.2.2, and
//! of `config/configs.py` on its main branch of August 2026.

mod pipeline;
mod recipe;

use question::diagnostic::Diagnostic;

use super::arguments::{Arguments, Wrong, unknown_model};
use super::assemble::{Notes, Parts, Steps, least_common, least_devices, machine_in, whole_nodes};
use super::source::Source;
use super::table::TORCHTITAN;
use super::{Given, Imported, models};
use planning::{SetupDocument, SizesDocument};

/// Endings of flavors that name a kernel of attention or a mask, not sizes.
const VARIANTS: [&str; 6] = ["_flex_attn", "_varlen_attn", "_flex", "_varlen", "_irope", "_sdpa"];

/// Whether `source` is a job file: a table `[model]` with a flavor, and one of torchtitan's own.
pub(super) fn is_job(source: &Source<'_>) -> bool {
    let tree = source.tree();
    let has = |table: &str, key: &str| tree.get(table).is_some_and(|own| own.get(key).is_some());
    source.is_toml()
        && has("model", "flavor")
        && ["training", "parallelism", "job"].iter().any(|table| tree.get(table).is_some())
}

/// The question of a job file.
pub(super) fn of_job(source: &Source<'_>, given: &Given) -> Result<Imported, Diagnostic> {
    let arguments = Arguments::of_tree(source.tree());
    of_arguments(source, &arguments, given, None)
}

/// The question of the keys of a job, of `base` where the caller gives no model.
pub(super) fn of_arguments(
    source: &Source<'_>,
    arguments: &Arguments,
    given: &Given,
    base: Option<SizesDocument>,
) -> Result<Imported, Diagnostic> {
    source.question_of(arguments, given, base, |base| question(source, arguments, given, base))
}

fn question(
    source: &Source<'_>,
    arguments: &Arguments,
    given: &Given,
    base: Option<SizesDocument>,
) -> Result<Imported, Wrong> {
    arguments.are_of(&TORCHTITAN);
    let mut notes = Notes::new();
    let mut model = model(arguments, base)?;
    model.layers = arguments.whole("model.n-layers")?.unwrap_or(model.layers);
    let sequence = match arguments.whole("training.seq-len")? {
        Some(sequence) => sequence,
        None => arguments.whole("training.max-context-length")?.unwrap_or(2048),
    };
    let mut setup = degrees(arguments, &model)?;
    let (devices, machine) = devices(source, arguments, &mut setup, given, &mut notes)?;
    let data = (devices / group(&setup).max(1)).max(1);
    let local = local_batch(arguments, sequence)?;
    pipeline::schedule(arguments, &model, &mut setup, &mut notes)?;
    let batch = batch(arguments, &mut setup, (local, data, sequence), &mut notes)?;
    recipe::sharding(arguments, &mut setup, data)?;
    recipe::recompute(arguments, &model, &mut setup, &mut notes)?;
    let steps = arguments.whole("training.steps")?;
    let names = ["training.steps", "training.steps"].map(str::to_owned);
    let tokens = Steps { samples: None, steps, names }.tokens(given, (batch, sequence), &mut notes);
    let training = recipe::training(arguments, &setup, &mut notes)?;
    let is_torchtitan = setup.recompute_layers.is_none();
    if !is_torchtitan {
        notes.push(
            "a plan for torchtitan recomputes all layers or none: framework is left out".to_owned(),
        );
    }
    let parts = Parts {
        model,
        sequence,
        batch,
        tokens,
        framework: is_torchtitan.then_some("torchtitan"),
        machine,
        devices,
        setup: Some(setup),
        training,
        ..Parts::default()
    };
    Ok(parts.imported(source.path, given, notes, arguments))
}

/// The sizes of the model and flavor that `arguments` name.
fn model(arguments: &Arguments, base: Option<SizesDocument>) -> Result<SizesDocument, Wrong> {
    let family = arguments.text("model.name")?.unwrap_or_default();
    let flavor = arguments.text("model.flavor")?.unwrap_or_default();
    if let Some(base) = base {
        return Ok(base);
    }
    let plain = VARIANTS.iter().find_map(|ending| flavor.strip_suffix(ending));
    let name = format!("{family}-{}", plain.unwrap_or(&flavor));
    models::named(&name).ok_or_else(|| unknown_model("model.flavor", &name))
}

/// The degrees but for replicas.
fn degrees(arguments: &Arguments, model: &SizesDocument) -> Result<SetupDocument, Wrong> {
    let expert = arguments.degree("parallelism.expert-parallel-degree")?;
    let expert = expert.filter(|_| model.experts.is_some());
    let of_experts = arguments.whole("parallelism.expert-tensor-parallel-degree")?.unwrap_or(1);
    let mut setup =
        arguments.fill("setup", &SetupDocument { expert, ..SetupDocument::default() })?;
    let own_tensor = setup.tensor.is_some() && expert.is_some();
    setup.expert_tensor = own_tensor.then_some(of_experts).filter(|own| Some(*own) != setup.tensor);
    Ok(setup)
}

/// The devices of one replica.
fn group(setup: &SetupDocument) -> u64 {
    super::assemble::product([setup.tensor, setup.pipeline, setup.context])
}

/// The devices of the run and its machine: those that the caller gives, those of degrees that are all given, or those
/// that the first lines of the file say it is a preset for.
fn devices(
    source: &Source<'_>,
    arguments: &Arguments,
    setup: &mut SetupDocument,
    given: &Given,
    notes: &mut Notes,
) -> Result<(u64, Option<String>), Wrong> {
    let replicas = arguments.whole("parallelism.data-parallel-replicate-degree")?.unwrap_or(1);
    let shards = arguments.positive("parallelism.data-parallel-shard-degree")?;
    let (preset, machine) = preset(source.text);
    let of_degrees =
        shards.map(|shards| shards.saturating_mul(replicas).saturating_mul(group(setup)));
    let said = given.devices.or(of_degrees).or(preset);
    let least = least_common(least_devices(setup), group(setup).saturating_mul(replicas.max(1)));
    Ok((said.unwrap_or_else(|| whole_nodes(least, notes)), machine))
}

/// The devices and the machine of a comment such as `preset for 64 A100 GPUs` in the first lines.
fn preset(text: &str) -> (Option<u64>, Option<String>) {
    let comments = text.lines().take(10).filter(|line| line.starts_with('#'));
    let found = comments.filter_map(|line| line.split_once("preset for ")).next();
    let Some((_, words)) = found else { return (None, None) };
    let count = words.split_whitespace().next().and_then(|count| count.parse().ok());
    (count.filter(|count| *count > 0), machine_in(words))
}

/// The samples that a replica takes at once.
fn local_batch(arguments: &Arguments, sequence: u64) -> Result<u64, Wrong> {
    let of_tokens = arguments.whole("training.num-tokens-per-microbatch-per-dp-rank")?;
    let said = arguments.whole("training.local-batch-size")?;
    let of_tokens = of_tokens.map(|tokens| (tokens / sequence.max(1)).max(1));
    Ok(said.or(of_tokens).unwrap_or(8).max(1))
}

/// The global batch, and the microbatch of the set-up.
fn batch(
    arguments: &Arguments,
    setup: &mut SetupDocument,
    (local, data, sequence): (u64, u64, u64),
    notes: &mut Notes,
) -> Result<u64, Wrong> {
    let of_main = arguments.whole("parallelism.num-pp-microbatches")?;
    let is_main = arguments.has("training.num-tokens-per-microbatch-per-dp-rank");
    let stages = setup.pipeline.unwrap_or(1);
    let pieces = arguments.whole("parallelism.pipeline-parallel-microbatch-size")?;
    // Until spring 2025 a pipeline had as many microbatches as stages, unless a job file said it.
    let count = arguments.whole("parallelism.pipeline-parallel-microbatches")?;
    let is_old = arguments.is_there("experimental.pipeline-parallel-degree");
    let count = count.or(is_old.then_some(stages)).filter(|count| *count > 0);
    let pieces = pieces.or(count.map(|count| local / count)).unwrap_or(1);
    // On main the batch of a replica is that of a microbatch; in releases a pipeline cuts it.
    let (microbatch, of_replica) = match (is_main, stages > 1) {
        (true, true) => (local, local.saturating_mul(of_main.unwrap_or(1).max(1))),
        (false, true) => (pieces.clamp(1, local), local),
        (_, false) => (local, local),
    };
    setup.microbatch = Some(microbatch);
    let of_tokens = arguments.positive("training.num-tokens-per-train-step")?;
    let of_tokens = of_tokens.map(|tokens| tokens / sequence.max(1)).filter(|batch| *batch > 0);
    let said = arguments.positive("training.global-batch-size")?.or(of_tokens);
    let batch = said.unwrap_or_else(|| of_replica.saturating_mul(data));
    if stages > 1 && batch / data.max(1) > of_replica {
        let times = batch / data.max(1) / of_replica.max(1);
        notes.push(format!("torchtitan drains the pipeline {times} times a step, each time behind {of_replica} samples: one pipeline of the whole batch is planned"));
    }
    Ok(batch)
}
