//! How many devices a launch takes.

use super::super::arguments::{Arguments, Wrong};
use super::super::assemble::{least_devices, whole_nodes};
use super::{Given, Notes};
use planning::SetupDocument;

/// The devices that the launch says, or the scheduler, or the fewest of the set-up.
pub(super) fn devices(
    arguments: &Arguments,
    setup: &SetupDocument,
    given: &Given,
    notes: &mut Notes,
) -> Result<u64, Wrong> {
    let launched = match launched(arguments) {
        Err(_) if given.devices.is_some() => None,
        launched => launched?,
    };
    let batch = arguments.batch;
    let nodes = batch.nodes.unwrap_or(1);
    let tasks = batch.tasks.filter(|tasks| *tasks > 1);
    let asked = batch.all.or(batch.devices.or(tasks).map(|each| each.saturating_mul(nodes)));
    if let (Some(launched), Some(asked), None) = (launched, asked, given.devices)
        && launched != asked
    {
        notes.push(format!(
            "the launch has {launched} devices, #SBATCH asks for {asked}: {launched} are taken; name yours with --devices"
        ));
    }
    let said = given.devices.or(arguments.whole("world-size")?).or(launched).or(asked);
    let least = least_devices(setup);
    match said {
        Some(said) if given.devices.is_some() || said.is_multiple_of(least) => Ok(said),
        Some(said) => {
            notes.push(format!(
                "the launch has {said} devices, of which the set-up needs a multiple of {least}: {least} are taken; name yours with --devices"
            ));
            Ok(least)
        }
        None if arguments.is_keys() => Ok(whole_nodes(least, notes)),
        None => {
            notes.push(format!("the script does not say how many devices there are: {least} are taken, the fewest of the set-up; name yours with --devices"));
            Ok(least)
        }
    }
}

/// The devices that the flags of the launch say: those of torchrun or DeepSpeed, else tasks of a scheduler.
fn launched(arguments: &Arguments) -> Result<Option<u64>, Wrong> {
    let first = |names: &[&str]| -> Result<Option<u64>, Wrong> {
        let mut found = None;
        for name in names {
            found = found.or(arguments.whole(name)?);
        }
        Ok(found)
    };
    let nodes = first(&["nnodes", "num-nodes", "nodes"])?.or(arguments.batch.nodes).unwrap_or(1);
    let each = first(&["nproc-per-node", "num-gpus"])?;
    let tasks = first(&["ntasks", "np"])?;
    let each_of_tasks = first(&["ntasks-per-node", "gpus-per-node"])?;
    let of_each = |each: u64| each.saturating_mul(nodes);
    Ok(each.map(of_each).or(tasks).or(each_of_tasks.map(of_each)))
}
