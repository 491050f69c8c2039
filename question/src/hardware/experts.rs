//! The devices over which experts are spread, from the keys: [`ExpertGroup`].

use sim::cluster::{Cluster, MAX_DEVICES, Seats};
use sim::{ExpertGroup, ExpertGroupError, Hardware};

use crate::keys::Keys;

/// How many replicas of a pipeline of `stages` the cluster must have room for: as many as an expert group has
/// members, where one is asked for.
pub(super) fn replicas(keys: &Keys, stages: usize) -> Result<usize, String> {
    let Some(members) = keys.expert_parallel.filter(|_| keys.moves_bytes()) else {
        return Ok(1);
    };
    let room = MAX_DEVICES / (stages as u64).max(1);
    match usize::try_from(members) {
        Ok(replicas) if members <= room.max(1) => Ok(replicas.max(1)),
        _ => Err(format!(
            "{members} replicas of {stages} stages: a cluster has at most {MAX_DEVICES} devices, so that \
             expert-parallel is at most {room} here"
        )),
    }
}

/// The devices over which experts are spread, if segments move bytes over the wires of `cluster`; else an error
/// message and a remedy.
pub(super) fn group(
    keys: &Keys,
    cluster: &Cluster,
    seats: &Seats,
) -> Result<Option<ExpertGroup>, (String, String)> {
    let wanted = keys.expert_parallel.filter(|_| keys.moves_bytes());
    let Some(members) = wanted.filter(|_| keys.hardware.cluster.is_some()) else {
        return Ok(None);
    };
    let cure = |error: &ExpertGroupError| {
        match error {
        ExpertGroupError::Empty => "give 1 or more".to_owned(),
        ExpertGroupError::NoWires => "give --cluster".to_owned(),
        ExpertGroupError::Uneven { in_node, .. } => {
            format!("give a divisor or a multiple of {in_node}, or another --seating")
        }
        ExpertGroupError::TooLarge { .. } => {
            "give a smaller group, or a cluster with more nodes; a cluster file without `nodes` has as many as \
             it takes"
                .to_owned()
        }
    }
    };
    let group = ExpertGroup::new(cluster, seats, members);
    group.map(Some).map_err(|error| (error.to_string(), cure(&error)))
}

/// How the expert group of `hardware` lies on its nodes, in words, if it has one.
pub fn spread(hardware: &Hardware) -> Option<String> {
    let group = hardware.experts?;
    let (members, in_node) = (group.members(), group.in_node());
    let nic = match group.behind_nic() {
        1 => "a NIC each".to_owned(),
        many => format!("{many} behind a NIC"),
    };
    let leaves = match members - in_node {
        0 => "nothing leaves the node".to_owned(),
        others => format!("{others}/{members} of what each sends leaves the node, {nic}"),
    };
    let count = |number: u64| format!("{number} device{}", if number == 1 { "" } else { "s" });
    Some(format!(
        "an expert group of {}, all in step: {in_node} in each node, where this pipeline uses {}; {leaves}",
        count(members),
        count(group.used_in_node()),
    ))
}
