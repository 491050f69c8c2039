//! A cluster: devices in nodes, the links between them, and the devices on which stages sit.

use pipeline::{Bandwidth, BandwidthError, Bytes, Hops, Nanos, Placement, Shape};
use thiserror::Error;

/// Why a cluster is impossible.
#[derive(Clone, PartialEq, Eq, Debug, Error)]
pub enum ClusterError {
    /// None, or more than any wire carries.
    #[error(transparent)]
    Bandwidth(#[from] BandwidthError),
    /// A count of zero or too many.
    #[error("{what} must be from 1 to {most}, not {given}")]
    Count {
        /// The quantity that is counted.
        what: &'static str,
        /// The value given.
        given: u64,
        /// The most there may be.
        most: u64,
    },
    /// Fewer devices than stages need.
    #[error("stage {stage} sits on device {device}, but the cluster has only {devices} devices")]
    NoSuchDevice {
        /// The stage.
        stage: usize,
        /// Its device.
        device: usize,
        /// Number of devices.
        devices: usize,
    },
    /// Not one device per stage.
    #[error("{given} devices are named for {stages} stages")]
    SeatCount {
        /// Number given.
        given: usize,
        /// Number of stages.
        stages: usize,
    },
    /// Less bandwidth into the core than none.
    #[error("an oversubscription of {percent} %: it must be at least 100 %, all NICs at full rate")]
    Oversubscription {
        /// The value given.
        percent: u64,
    },
}

/// How two devices of one node reach each other: every device has one port out and one in.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct Intra {
    /// The rate of each port.
    pub bandwidth: Bandwidth,
    /// From the last byte sent to its arrival.
    pub latency: Nanos,
}

/// How nodes reach each other: NICs shared by neighbouring devices, and a core behind them.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct Inter {
    /// NICs per node; devices are spread over them evenly, neighbours together.
    pub nics: u64,
    /// The rate of each NIC, in each direction.
    pub bandwidth: Bandwidth,
    /// From the last byte sent to its arrival.
    pub latency: Nanos,
    /// The bandwidth of a node's NICs over the bandwidth that the core network takes from it, in
    /// percent; 100 is a full fat tree.
    pub oversubscription_percent: u64,
}

/// How devices reach the memory of their host.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct Host {
    /// The rate of each link, in each direction.
    pub bandwidth: Bandwidth,
    /// Neighbouring devices behind one link.
    pub devices_per_link: u64,
}

impl Host {
    /// The rate of a device, in bytes per second, while all devices behind the same link copy the same way.
    #[must_use]
    #[allow(clippy::cast_precision_loss)] // Of a rate.
    pub fn rate_of_device(&self) -> f64 {
        self.bandwidth.bytes_per_second() as f64 / self.devices_per_link.max(1) as f64
    }

    /// How long `bytes` take from a device to its host, or back, while all devices behind the same link copy the
    /// same way.
    #[must_use]
    pub fn time(&self, bytes: Bytes) -> Nanos {
        let bytes = u128::from(bytes.0) * u128::from(self.devices_per_link) * 1_000_000_000;
        let nanos = bytes.div_ceil(u128::from(self.bandwidth.bytes_per_second()));
        Nanos(u64::try_from(nanos).unwrap_or(u64::MAX))
    }
}

/// A cluster of equal nodes.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct ClusterSpec {
    /// Number of nodes.
    pub nodes: u64,
    /// Devices in each.
    pub devices_per_node: u64,
    /// Memory of a device.
    pub memory: Option<Bytes>,
    /// Within a node.
    pub intra: Intra,
    /// Between nodes.
    pub inter: Inter,
    /// To the host, if that is known.
    pub host: Option<Host>,
}

impl ClusterSpec {
    /// Checks that there is such a cluster.
    ///
    /// # Errors
    /// If a count is zero, or larger than it may be, or the network is oversubscribed by less than nothing.
    pub fn check(&self) -> Result<(), ClusterError> {
        let count = |what, given, most| match given {
            1.. if given <= most => Ok(()),
            _ => Err(ClusterError::Count { what, given, most }),
        };
        count("devices per node", self.devices_per_node, MAX_DEVICES)?;
        count("nodes", self.nodes, MAX_DEVICES / self.devices_per_node)?;
        count("NICs per node", self.inter.nics, self.devices_per_node)?;
        let per_link = self.host.map_or(1, |host| host.devices_per_link);
        count("devices per host link", per_link, self.devices_per_node)?;
        let percent = self.inter.oversubscription_percent;
        if !(100..=1_000_000).contains(&percent) {
            return Err(ClusterError::Oversubscription { percent });
        }
        Ok(())
    }
}

