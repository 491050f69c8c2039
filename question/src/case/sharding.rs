//! Collectives of parameters and gradients, from the keys.

use std::collections::BTreeSet;

use pipeline::sharding::{ParameterTimes, Reshard, Sharding};
use pipeline::{Bytes, Costs, Fault, Placement, Schedule, Shape, Share, spread_by_layers};

use super::{ScheduleSource, amounts};
use crate::hardware::Hardware;
use crate::keys::Keys;
use crate::resolve::layers_of_layout;
use crate::values::passes::ShardingKey;

/// A key, and what is wrong with it.
type Wrong = (&'static str, String);

/// How many chunks are gathered ahead: with the one that runs they are torch's `max_active_stages`, 3.
const PREFETCH: u64 = 2;

/// What `keys` ask for, if it is anything.
pub(super) fn asked(keys: &Keys) -> Option<Sharding> {
    match keys.sharding? {
        ShardingKey::None => None,
        ShardingKey::Optimizer => Some(Sharding::Optimizer),
        ShardingKey::Gradients => Some(Sharding::Gradients),
        ShardingKey::Fsdp => Some(Sharding::Fsdp {
            prefetch: u16::try_from(keys.prefetch.unwrap_or(PREFETCH)).unwrap_or(u16::MAX),
            reshard: keys.reshard.map_or_else(Reshard::default, |key| key.0),
        }),
    }
}

/// Checks that the keys of collectives go together and with the others.
pub(super) fn check(keys: &Keys) -> Result<(), Wrong> {
    let Some(sharding) = asked(keys) else {
        return match keys.of_sharding().next() {
            Some(key) if keys.sharding.is_none() => Err((
                key,
                format!(
                    "{key} is about parameters that replicas divide: say what they divide with \
                     --sharding optimizer, gradients or fsdp"
                ),
            )),
            _ => Ok(()),
        };
    };
    let missing = [("gather", keys.gather.is_none()), ("reduce", keys.reduce.is_none())];
    let missing = missing.into_iter().filter(|(_, lacks)| *lacks).map(|(key, _)| key);
    let missing: Vec<String> = missing.map(|key| format!("--{key}")).collect();
    if !missing.is_empty() {
        let message = format!(
            "sharding needs the times of its collectives: {} missing; 0ns is one that costs nothing",
            missing.join(", ")
        );
        return Err(("sharding", message));
    }
    let of_fsdp = [("prefetch", keys.prefetch.is_some()), ("reshard", keys.reshard.is_some())];
    let is_fsdp = matches!(sharding, Sharding::Fsdp { .. });
    if let (false, Some((key, _))) = (is_fsdp, of_fsdp.into_iter().find(|(_, given)| *given)) {
        let message = format!(
            "{key} is for --sharding fsdp: otherwise parameters are gathered once, and kept whole"
        );
        return Err((key, message));
    }
    if keys.hardware.gradient_reduction.is_some() {
        let message = "gradient-reduction and sharding exclude each other: reduce gives the time";
        return Err(("gradient-reduction", message.to_owned()));
    }
    Ok(())
}

/// Checks that `rule` on `hardware` can have collectives, if `keys` ask for them.
pub(super) fn fits(
    keys: &Keys,
    rule: &ScheduleSource,
    hardware: Option<&Hardware>,
) -> Result<(), Wrong> {
    if asked(keys).is_none() {
        return Ok(());
    }
    if amounts::steady(keys, rule).is_some() {
        let message = format!(
            "{} never flushes, and keeps more versions of the weights than one: replicas cannot divide them; \
             leave sharding out, or ask about a schedule that flushes",
            rule.name()
        );
        return Err(("sharding", message));
    }
    let seats = hardware.map_or(&[][..], |hardware| hardware.seats.devices());
    if seats.iter().collect::<BTreeSet<_>>().len() < seats.len() {
        let message = "sharding needs a device for every stage: of stages that share one it is not known \
                       what their collectives take from each other; leave --seating out, or sharding";
        return Err(("sharding", message.to_owned()));
    }
    Ok(())
}

/// `costs` with the times of the collectives that `keys` ask for, if they do.
pub(super) fn costs(keys: &Keys, costs: Costs, at: (Shape, Placement)) -> Result<Costs, Wrong> {
    if asked(keys).is_none() {
        return Ok(costs);
    }
    let gather = by_chunk(keys, "gather", keys.gather.as_deref(), at)?;
    let reduce = by_chunk(keys, "reduce", keys.reduce.as_deref(), at)?;
    let times = ParameterTimes::new(gather, reduce);
    Ok(costs.with_parameters(match keys.sharding_contention {
        Some(key) => times.under(key.contention()),
        None => times,
    }))
}

/// The bytes of the parameters of each chunk, in model order, if they are known.
pub(super) fn bytes(keys: &Keys, at: (Shape, Placement)) -> Result<Option<Vec<Bytes>>, Wrong> {
    let known = keys.parameter_bytes.as_deref().filter(|_| asked(keys).is_some());
    known.map(|told| by_chunk(keys, "parameter-bytes", Some(told), at)).transpose()
}

/// `schedule` with the collectives that `keys` ask for, if they do.
pub(super) fn sharded(keys: &Keys, schedule: Schedule) -> Schedule {
    match asked(keys) {
        Some(sharding) => schedule.sharded(sharding),
        None => schedule,
    }
}

/// What is said of keys that have no influence, and of what is taken for granted.
pub(super) fn notes(keys: &Keys) -> Option<String> {
    match asked(keys) {
        None => {
            let given: Vec<&str> = keys.of_sharding().collect();
            (!given.is_empty()).then(|| format!("nothing is sharded, {} is ignored", given.join(", ")))
        }
        Some(_) => keys.sharding_contention.is_none().then(|| {
            "collectives of parameters are taken to slow no pass beside them, which flatters them: give \
             --sharding-contention HOLD,SLOW where that was measured"
                .to_owned()
        }),
    }
}

/// The value of each chunk, in model order, from what was told.
fn by_chunk<T: Share>(
    keys: &Keys,
    what: &'static str,
    told: Option<&[T]>,
    (shape, placement): (Shape, Placement),
) -> Result<Vec<T>, Wrong> {
    let stage = |chunk| placement.stage(shape, chunk, 0);
    let values =
        spread_by_layers(what, told.unwrap_or_default(), shape, layers_of_layout(keys), stage);
    values.map_err(|fault: Fault| (what, fault.to_string()))
}
