//! A question to the event engine that owns its parts.

use pipeline::{
    Bandwidth, Bytes, Collectives, CopyPart, CopyPolicy, Costs, Family, Footprint, Footprints,
    Nanos, PassTimes, Problem, Schedule, Shape, ShardTimes,
};
use sim::cluster::{Cluster, ClusterSpec, Host, Inter, Intra, Seating, Seats};
use sim::engine::{self, EngineError, NominalDurations, Run};
use sim::{Hardware, Simulation};

use crate::draw::{chunks, copying};

pub(crate) struct Bench {
    pub(crate) schedule: Schedule,
    pub(crate) costs: Costs,
    pub(crate) footprints: Footprints,
    pub(crate) hardware: Hardware,
}

impl Bench {
    /// `schedule` on an ideal cluster, a device for each stage, with nothing to hold.
    pub(crate) fn ideal(schedule: Schedule, costs: Costs) -> Self {
        let shape = schedule.shape();
        let cluster = Cluster::linked(shape.stages(), costs.hops().clone());
        let seats = Seats::new(&cluster, shape.stages(), &Seating::Contiguous).unwrap();
        Self {
            costs,
            footprints: Footprints::uniform(shape, Footprint::default()),
            hardware: Hardware::new(cluster, seats),
            schedule,
        }
    }

    /// `family` over p stages of v chunks and m microbatches, with one F, B and W for all chunks.
    pub(crate) fn family(family: Family, [p, v, m]: [u64; 3], times: [u64; 3], hop: u64) -> Self {
        let shape = Shape::new(p, v, m).unwrap();
        let costs = with_shards(uniform(shape, times, hop), shape, &[times]);
        let problem = Problem::new(shape, costs.clone()).unwrap();
        Self::ideal(family.schedule(&problem).unwrap(), costs)
    }

    /// The same on `cluster`.
    pub(crate) fn on(mut self, spec: ClusterSpec, seating: &Seating, bytes: u64) -> Self {
        let hardware = &mut self.hardware;
        hardware.cluster = Cluster::new(spec).unwrap();
        let stages = self.schedule.shape().stages();
        hardware.seats = Seats::new(&hardware.cluster, stages, seating).unwrap();
        hardware.messages.bytes = Bytes(bytes);
        self
    }

    /// The same with `held` bytes of every chunk from F to the end of its backward.
    pub(crate) fn holding(mut self, until_backward: u64, until_weight: u64) -> Self {
        let [until_backward, until_weight] = [until_backward, until_weight].map(Bytes);
        let footprint = Footprint { until_backward, until_weight };
        self.footprints = Footprints::uniform(self.schedule.shape(), footprint);
        self
    }

    /// The same with thousandths of activations on the host, called back so many slots ahead.
    pub(crate) fn offloaded(self, per_mille: u32, ahead: u32) -> Self {
        self.offloaded_within(per_mille, ahead, None)
    }

    /// The same with at most `max_inflight` copies to the host in flight, if there is a limit.
    pub(crate) fn offloaded_within(
        mut self,
        per_mille: u32,
        ahead: u32,
        max_inflight: Option<u32>,
    ) -> Self {
        if let Some(part) = CopyPart::new(per_mille) {
            self.schedule = self.schedule.offloaded(CopyPolicy { part, max_inflight }, ahead);
        }
        self
    }

    /// The same with `limit` bytes on every device.
    pub(crate) fn with_room(self, limit: u64) -> Self {
        let devices = self.hardware.cluster.devices();
        self.with_limits(vec![Bytes(limit); devices])
    }

    /// The same with `limits` on devices: passes wait for memory.
    pub(crate) fn with_limits(mut self, limits: Vec<Bytes>) -> Self {
        (self.hardware.capacities, self.hardware.waits) = (Some(limits), true);
        self
    }

    pub(crate) fn simulation(&self) -> Simulation<'_> {
        Simulation::new(&self.schedule, &self.costs, &self.footprints).on(&self.hardware)
    }

    /// The run without noise, as the engine reports it.
    pub(crate) fn try_run(&self) -> Result<Run, EngineError> {
        let job = self.hardware.job(&self.schedule, &self.costs, &self.footprints);
        engine::run(&job, &NominalDurations)
    }

    pub(crate) fn run(&self) -> Run {
        self.try_run().unwrap()
    }

    /// Start and end of each slot of `stage`.
    pub(crate) fn spans(&self, stage: usize) -> Vec<(u64, u64)> {
        let spans = &self.run().timeline.stages[stage];
        spans.iter().map(|span| (span.start.0, span.end.0)).collect()
    }
}

pub(crate) fn times([f, b, w]: [u64; 3]) -> PassTimes {
    PassTimes::new(Nanos(f), Nanos(b), Nanos(w))
}

/// F, B and W of every chunk.
pub(crate) fn uniform(shape: Shape, each: [u64; 3], hop: u64) -> Costs {
    Costs::uniform(shape, times(each), Nanos(hop))
}

/// `family` over p stages and m microbatches, with the times of each chunk, over and over; if it
/// does the shape.
pub(crate) fn question(
    family: Family,
    [p, m]: [u64; 2],
    chunk_times: &[[u64; 3]],
    hop: u64,
) -> Option<(Schedule, Costs)> {
    let shape = Shape::new(p, chunks(family), m).unwrap();
    let all = chunk_times.iter().cycle().take(usize::from(shape.chunks()));
    let costs = Costs::new(all.map(|&chunk| times(chunk)).collect(), Nanos(hop));
    let costs = copying(costs, shape, [hop + 1, 4]);
    let costs = with_shards(costs, shape, chunk_times);
    let schedule = family.schedule(&Problem::new(shape, costs.clone()).unwrap()).ok()?;
    Some((schedule, costs))
}

/// `costs` with shards that take F and B of `times`, over and over, and collectives of an hop and more.
pub(crate) fn with_shards(costs: Costs, shape: Shape, times: &[[u64; 3]]) -> Costs {
    let shard = |&[f, b, _]: &[u64; 3]| ShardTimes { before: Nanos(f), after: Nanos(b) };
    let shards = times.iter().map(shard).cycle().take(shape.stages()).collect();
    let [broadcast, statistics, hidden_gradient] =
        [0, 3, 5].map(|more| costs.hops().longest() + Nanos(more));
    costs.with_shards(shards, Collectives { broadcast, statistics, hidden_gradient })
}

/// Nodes of two devices with `nics` NICs and a link to the host each; a byte takes 1 ns on any wire,
/// and no latency.
pub(crate) fn nodes(nodes: u64, nics: u64) -> ClusterSpec {
    let bandwidth = Bandwidth::new(1_000_000_000).unwrap();
    let latency = Nanos(0);
    ClusterSpec {
        nodes,
        devices_per_node: 2,
        memory: None,
        intra: Intra { bandwidth, latency },
        inter: Inter { nics, bandwidth, latency, oversubscription_percent: 100 },
        host: Some(Host { bandwidth, devices_per_link: 1 }),
    }
}