/// The most devices of a cluster: two for each stage that a pipeline can have.
pub const MAX_DEVICES: u64 = 1 << 17;

/// One direction of a port, a NIC or an uplink: what transfers share.
#[derive(Clone, PartialEq, Eq, Debug)]
pub struct Wire {
    /// The name of the wire, as in `nic 0 of node 1, out`.
    pub name: String,
    /// The rate at which it carries data.
    pub bandwidth: Bandwidth,
}

/// The way from one device to another.
#[derive(Clone, PartialEq, Eq, Default, Debug)]
pub struct Route {
    /// The wires on it, as positions in [`Cluster::wires`].
    pub wires: Vec<usize>,
    /// From the last byte sent to its arrival.
    pub latency: Nanos,
}

/// Devices, wires, and the way between any two devices.
#[derive(Clone, PartialEq, Eq, Debug)]
pub struct Cluster {
    devices: usize,
    wires: Vec<Wire>,
    kind: Kind,
    memory: Option<Bytes>,
}

#[derive(Clone, PartialEq, Eq, Debug)]
enum Kind {
    /// A fixed latency between any two devices, independent of size and traffic.
    Ideal { hops: Hops },
    /// Ports, NICs and uplinks.
    Nodes(ClusterSpec),
}

impl Cluster {
    /// `devices` that reach each other after `hop`, however much they send: the paper's model.
    #[must_use]
    pub const fn ideal(devices: usize, hop: Nanos) -> Self {
        Self::linked(devices, Hops::alike(hop))
    }

    /// The same where `hops` are those of links between neighbouring devices, in the order of devices.
    #[must_use]
    pub const fn linked(devices: usize, hops: Hops) -> Self {
        Self { devices, wires: Vec::new(), kind: Kind::Ideal { hops }, memory: None }
    }

    /// The cluster that `spec` describes.
    ///
    /// # Errors
    /// If it is impossible.
    pub fn new(spec: ClusterSpec) -> Result<Self, ClusterError> {
        spec.check()?;
        let devices = usize::try_from(spec.nodes * spec.devices_per_node).unwrap_or(usize::MAX);
        let wires = wires(&spec);
        Ok(Self { devices, wires, kind: Kind::Nodes(spec), memory: spec.memory })
    }

    /// Number of devices.
    #[must_use]
    pub const fn devices(&self) -> usize {
        self.devices
    }

    /// Memory of each device, if it is known.
    #[must_use]
    pub const fn memory(&self) -> Option<Bytes> {
        self.memory
    }

    /// All wires.
    #[must_use]
    pub fn wires(&self) -> &[Wire] {
        &self.wires
    }

    /// The node of `device`; every device is its own where there are no nodes.
    #[must_use]
    pub const fn node_of(&self, device: usize) -> usize {
        match &self.kind {
            Kind::Ideal { .. } => device,
            Kind::Nodes(spec) => device / whole(spec.devices_per_node),
        }
    }

    /// Number of devices that a node has, and how many of them are behind a NIC; none where there are no nodes.
    pub(crate) fn neighbours(&self) -> Option<[u64; 2]> {
        let Kind::Nodes(spec) = &self.kind else { return None };
        Some([spec.devices_per_node, spec.devices_per_node.div_ceil(spec.inter.nics)])
    }

    /// The NIC of `device`; where there are no nodes, every device is its own.
    pub(crate) fn nic_of(&self, device: usize) -> usize {
        match &self.kind {
            Kind::Ideal { .. } => device,
            Kind::Nodes(spec) => nic(self.devices, spec, device)[0],
        }
    }

