//! Segments that are sizes in place of times: what they need, and how long they take.

use pipeline::{Bytes, Nanos};

use super::chain::Wrong;
use crate::hardware::Hardware;
use crate::keys::Keys;

/// How long a segment takes that moves bytes over the wires of `hardware`, if it has expert groups.
pub(super) fn wires(hardware: &Hardware) -> Option<impl Fn(Bytes) -> Nanos> {
    let group = hardware.experts?;
    Some(move |bytes| group.time(&hardware.cluster, bytes))
}

/// The most bytes that a segment moves, as a message.
pub(super) const MOST_BYTES: Bytes = Bytes(1 << 44);

/// Checks that segments that are sizes have wires, and that those can carry them.
pub(super) fn check(keys: &Keys) -> Result<(), Wrong> {
    if keys.expert_parallel == Some(0) {
        let message = "expert-parallel is 0: give the number of devices over which a layer's experts are spread";
        return Err(("expert-parallel", message.to_owned()));
    }
    if let Some((key, one, bytes)) = keys.segment_sizes().find(|(_, _, bytes)| *bytes > MOST_BYTES)
    {
        return Err((key, format!("the segment {} moves {bytes}: at most {MOST_BYTES}", one.name)));
    }
    let needed = [
        ("--cluster", keys.hardware.cluster.is_none()),
        ("--expert-parallel", keys.expert_parallel.is_none()),
    ];
    let missing: Vec<&str> = needed.iter().filter(|one| one.1).map(|one| one.0).collect();
    match keys.segment_sizes().next() {
        Some((key, one, bytes)) if !missing.is_empty() => {
            let (name, missing) = (&one.name, missing.join(" and "));
            let message = format!(
                "the segment {name} is a size, {bytes}, which moves over wires: give {missing}, or its time"
            );
            Err((key, message))
        }
        _ => Ok(()),
    }
}
