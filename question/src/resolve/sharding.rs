//! Collectives of parameters and gradients, from the keys.

use std::collections::BTreeSet;

use pipeline::sharding::{ParameterTimes, Reshard, Sharding};
use pipeline::{Bytes, Costs, Share};

use super::pipeline::Pipeline;
use crate::hardware::Hardware;
use crate::keys::Keys;
use crate::source::ScheduleSource;
use crate::values::passes::ReplicaShardingKey;

/// A key and the error message about its value.
type Wrong = (&'static str, String);

/// How many chunks are gathered ahead: with the one that runs they are torch's `max_active_stages`, 3.
const PREFETCH: u64 = 2;

/// The sharding that `keys` ask for, if any.
pub fn asked(keys: &Keys) -> Option<Sharding> {
    match keys.sharding? {
        ReplicaShardingKey::None => None,
        ReplicaShardingKey::Optimizer => Some(Sharding::Optimizer),
        ReplicaShardingKey::Gradients => Some(Sharding::Gradients),
        ReplicaShardingKey::Fsdp => Some(Sharding::Fsdp {
            prefetch: u16::try_from(keys.prefetch.unwrap_or(PREFETCH)).unwrap_or(u16::MAX),
            reshard: keys.reshard.map_or_else(Reshard::default, |key| key.0),
        }),
    }
}

/// Checks that the keys of collectives are consistent.
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
    pipeline: &Pipeline,
    hardware: Option<&Hardware>,
) -> Result<(), Wrong> {
    if asked(keys).is_none() {
        return Ok(());
    }
    if pipeline.steady.is_some() {
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

/// The parameters that replicas divide.
pub struct Parameters {
    /// The states that they divide.
    pub sharding: Sharding,
    /// The bytes of each chunk's, in model order, if they are known.
    pub bytes: Option<Vec<Bytes>>,
}

/// The parameters that `keys` have replicas divide, if they do, and `costs` with the times of their collectives.
pub(super) fn parameters(
    keys: &Keys,
    costs: Costs,
    pipeline: &Pipeline,
) -> Result<(Option<Parameters>, Costs), Wrong> {
    fn by_chunk<T: Share>(
        pipeline: &Pipeline,
        key: &'static str,
        given: Option<&[T]>,
    ) -> Result<Vec<T>, Wrong> {
        let values = pipeline.by_chunk(key, given.unwrap_or_default());
        values.map_err(|fault| (key, fault.to_string()))
    }
    let Some(sharding) = asked(keys) else { return Ok((None, costs)) };
    let gather = by_chunk(pipeline, "gather", keys.gather.as_deref())?;
    let reduce = by_chunk(pipeline, "reduce", keys.reduce.as_deref())?;
    let bytes = keys.parameter_bytes.as_deref();
    let bytes =
        bytes.map(|given| by_chunk(pipeline, "parameter-bytes", Some(given))).transpose()?;
    let times = ParameterTimes::new(gather, reduce);
    let times = match keys.sharding_contention {
        Some(key) => times.under(key.contention()),
        None => times,
    };
    Ok((Some(Parameters { sharding, bytes }), costs.with_parameters(times)))
}

/// A note about sharding keys that are ignored, or about collectives that are assumed to slow no pass.
pub(crate) fn notes(keys: &Keys) -> Option<String> {
    match asked(keys) {
        None => {
            let given: Vec<&str> = keys.of_sharding().collect();
            (!given.is_empty()).then(|| format!("nothing is sharded, {} is ignored", given.join(", ")))
        }
        Some(_) => keys.sharding_contention.is_none().then(|| {
            "collectives of parameters are assumed not to slow overlapped passes, which is optimistic: give \
             --sharding-contention HOLD,SLOW where that was measured"
                .to_owned()
        }),
    }
}