    /// The wires out and in of the port of `device`, of its NIC, and of the uplink of its node where that
    /// is oversubscribed; none of any where there are no nodes.
    pub(crate) fn wires_of(&self, device: usize) -> [Option<[usize; 2]>; 3] {
        let Kind::Nodes(spec) = &self.kind else { return [None; 3] };
        let is_thin = spec.inter.oversubscription_percent > 100;
        let uplink = || uplink(self.devices, spec, self.node_of(device));
        let port = [2 * device, 2 * device + 1];
        [Some(port), Some(nic(self.devices, spec, device)), is_thin.then(uplink)]
    }

    /// The latencies within a node and between nodes.
    pub(crate) fn latencies(&self) -> [Nanos; 2] {
        match &self.kind {
            Kind::Ideal { hops } => [hops.longest(); 2],
            Kind::Nodes(spec) => [spec.intra.latency, spec.inter.latency],
        }
    }

    /// The wires from `device` to its host and back, if the cluster has any.
    #[must_use]
    pub fn host_wires(&self, device: usize) -> Option<[usize; 2]> {
        let Kind::Nodes(spec) = &self.kind else { return None };
        let (per_node, per_link) =
            (whole(spec.devices_per_node), whole(spec.host?.devices_per_link));
        let (node, local) = (device / per_node, device % per_node);
        let link = node * per_node.div_ceil(per_link) + local / per_link;
        let [first, _] = uplink(self.devices, spec, whole(spec.nodes));
        Some([first + 2 * link, first + 2 * link + 1])
    }

    /// How long `bytes` take from `device` to its host, or back, while all devices behind the same
    /// link copy the same way; none if the cluster says nothing of hosts.
    #[must_use]
    pub fn host_time(&self, device: usize, bytes: Bytes) -> Option<Nanos> {
        self.host_wires(device)?;
        let Kind::Nodes(ClusterSpec { host: Some(host), .. }) = &self.kind else { return None };
        Some(host.time(bytes))
    }

    /// Time of `bytes` from one device to another on an idle network.
    #[must_use]
    pub fn time_alone(&self, from: usize, to: usize, bytes: Bytes) -> Nanos {
        let route = self.route(from, to);
        Nanos(route.latency.0.saturating_add(self.time_on_wires(&route, bytes.0)))
    }

    /// The longest time of `bytes` between two neighbouring chunks of a pipeline on `seats`, on an idle network, which
    /// families use when they order passes.
    #[must_use]
    pub fn longest_hop(
        &self,
        seats: &Seats,
        (shape, placement): (Shape, Placement),
        bytes: Bytes,
    ) -> Nanos {
        let device = |chunk| seats.device(placement.stage(shape, chunk, 0));
        let hop = |chunk: u16| {
            let (from, to) = (device(chunk), device(chunk + 1));
            self.time_alone(from, to, bytes).max(self.time_alone(to, from, bytes))
        };
        (0..shape.chunks() - 1).map(hop).max().unwrap_or_default()
    }

    /// How long the wires of `route` take for `bytes`, rounded down, in nanoseconds.
    pub(crate) fn time_on_wires(&self, route: &Route, bytes: u64) -> u64 {
        let rate = |&wire: &usize| self.wires[wire].bandwidth.bytes_per_second();
        let Some(slowest) = route.wires.iter().map(rate).min() else { return 0 };
        let nanos = u128::from(bytes) * 1_000_000_000 / u128::from(slowest);
        u64::try_from(nanos).unwrap_or(u64::MAX)
    }

    /// The way from one device to another; a device reaches itself at once.
    #[must_use]
    pub fn route(&self, from: usize, to: usize) -> Route {
        if from == to {
            return Route::default();
        }
        match &self.kind {
            Kind::Ideal { hops } => Route { wires: Vec::new(), latency: hops.between(from, to) },
            Kind::Nodes(spec) if self.node_of(from) == self.node_of(to) => {
                Route { wires: vec![2 * from, 2 * to + 1], latency: spec.intra.latency }
            }
            Kind::Nodes(spec) => {
                let [nic_out, _] = nic(self.devices, spec, from);
                let [_, nic_in] = nic(self.devices, spec, to);
                let mut wires = vec![nic_out, nic_in];
                if spec.inter.oversubscription_percent > 100 {
                    let [up, _] = uplink(self.devices, spec, self.node_of(from));
                    let [_, down] = uplink(self.devices, spec, self.node_of(to));
                    wires.extend([up, down]);
                }
                Route { wires, latency: spec.inter.latency }
            }
        }
    }
}

