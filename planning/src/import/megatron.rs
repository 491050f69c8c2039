//! From arguments of Megatron-LM to a question.

mod model;
mod recipe;
mod setup;

use std::path::Path;

use super::arguments::{Arguments, Wrong};
use super::{Given, Imported, harmless};
use crate::document::{ClusterDocument, Document, ModelDocument};

/// Tokens that a script without a number of steps is taken to train on.
const TOKENS: f64 = 1e12;
/// Machine of a question that names none.
const MACHINE: &str = "h100";

/// What a value is assumed to be, and why.
type Notes = Vec<String>;

/// The question that `arguments` of the file `path` ask.
pub(super) fn question(
    path: &Path,
    arguments: &Arguments,
    given: &Given,
) -> Result<Imported, Wrong> {
    let mut notes = Notes::new();
    let model = model::sizes(arguments, given, &mut notes)?;
    let sequence = arguments.whole("seq-length")?.ok_or_else(|| missing("seq-length"))?;
    let setup = setup::setup(arguments, &model, &mut notes)?;
    let devices = devices(arguments, &setup, given, &mut notes)?;
    let batch = batch(arguments, &setup, devices, &mut notes)?;
    let tokens = match given.tokens {
        Some(tokens) => tokens,
        None => tokens(arguments, (batch, sequence), &mut notes)?,
    };
    let machine = given.machine.clone().unwrap_or_else(|| {
        notes.push(format!("the machine is taken to be {MACHINE}: name yours with --machine"));
        MACHINE.to_owned()
    });
    let training = recipe::training(arguments, &setup, &mut notes)?;
    let cluster = ClusterDocument {
        machine: Some(machine),
        devices: Some(vec![devices]),
        parts: None,
        profile: None,
        price: None,
    };
    let document = Document {
        title: path.file_stem().map(|stem| stem.to_string_lossy().into_owned()),
        model: ModelDocument::Sizes(model),
        sequence: Some(sequence),
        attention: recipe::attention(arguments)?,
        tokens,
        batch,
        deadline_days: None,
        budget: None,
        contingency: None,
        storage: None,
        price: None,
        framework: Some("megatron".to_owned()),
        plans: None,
        cluster: vec![cluster],
        setup: Some(setup),
        search: Default::default(),
        training,
        lengths: Default::default(),
        noise: Default::default(),
    };
    let unread = arguments.unread().into_iter();
    // A dump has every argument there is, most of them by default.
    let left_out = match arguments.is_dump {
        true => Vec::new(),
        false => unread.filter(|name| !harmless::is(name)).map(str::to_owned).collect(),
    };
    Ok(Imported { document, notes, measured: None, left_out })
}

/// The samples of a global batch; without them a microbatch of each replica, as Megatron-LM takes it.
fn batch(
    arguments: &Arguments,
    setup: &crate::SetupDocument,
    devices: u64,
    notes: &mut Notes,
) -> Result<u64, Wrong> {
    if let Some(batch) = arguments.whole("global-batch-size")? {
        return Ok(batch);
    }
    let group = product([setup.tensor, setup.pipeline, setup.context]);
    let batch = setup.microbatch.unwrap_or(1).saturating_mul((devices / group).max(1));
    notes.push(format!("--global-batch-size is missing: a microbatch of each replica, {batch}"));
    Ok(batch)
}

fn missing(name: &str) -> Wrong {
    Wrong {
        name: name.to_owned(),
        message: "it is missing".to_owned(),
        cure: Some("a plan needs it: add it to the script, or give the log of a run".to_owned()),
    }
}

/// The devices that the launch says, or the fewest of the set-up.
fn devices(
    arguments: &Arguments,
    setup: &crate::SetupDocument,
    given: &Given,
    notes: &mut Notes,
) -> Result<u64, Wrong> {
    // Of the launch, whoever says them.
    let launched = |of_torch, of_slurm| match arguments.whole(of_torch) {
        Ok(count) => Ok(count.or(arguments.whole(of_slurm).unwrap_or(None))),
        Err(wrong) if given.devices.is_none() => Err(wrong),
        Err(_) => Ok(None),
    };
    let nodes = launched("nnodes", "nodes")?;
    let each = launched("nproc-per-node", "ntasks-per-node")?;
    let of_launch = each.map(|each| each.saturating_mul(nodes.unwrap_or(1)));
    let said = given.devices.or(arguments.whole("world-size")?).or(of_launch);
    let degrees = [setup.tensor, setup.pipeline, setup.context];
    let dense = product(degrees);
    let experts =
        setup.expert.unwrap_or(1).saturating_mul(setup.expert_tensor.or(setup.tensor).unwrap_or(1));
    let sparse = experts.saturating_mul(setup.pipeline.unwrap_or(1)).max(1);
    let least = least_common(dense, sparse);
    match said {
        Some(said) if given.devices.is_some() || said.is_multiple_of(least) => Ok(said),
        Some(said) => {
            notes.push(format!(
                "the launch has {said} devices, of which the set-up needs a multiple of {least}: {least} are taken; name yours with --devices"
            ));
            Ok(least)
        }
        None => {
            notes.push(format!("the script does not say how many devices there are: {least} are taken, the fewest of the set-up; name yours with --devices"));
            Ok(least)
        }
    }
}

/// The product of the degrees that are given.
fn product(degrees: [Option<u64>; 3]) -> u64 {
    degrees.into_iter().flatten().fold(1, u64::saturating_mul).max(1)
}

fn least_common(a: u64, b: u64) -> u64 {
    let (mut x, mut y) = (a, b);
    while y > 0 {
        (x, y) = (y, x % y);
    }
    (a / x.max(1)).saturating_mul(b)
}

/// The tokens that the steps or samples of the script make.
#[allow(clippy::cast_precision_loss)] // Some 10^13.
fn tokens(
    arguments: &Arguments,
    (batch, sequence): (u64, u64),
    notes: &mut Notes,
) -> Result<f64, Wrong> {
    let of_samples = arguments.whole("train-samples")?;
    let steps = arguments.whole("train-iters")?;
    let of_steps = steps.map(|steps| steps.saturating_mul(batch));
    match of_samples.or(of_steps).filter(|samples| *samples > 0) {
        Some(samples) => Ok(samples as f64 * sequence as f64),
        None => {
            notes.push(format!("neither --train-iters nor --train-samples is there: {TOKENS:e} tokens are taken; give yours with --tokens"));
            Ok(TOKENS)
        }
    }
}
