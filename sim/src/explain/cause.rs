//! Why a stage is idle, in the order in which causes are taken away.

/// Why a stage is idle. The causes are taken away one after the other, in this order, from a run
/// whose order of passes stays the same.
#[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Debug)]
#[repr(u8)]
pub enum Cause {
    /// Stragglers, jitter and stalls. Without: every pass and transfer takes its nominal time.
    Noise,
    /// The step boundary: the barrier, the exchange at it, post-validation and its rollbacks, and
    /// the state that the steps before leave behind. Without it, the step is run alone, and each
    /// stage is through with it at the end of its own optimizer step.
    Synchronisation,
    /// Waits for room on a device and for activations on the host. Without: devices hold anything,
    /// and nothing is offloaded.
    Memory,
    /// Contention. Without: every transfer takes the time it takes alone.
    SharedLinks,
    /// Communication within passes that no compute hides, in slots and in what waits for them. Without:
    /// segments of communication take no time; what travels between stages still does.
    CommunicationNotHidden,
    /// Collectives of parameters and gradients that no pass hides. Without: they take no time. By how much they
    /// stretch passes beside them counts as busy.
    CollectivesNotHidden,
    /// Exposed communication between stages. Without: what is made is there at once, gradients are reduced at once,
    /// and sending takes no stage's time.
    Communication,
    /// Chunks that take longer than others. Without: all take the average of F, of B and of W.
    UnequalStages,
    /// The rest: warm-up, drain, and how the order fits them; also turns on a shared device.
    Structure,
}

impl Cause {
    /// All causes, in the order in which they are taken away.
    pub const ALL: [Self; CAUSES] = [
        Self::Noise,
        Self::Synchronisation,
        Self::Memory,
        Self::SharedLinks,
        Self::CommunicationNotHidden,
        Self::CollectivesNotHidden,
        Self::Communication,
        Self::UnequalStages,
        Self::Structure,
    ];

    /// The name in tables.
    #[must_use]
    pub const fn name(self) -> &'static str {
        match self {
            Self::Noise => "stragglers, jitter",
            Self::Synchronisation => "synchronisation",
            Self::Memory => "memory waits",
            Self::SharedLinks => "shared links",
            Self::CommunicationNotHidden => "communication not hidden",
            Self::CollectivesNotHidden => "collectives not hidden",
            Self::Communication => "communication",
            Self::UnequalStages => "unequal stages",
            Self::Structure => "warm-up, drain",
        }
    }

    /// The name in files.
    #[must_use]
    pub const fn key(self) -> &'static str {
        match self {
            Self::Noise => "noise_ns",
            Self::Synchronisation => "synchronisation_ns",
            Self::Memory => "memory_ns",
            Self::SharedLinks => "shared_links_ns",
            Self::CommunicationNotHidden => "communication_not_hidden_ns",
            Self::CollectivesNotHidden => "collectives_not_hidden_ns",
            Self::Communication => "communication_ns",
            Self::UnequalStages => "unequal_stages_ns",
            Self::Structure => "structure_ns",
        }
    }

    /// Whether only streams beside the passes can have it: those of segments, or of collectives.
    #[must_use]
    pub const fn is_of_streams(self) -> bool {
        matches!(self, Self::CommunicationNotHidden | Self::CollectivesNotHidden)
    }
}

/// Number of causes.
pub const CAUSES: usize = 9;