/// A count as an index; counts are at most [`MAX_DEVICES`].
#[allow(clippy::cast_possible_truncation)]
const fn whole(count: u64) -> usize {
    count as usize
}

// Wires lie in this order: out and in of every device's port, of every NIC, of every node's uplink,
// of every link to a host.

fn nic(devices: usize, spec: &ClusterSpec, device: usize) -> [usize; 2] {
    let (per_node, nics) = (whole(spec.devices_per_node), whole(spec.inter.nics));
    let (node, local) = (device / per_node, device % per_node);
    let number = node * nics + local * nics / per_node;
    [2 * devices + 2 * number, 2 * devices + 2 * number + 1]
}

fn uplink(devices: usize, spec: &ClusterSpec, node: usize) -> [usize; 2] {
    let nics = whole(spec.nodes * spec.inter.nics);
    let first = 2 * devices + 2 * nics + 2 * node;
    [first, first + 1]
}

fn wires(spec: &ClusterSpec) -> Vec<Wire> {
    let ClusterSpec { nodes, devices_per_node, intra, inter, host, .. } = *spec;
    let both = |name: String, bandwidth: Bandwidth| {
        ["out", "in"].map(|way| Wire { name: format!("{name}, {way}"), bandwidth })
    };
    let ports = (0..nodes * devices_per_node)
        .flat_map(|d| both(format!("port of device {d}"), intra.bandwidth));
    let nics = (0..nodes)
        .flat_map(|node| (0..inter.nics).map(move |nic| format!("nic {nic} of node {node}")));
    let nics = nics.flat_map(|name| both(name, inter.bandwidth));
    let core = inter.bandwidth.times(inter.nics, inter.oversubscription_percent);
    let uplinks = (0..nodes).flat_map(|node| both(format!("uplink of node {node}"), core));
    let links = host.map_or(0, |host| devices_per_node.div_ceil(host.devices_per_link));
    let names = (0..nodes)
        .flat_map(|node| (0..links).map(move |link| format!("host link {link} of node {node}")));
    let host = host.map(|host| names.flat_map(move |name| both(name, host.bandwidth)));
    ports.chain(nics).chain(uplinks).chain(host.into_iter().flatten()).collect()
}

/// Which device each stage sits on.
#[derive(Clone, PartialEq, Eq, Debug)]
pub struct Seats(Vec<usize>);

/// How stages are spread over devices.
#[derive(Clone, PartialEq, Eq, Debug)]
pub enum Seating {
    /// Stage i on device i: neighbours share a node.
    Contiguous,
    /// Neighbouring stages on different nodes, in turn.
    AcrossNodes,
    /// A device for each stage.
    Explicit(Vec<usize>),
}

impl Seats {
    /// Seats `stages` on `cluster`. Stages beyond the number of devices of a contiguous or
    /// interleaved seating start again at the first device and share it.
    ///
    /// # Errors
    /// An explicit seating with the wrong number of devices, or one that does not exist.
    pub fn new(cluster: &Cluster, stages: usize, seating: &Seating) -> Result<Self, ClusterError> {
        let devices = cluster.devices();
        let seats: Vec<usize> = match seating {
            _ if devices == 0 => vec![0; stages],
            Seating::Contiguous => (0..stages).map(|stage| stage % devices).collect(),
            Seating::AcrossNodes => {
                let mut by_turn: Vec<usize> = (0..devices.min(stages.max(1))).collect();
                if let Kind::Nodes(spec) = &cluster.kind {
                    let per_node = whole(spec.devices_per_node);
                    by_turn = (0..devices).collect();
                    by_turn.sort_by_key(|device| (device % per_node, device / per_node));
                }
                (0..stages).map(|stage| by_turn[stage % by_turn.len()]).collect()
            }
            Seating::Explicit(seats) if seats.len() != stages => {
                return Err(ClusterError::SeatCount { given: seats.len(), stages });
            }
            Seating::Explicit(seats) => seats.clone(),
        };
        match seats.iter().position(|&device| device >= devices) {
            None => Ok(Self(seats)),
            Some(stage) => Err(ClusterError::NoSuchDevice { stage, device: seats[stage], devices }),
        }
    }

