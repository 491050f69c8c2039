//! From arguments of Megatron-LM to a question.

mod base;
mod deepspeed;
mod devices;
mod model;
mod recipe;
mod schedule;
mod setup;

use std::path::Path;

use super::arguments::{Arguments, Wrong};
use super::assemble::{Notes, Parts, Steps, product};
use super::table::MEGATRON;
use super::{Given, Imported};
use planning::SizesDocument;

pub(super) use self::deepspeed::stage;
pub(super) use self::schedule::of_zero_bubble;

/// The question that `arguments` of the file `path` ask, of `base` where they do not have the sizes of a model.
pub(super) fn question(
    path: &Path,
    arguments: &Arguments,
    given: &Given,
    base: Option<SizesDocument>,
) -> Result<Imported, Wrong> {
    arguments.are_of(&MEGATRON);
    let mut notes = Notes::new();
    let mut model = base::sizes(arguments, given, base, &mut notes)?;
    let sequence =
        arguments.whole("seq-length")?.ok_or_else(|| missing(arguments, "seq-length"))?;
    let setup = setup::setup(arguments, &model, &mut notes)?;
    let layout = arguments.text("pipeline-model-parallel-layout")?;
    if model.mtp.is_some() && layout.is_some_and(|layout| !layout.contains('m')) {
        notes.push("the layout has no layer of multi-token prediction: none is planned".to_owned());
        model.mtp = None;
    }
    let devices = devices::devices(arguments, &setup, given, &mut notes)?;
    let batch = batch(arguments, &setup, devices, &mut notes)?;
    let steps = Steps {
        samples: arguments.whole("train-samples")?,
        steps: arguments.whole("train-iters")?,
        names: ["train-iters", "train-samples"].map(|name| arguments.written(name)),
    };
    let of_all = arguments.number("train-tokens")?;
    let tokens = match of_all.filter(|_| given.tokens.is_none()) {
        Some(tokens) => tokens,
        None => steps.tokens(given, (batch, sequence), &mut notes),
    };
    let training = recipe::training(arguments, &setup, &mut notes)?;
    let is_of_megatron = setup.schedule.is_none();
    let parts = Parts {
        model,
        sequence,
        attention: recipe::attention(arguments)?,
        batch,
        tokens,
        framework: is_of_megatron.then_some("megatron"),
        devices,
        setup: Some(setup),
        training,
        ..Parts::default()
    };
    Ok(parts.imported(path, given, notes, arguments))
}

/// The samples of a global batch; without them a microbatch of each replica, as Megatron-LM takes it.
fn batch(
    arguments: &Arguments,
    setup: &planning::SetupDocument,
    devices: u64,
    notes: &mut Notes,
) -> Result<u64, Wrong> {
    if let Some(batch) = arguments.whole("global-batch-size")? {
        return Ok(batch);
    }
    let group = product([setup.tensor, setup.pipeline, setup.context]);
    let batch = setup.microbatch.unwrap_or(1).saturating_mul((devices / group).max(1));
    let name = arguments.written("global-batch-size");
    notes.push(format!("{name} is missing: a microbatch of each replica, {batch}"));
    Ok(batch)
}

fn missing(arguments: &Arguments, name: &str) -> Wrong {
    let kind = arguments.kind();
    Wrong::missing(name, format!("a plan needs it: add it to the {kind}, or give the log of a run"))
}
