//! The all-to-alls of an expert group: how far its members lie from each other, which wires carry what
//! they send, and how long that takes.
//!
//! The experts of a layer are spread over a group of devices. A stage of the pipeline is one of them; the
//! others are the same stage of other replicas of the pipeline. Replicas fill the nodes as this one does: where
//! it uses s devices of a node with d, the node has room for d / s replicas, and as many members of each group.
//! All members are in step: what one sends, all do.

use pipeline::{Bytes, Nanos};
use thiserror::Error;

use crate::cluster::{Cluster, Seats};
use crate::network::divide_up;

/// Why a group cannot lie on a cluster.
#[derive(Clone, PartialEq, Eq, Debug, Error)]
pub enum ExpertGroupError {
    /// Without members.
    #[error("experts are spread over at least 1 device, not 0")]
    Empty,
    /// No wires.
    #[error(
        "links that are never shared carry no all-to-all: it needs a cluster with nodes and NICs"
    )]
    NoWires,
    /// A node would hold a part of a group, and a part of another.
    #[error(
        "a group of {members} devices does not fill nodes that hold {in_node} of its members each \
         (their devices over those that this pipeline uses in a node)"
    )]
    Uneven {
        /// Number of members that it has.
        members: u64,
        /// How many of them fit into a node.
        in_node: u64,
    },
    /// More replicas than the cluster has room for.
    #[error(
        "a group of {members} devices is the same stage of {members} replicas with {used} devices each, but \
         the cluster has {devices} devices"
    )]
    TooLarge {
        /// Number of members that it has.
        members: u64,
        /// Devices of a replica.
        used: u64,
        /// Devices of the cluster.
        devices: u64,
    },
}

/// The devices over which the experts of a layer are spread, by their distance from any one member.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct ExpertGroup {
    members: u64,
    in_node: u64,
    behind_nic: u64,
    used_in_node: u64,
}

/// Traffic of an all-to-all over one kind of wires, summed over the members that share these wires with the device.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct Load {
    /// The wires out and in, which it fills alike, as positions in [`Cluster::wires`].
    pub wires: [usize; 2],
    /// Bytes in each direction.
    pub bytes: u64,
}

impl ExpertGroup {
    /// A group of `members` on `cluster`, where this replica of the pipeline sits at `seats`.
    ///
    /// # Errors
    /// If there are no members or no wires, nodes are not filled evenly, or the cluster has no room for as
    /// many replicas.
    pub fn new(cluster: &Cluster, seats: &Seats, members: u64) -> Result<Self, ExpertGroupError> {
        if members == 0 {
            return Err(ExpertGroupError::Empty);
        }
        let Some([per_node, per_nic]) = cluster.neighbours() else {
            return Err(ExpertGroupError::NoWires);
        };
        let mut used = seats.devices().to_vec();
        used.sort_unstable();
        used.dedup();
        let (all, devices) = (used.len() as u64, cluster.devices() as u64);
        if u128::from(members) * u128::from(all) > u128::from(devices) {
            return Err(ExpertGroupError::TooLarge { members, used: all, devices });
        }
        let counts = |place: &dyn Fn(usize) -> usize| {
            let places = used.iter().map(|&device| place(device));
            let mut counts = std::collections::BTreeMap::<usize, u64>::new();
            places.for_each(|place| *counts.entry(place).or_default() += 1);
            counts.into_values().collect::<Vec<u64>>()
        };
        // The fullest node says how many replicas go into one, the emptiest NIC how many share one.
        let nodes = counts(&|device| cluster.node_of(device));
        let used_in_node = nodes.into_iter().max().unwrap_or(1);
        let in_node = per_node / used_in_node;
        let nics = counts(&|device| cluster.nic_of(device));
        let replicas = per_nic / nics.into_iter().min().unwrap_or(1);
        let divides = in_node.is_multiple_of(members) || members.is_multiple_of(in_node);
        if !divides {
            return Err(ExpertGroupError::Uneven { members, in_node });
        }
        let in_node = in_node.min(members);
        let behind_nic = replicas.clamp(1, in_node);
        Ok(Self { members, in_node, behind_nic, used_in_node })
    }

    /// Number of devices that it has.
    #[must_use]
    pub const fn members(self) -> u64 {
        self.members
    }

    /// How many of them are in one node.
    #[must_use]
    pub const fn in_node(self) -> u64 {
        self.in_node
    }

    /// How many of them share a NIC.
    #[must_use]
    pub const fn behind_nic(self) -> u64 {
        self.behind_nic
    }

    /// Number of devices of a node that one replica of the pipeline uses, where it uses most.
    #[must_use]
    pub const fn used_in_node(self) -> u64 {
        self.used_in_node
    }

    /// The traffic on the wires of `device` if each member sends `bytes` in all, in equal parts to every member:
    /// `(in node - 1) / members` of it over its own port; `(members - in node) / members` of it through the NIC, times
    /// the members behind that NIC; and the same share of all members of the node through the uplink of an
    /// oversubscribed node. The part that a device keeps uses no wire.
    #[must_use]
    pub fn loads(self, cluster: &Cluster, device: usize, bytes: Bytes) -> [Option<Load>; 3] {
        let Self { members, in_node, behind_nic, .. } = self;
        let (stays, leaves) = (in_node - 1, members - in_node);
        let [port, nic, uplink] = cluster.wires_of(device);
        let load = |wires: Option<[usize; 2]>, share: u64, senders: u64| {
            let share = (u128::from(bytes.0) * u128::from(share)).div_ceil(u128::from(members));
            let bytes = u64::try_from(share * u128::from(senders)).unwrap_or(u64::MAX);
            wires.filter(|_| bytes > 0).map(|wires| Load { wires, bytes })
        };
        [load(port, stays, 1), load(nic, leaves, behind_nic), load(uplink, leaves, in_node)]
    }

