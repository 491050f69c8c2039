//! Where the stages of a set-up sit, and the wires between them, for the event engine.

use pipeline::{Bandwidth, Bytes, Nanos};
use sim::cluster::{ClusterError, ClusterSpec, Host, Inter, Intra, Seating, Seats};

use crate::inputs::Inputs;
use crate::machine::Machine;
use crate::setup::{Cluster, Setup};
use crate::times::nanos;

/// One device of each stage, of the many that do the same: those that hand values to each other.
#[derive(Clone, PartialEq, Eq, Debug)]
pub struct Layout {
    /// Their nodes and wires.
    pub spec: ClusterSpec,
    /// The device of each stage among those of `spec`.
    pub devices: Vec<usize>,
}

/// The links that carry transfers between stages: every device has its port and its NIC, at the
/// rates that transfers reach, and faster by the share of a transfer that other chunks hide
/// ([`crate::Software::transfers_exposed`]); of several kinds of devices the slowest counts for all.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(crate) struct Wires {
    /// Devices that share fast links: a node of the engine, where a device is on the wires of one.
    node: u64,
    /// Bytes per second inside a node of the engine, and between two.
    inside: u64,
    outside: u64,
    latency: Nanos,
}

impl Wires {
    /// The wires between the stages of `setup`.
    pub(crate) fn of(setup: &Setup, inputs: &Inputs<'_>) -> Self {
        let machines = || inputs.cluster.parts.iter().map(|(machine, _)| machine);
        let devices = inputs.cluster.devices();
        let software = setup.software(inputs.recipe);
        let exposed = |one: &Machine| software.transfers_exposed(&one.efficiency, setup.chunks);
        let slowest = |rate: fn(&Machine) -> f64| {
            whole(machines().map(|one| rate(one) / exposed(one)).fold(f64::MAX, f64::min))
        };
        let latency = machines().map(|one| one.efficiency.hop_latency * exposed(one));
        let latency = latency.fold(0.0, f64::max);
        Self {
            node: machines().map(|machine| machine.block(devices)).min().unwrap_or(1),
            inside: slowest(Machine::hop_inside),
            outside: slowest(Machine::hop_outside),
            latency: nanos(latency),
        }
    }

    /// Time of a transfer of `bytes` between two stages with `stride` devices per stage, on an idle
    /// network; zero from a stage to itself. The same as on the cluster of [`Layout`].
    pub(crate) fn time(&self, [from, to]: [usize; 2], stride: u64, bytes: Bytes) -> Nanos {
        if from == to {
            return Nanos(0);
        }
        let node_of = |stage: usize| (stage as u64).saturating_mul(stride) / self.node;
        let rate = if node_of(from) == node_of(to) { self.inside } else { self.outside };
        let nanos = u128::from(bytes.0) * 1_000_000_000 / u128::from(rate);
        Nanos(u64::try_from(nanos).unwrap_or(u64::MAX).saturating_add(self.latency.0))
    }
}

impl Layout {
    /// The layout of `setup` on the cluster of `inputs`: neighbouring stages are [`Setup::stage_stride`]
    /// devices apart, on its wires.
    pub fn new(setup: &Setup, inputs: &Inputs<'_>) -> Result<Self, ClusterError> {
        let Wires { node, inside, outside, latency } = Wires::of(setup, inputs);
        let (devices, per_node) = seats(setup.pipeline, setup.stage_stride(), node);
        let nodes = devices.last().map_or(1, |last| *last as u64 / per_node + 1);
        let spec = ClusterSpec {
            nodes,
            devices_per_node: per_node,
            memory: None,
            intra: Intra { bandwidth: Bandwidth::new(inside)?, latency },
            inter: Inter {
                nics: per_node,
                bandwidth: Bandwidth::new(outside)?,
                latency,
                oversubscription_percent: 100,
            },
            host: host(setup, inputs.cluster, per_node),
        };
        Ok(Self { spec, devices })
    }

    /// The cluster with the stages on it.
    pub fn seated(&self) -> Result<(sim::cluster::Cluster, Seats), ClusterError> {
        let cluster = sim::cluster::Cluster::new(self.spec)?;
        let seating = Seating::Explicit(self.devices.clone());
        let seats = Seats::new(&cluster, self.devices.len(), &seating)?;
        Ok((cluster, seats))
    }

    /// The entry of `values`, given by stage, for each device; zero on a device without a stage.
    #[must_use]
    pub fn by_device(&self, values: &[Bytes]) -> Vec<Bytes> {
        let count = self.spec.nodes * self.spec.devices_per_node;
        let mut all = vec![Bytes(0); usize::try_from(count).unwrap_or(0)];
        for (&device, &value) in self.devices.iter().zip(values) {
            if let Some(own) = all.get_mut(device) {
                *own = value;
            }
        }
        all
    }
}

/// The links to the host, if every device has one: a link serves as many stages as have devices on it,
/// and the devices of a stage share its rate.
fn host(setup: &Setup, cluster: &Cluster, per_node: u64) -> Option<Host> {
    let links: Option<Vec<Host>> = cluster.parts.iter().map(|(machine, _)| machine.host).collect();
    let slowest = links?
        .into_iter()
        .min_by_key(|link| link.bandwidth.bytes_per_second() / link.devices_per_link.max(1))?;
    let (rate, behind) = (slowest.bandwidth.bytes_per_second(), slowest.devices_per_link.max(1));
    let stride = setup.stage_stride();
    let stages = if behind.is_multiple_of(stride) { behind / stride } else { 1 };
    let stages = if per_node.is_multiple_of(stages) { stages } else { 1 };
    let bandwidth = Bandwidth::new((rate * stages / behind).max(1)).ok()?;
    Some(Host { bandwidth, devices_per_link: stages })
}

/// The device of each of `stages` that are `stride` apart on nodes of `node` devices, where nodes and
/// devices without a stage are left out; and the number of devices kept per node.
fn seats(stages: u64, stride: u64, node: u64) -> (Vec<usize>, u64) {
    let node_of = |stage: u64| stage.saturating_mul(stride) / node;
    let mut places: Vec<(u64, u64)> = Vec::new();
    for stage in 0..stages {
        let place = match places.last() {
            Some(&(last, at)) if node_of(stage) == node_of(stage - 1) => (last, at + 1),
            Some(&(last, _)) => (last + 1, 0),
            None => (0, 0),
        };
        places.push(place);
    }
    let per_node = places.iter().map(|(_, at)| at + 1).max().unwrap_or(1);
    let device = |(node, at): (u64, u64)| usize::try_from(node * per_node + at).unwrap_or(0);
    (places.into_iter().map(device).collect(), per_node)
}

/// A rate in whole bytes per second, at least 1.
#[allow(clippy::cast_possible_truncation, clippy::cast_sign_loss)] // A cast of floats saturates.
fn whole(rate: f64) -> u64 {
    (rate as u64).max(1)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn stages_sit_on_the_nodes_that_their_devices_are_of() {
        assert_eq!(seats(4, 8, 8), (vec![0, 1, 2, 3], 1));
        assert_eq!(seats(4, 100, 8), (vec![0, 1, 2, 3], 1));
        assert_eq!(seats(6, 2, 8), (vec![0, 1, 2, 3, 4, 5], 4));
        // Devices 0, 3, 6 | 9, 12, 15 | 18, 21 | 24.
        assert_eq!(seats(9, 3, 8), (vec![0, 1, 2, 3, 4, 5, 6, 7, 9], 3));
        assert_eq!(seats(1, 1, 8), (vec![0], 1));
    }
}