    /// The device of `stage`.
    ///
    /// # Panics
    /// If there is no such stage.
    #[must_use]
    pub fn device(&self, stage: usize) -> usize {
        self.0[stage]
    }

    /// The device of each stage.
    #[must_use]
    pub fn devices(&self) -> &[usize] {
        &self.0
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn spec() -> ClusterSpec {
        let bandwidth = Bandwidth::new(100).unwrap();
        ClusterSpec {
            nodes: 2,
            devices_per_node: 4,
            memory: None,
            intra: Intra { bandwidth: Bandwidth::new(500).unwrap(), latency: Nanos(1) },
            inter: Inter { nics: 2, bandwidth, latency: Nanos(7), oversubscription_percent: 400 },
            host: Some(Host { bandwidth, devices_per_link: 2 }),
        }
    }

    fn names(cluster: &Cluster, from: usize, to: usize) -> Vec<&str> {
        let route = cluster.route(from, to);
        route.wires.iter().map(|&wire| cluster.wires()[wire].name.as_str()).collect()
    }

    #[test]
    fn routes_name_the_wires_they_use() {
        let cluster = Cluster::new(spec()).unwrap();
        assert_eq!(cluster.route(3, 3), Route::default());
        assert_eq!(names(&cluster, 1, 3), ["port of device 1, out", "port of device 3, in"]);
        let across = [
            "nic 1 of node 0, out",
            "nic 0 of node 1, in",
            "uplink of node 0, out",
            "uplink of node 1, in",
        ];
        assert_eq!(names(&cluster, 3, 4), across);
        // Two NICs of 100 over 4:1 leave 50 for the uplink.
        let uplink = cluster.wires().iter().find(|wire| wire.name == across[2]).unwrap();
        assert_eq!(uplink.bandwidth.bytes_per_second(), 50);
        let host = |device| {
            cluster
                .host_wires(device)
                .map(|wires| wires.map(|wire| cluster.wires()[wire].name.as_str()))
        };
        let link = ["host link 1 of node 0, out", "host link 1 of node 0, in"];
        assert_eq!([host(2), host(3)], [Some(link), Some(link)]);
        assert_eq!(host(7), Some(["host link 1 of node 1, out", "host link 1 of node 1, in"]));
        let ideal = Cluster::ideal(3, Nanos(9));
        assert_eq!(ideal.route(0, 2), Route { wires: vec![], latency: Nanos(9) });
    }

    #[test]
    fn stages_are_seated() {
        let cluster = Cluster::new(spec()).unwrap();
        let seats = |stages, seating| Seats::new(&cluster, stages, &seating);
        let devices = |seating| seats(6, seating).unwrap().devices().to_vec();
        assert_eq!(devices(Seating::Contiguous), [0, 1, 2, 3, 4, 5]);
        assert_eq!(devices(Seating::AcrossNodes), [0, 4, 1, 5, 2, 6]);
        assert_eq!(devices(Seating::Explicit(vec![7, 7, 0, 0, 1, 1])), [7, 7, 0, 0, 1, 1]);
        assert_eq!(seats(10, Seating::Contiguous).unwrap().device(9), 1);
        let none = ClusterError::NoSuchDevice { stage: 1, device: 8, devices: 8 };
        assert_eq!(seats(2, Seating::Explicit(vec![0, 8])), Err(none));
        let count = ClusterError::SeatCount { given: 1, stages: 2 };
        assert_eq!(seats(2, Seating::Explicit(vec![0])), Err(count));
    }

    #[test]
    fn impossible_clusters_are_refused() {
        let change = |change: fn(&mut ClusterSpec)| {
            let mut spec = spec();
            change(&mut spec);
            Cluster::new(spec).unwrap_err().to_string()
        };
        assert!(change(|spec| spec.nodes = 0).contains("nodes must be from 1"));
        assert!(change(|spec| spec.nodes = 1 << 40).contains("nodes must be from 1"));
        assert!(change(|spec| spec.devices_per_node = 0).contains("devices per node"));
        assert!(change(|spec| spec.inter.nics = 5).contains("NICs per node"));
        assert!(change(|spec| spec.inter.oversubscription_percent = 99).contains("99 %"));
    }
}