    /// Latency from the last byte sent to its arrival: that between nodes if any member is in another node, else that
    /// within the node; zero for a single member.
    #[must_use]
    pub fn latency(self, cluster: &Cluster) -> Nanos {
        let [within, between] = cluster.latencies();
        if self.members > self.in_node {
            between
        } else if self.members > 1 {
            within
        } else {
            Nanos(0)
        }
    }

    /// How long an all-to-all takes in which each device sends `bytes` in all, while nothing else moves: the
    /// longest of its loads, each over the bandwidth of its wires, and one latency.
    #[must_use]
    pub fn time(self, cluster: &Cluster, bytes: Bytes) -> Nanos {
        let on_wires = |load: Load| {
            let bandwidth = |&wire: &usize| cluster.wires()[wire].bandwidth.bytes_per_second();
            let slowest = load.wires.iter().map(bandwidth).min().unwrap_or(1);
            divide_up(u128::from(load.bytes) * 1_000_000_000, slowest)
        };
        match self.loads(cluster, 0, bytes).into_iter().flatten().map(on_wires).max() {
            None => Nanos(0),
            Some(longest) => Nanos(longest.saturating_add(self.latency(cluster).0)),
        }
    }
}

#[cfg(test)]
mod tests {
    use pipeline::Bandwidth;

    use super::*;
    use crate::cluster::{ClusterSpec, Inter, Intra, Seating};

    /// Nodes of 8 devices: ports of 8 bytes per ns, 4 NICs of 1.
    fn cluster(nodes: u64, percent: u64) -> Cluster {
        let bandwidth = |gb: u64| Bandwidth::new(gb * 1_000_000_000).unwrap();
        Cluster::new(ClusterSpec {
            nodes,
            devices_per_node: 8,
            memory: None,
            intra: Intra { bandwidth: bandwidth(8), latency: Nanos(3) },
            inter: Inter {
                nics: 4,
                bandwidth: bandwidth(1),
                latency: Nanos(5),
                oversubscription_percent: percent,
            },
            host: None,
        })
        .unwrap()
    }

    fn group(cluster: &Cluster, seating: &Seating, stages: usize, members: u64) -> ExpertGroup {
        let seats = Seats::new(cluster, stages, seating).unwrap();
        ExpertGroup::new(cluster, &seats, members).unwrap()
    }

    #[test]
    fn a_group_in_a_node_uses_its_ports() {
        // A stage in each node, its group around it: of 800 bytes 700 go to the 7 others at 8 bytes/ns.
        let cluster = cluster(4, 100);
        let group = group(&cluster, &Seating::AcrossNodes, 4, 8);
        assert_eq!([group.in_node(), group.behind_nic()], [8, 2]);
        assert_eq!(group.time(&cluster, Bytes(800)), Nanos(88 + 3));
        assert_eq!(group.time(&cluster, Bytes(0)), Nanos(0));
    }

    #[test]
    fn members_behind_a_nic_share_it() {
        // Of 32 members 8 are in a node: 24/32 of 320 bytes leave it, and two devices have one NIC.
        let wide = cluster(4, 100);
        let one = group(&wide, &Seating::Contiguous, 1, 32);
        assert_eq!(one.time(&wide, Bytes(320)), Nanos(2 * 240 + 5));
        // Its 4 NICs of 1 byte per ns over 4:1 leave 1 to the uplink, for 8 members.
        let thin = cluster(4, 400);
        let one = group(&thin, &Seating::Contiguous, 1, 32);
        assert_eq!(one.time(&thin, Bytes(320)), Nanos(8 * 240 + 5));
    }

    #[test]
    fn a_pipeline_that_fills_its_node_leaves_its_groups_to_other_nodes() {
        let cluster = cluster(4, 100);
        let group = group(&cluster, &Seating::Contiguous, 8, 4);
        assert_eq!([group.in_node(), group.behind_nic()], [1, 1]);
        assert_eq!(group.time(&cluster, Bytes(400)), Nanos(300 + 5));
    }

    #[test]
    fn what_cannot_be_is_refused() {
        let cluster = cluster(4, 100);
        let error = |seating: Seating, stages: usize, members: u64| {
            let seats = Seats::new(&cluster, stages, &seating).unwrap();
            ExpertGroup::new(&cluster, &seats, members).unwrap_err()
        };
        assert_eq!(error(Seating::Contiguous, 1, 0), ExpertGroupError::Empty);
        let uneven = ExpertGroupError::Uneven { members: 12, in_node: 8 };
        assert_eq!(error(Seating::Contiguous, 1, 12), uneven);
        let large = ExpertGroupError::TooLarge { members: u64::MAX, used: 4, devices: 32 };
        assert_eq!(error(Seating::AcrossNodes, 4, u64::MAX), large);
        let ideal = Cluster::ideal(2, Nanos(1));
        let seats = Seats::new(&ideal, 2, &Seating::Contiguous).unwrap();
        assert_eq!(ExpertGroup::new(&ideal, &seats, 2), Err(ExpertGroupError::NoWires));
    }
}
