//! The hardware of a pipeline: a cluster, where its stages sit, and how they use it.

use pipeline::{Bytes, Costs, Footprints, Nanos, Placement, Schedule, Shape};

use crate::boundary::{Boundary, Synchronisation};
use crate::cluster::{Cluster, Seats};
use crate::engine::{Communication, Job, Messages, Offload, Room};
use crate::expert_group::ExpertGroup;

/// A cluster with the stages of a pipeline on it: everything the event engine needs to know beside the
/// schedule, its costs and its footprints.
#[derive(Clone, PartialEq, Eq, Debug)]
pub struct Hardware {
    /// Devices and wires.
    pub cluster: Cluster,
    /// The device of each stage.
    pub seats: Seats,
    /// How values travel between stages.
    pub communication: Communication,
    /// Number of bytes that a value has.
    pub messages: Messages,
    /// The devices over which the experts of a layer are spread, if passes have all-to-alls of so many bytes.
    pub experts: Option<ExpertGroup>,
    /// Number of steps that are run in sequence, at least 1. The last one is the step that is reported.
    pub steps: u32,
    /// The boundary between two steps.
    pub boundary: Boundary,
    /// The memory that each stage holds all the time: weights, gradients and optimizer state.
    pub resident: Vec<Bytes>,
    /// Whether activations are known in bytes of whole stages; else no device counts them.
    pub measures_activations: bool,
    /// The memory of each device, if that is known.
    pub capacities: Option<Vec<Bytes>>,
    /// Whether passes wait until their device has room for them. It needs `capacities`.
    pub waits: bool,
}

impl Hardware {
    /// One step on `cluster` with its stages at `seats`: eager messages of no size, no time between
    /// steps, and nothing but activations in memory that nobody runs out of.
    #[must_use]
    pub fn new(cluster: Cluster, seats: Seats) -> Self {
        Self {
            cluster,
            communication: Communication::default(),
            messages: Messages::default(),
            experts: None,
            steps: 1,
            boundary: Boundary::default(),
            resident: vec![Bytes(0); seats.devices().len()],
            measures_activations: true,
            capacities: None,
            waits: false,
            seats,
        }
    }

    /// The longest hop between two neighbouring chunks on an idle network, which families use when they order
    /// passes.
    #[must_use]
    pub fn longest_hop(&self, shape: Shape, placement: Placement) -> Nanos {
        self.cluster.longest_hop(&self.seats, (shape, placement), self.messages.bytes)
    }

    /// Time of an all-to-all in which each device sends `bytes` in all, on an idle network
    /// ([`ExpertGroup::time`]); none if experts are not spread over devices.
    #[must_use]
    pub fn all_to_all_time(&self, bytes: Bytes) -> Option<Nanos> {
        Some(self.experts?.time(&self.cluster, bytes))
    }

    /// Time of the optimizer on a stage.
    #[must_use]
    pub const fn optimizer(&self) -> Nanos {
        self.boundary.optimizer
    }

    /// Whether there is but one step, although stages do not meet between steps: it begins on all
    /// stages at once, as no later one does.
    #[must_use]
    pub fn starts_cold(&self) -> bool {
        self.steps == 1 && self.boundary.synchronisation != Synchronisation::Barrier
    }

    /// The same with `more` memory on one device, or on all; none unless passes wait for memory.
    #[must_use]
    pub fn with_memory(&self, more: Bytes, on: Option<usize>) -> Option<Self> {
        let mut capacities = self.capacities.clone().filter(|_| self.waits)?;
        let devices = capacities.iter_mut().enumerate();
        for (_, capacity) in devices.filter(|(device, _)| on.is_none_or(|on| on == *device)) {
            *capacity = Bytes(capacity.0.saturating_add(more.0));
        }
        Some(Self { capacities: Some(capacities), ..self.clone() })
    }

    /// The question to the event engine how `schedule` runs here under `costs`, where chunks keep
    /// `footprints`.
    #[must_use]
    pub fn job<'a>(
        &'a self,
        schedule: &'a Schedule,
        costs: &'a Costs,
        footprints: &'a Footprints,
    ) -> Job<'a> {
        let room = |limits| Room { footprints, resident: &self.resident[..], limits };
        Job {
            schedule,
            costs,
            cluster: &self.cluster,
            seats: &self.seats,
            communication: self.communication,
            messages: self.messages,
            experts: self.experts,
            room: self.capacities.as_deref().filter(|_| self.waits).map(room),
            offload: schedule.copies().map(|copies| Offload { footprints, copies }),
            steps: self.steps,
            boundary: &self.boundary,
        }
    }
}
