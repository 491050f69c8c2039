//! What a lower bound is, and the argument that it rests on.

use std::fmt;

use pipeline::Nanos;

/// The argument of a lower bound, with the stages on which it rests.
#[derive(Clone, Copy, PartialEq, Eq, Hash, Debug)]
pub enum Argument {
    /// The stage must do its work.
    Work {
        /// The stage with most work.
        stage: usize,
    },
    /// A microbatch must go all the way and come back.
    Trip {
        /// The stage that waits for it.
        stage: usize,
    },
    /// The work of one stage without its last W, between the trip of a first microbatch down to it
    /// from an earlier stage and that of a last one back.
    Path {
        /// The stage whose span it is.
        from: usize,
        /// The stage whose work is between.
        via: usize,
    },
    /// The idle time before the first B, where forwards are not cut short.
    Head {
        /// A stage that cannot do with less.
        stage: usize,
    },
    /// The idle time between the last F and the last B.
    Tail {
        /// The stage that idles most.
        stage: usize,
    },
    /// Head and tail of the same stages.
    HeadAndTail {
        /// A stage that cannot do with less.
        stage: usize,
    },
    /// Head, tail and the paths over each stage.
    Fill {
        /// A stage that cannot do with less.
        stage: usize,
    },
    /// Forwards wait until memory comes back from the round trips of earlier microbatches.
    Cycles {
        /// The stage whose span it is.
        from: usize,
        /// The stage whose forwards wait.
        via: usize,
    },
    /// Where memory holds few microbatches, they meet on their way, and some wait.
    Meetings {
        /// The stage whose memory it is, the first.
        stage: usize,
    },
    /// Memory times time.
    Little {
        /// The stage whose memory it is.
        stage: usize,
    },
    /// The windows in which the passes of a cheaper order would start contradict each other.
    Windows,
    /// The same, with starts that windows of the first microbatches alone have raised.
    Prefixes,
    /// The same, after pairs of passes were tried both ways, and one way was refuted by windows.
    Branching,
}

impl Argument {
    /// The argument of this name about these stages, those of [`Argument::stages`], if there is one.
    #[must_use]
    pub fn named(name: &str, stages: &[usize]) -> Option<Self> {
        let (from, via) = match *stages {
            [] => (0, 0),
            [stage] => (stage, stage),
            [from, via] => (from, via),
            _ => return None,
        };
        let stage = from;
        let all = [
            Self::Work { stage },
            Self::Trip { stage },
            Self::Path { from, via },
            Self::Head { stage },
            Self::Tail { stage },
            Self::HeadAndTail { stage },
            Self::Fill { stage },
            Self::Cycles { from, via },
            Self::Meetings { stage },
            Self::Little { stage },
            Self::Windows,
            Self::Prefixes,
            Self::Branching,
        ];
        all.into_iter().find(|one| one.name() == name && one.stages() == stages)
    }

    /// The name in certificates and tables.
    #[must_use]
    pub const fn name(self) -> &'static str {
        match self {
            Self::Work { .. } => "work",
            Self::Trip { .. } => "trip",
            Self::Path { .. } => "path",
            Self::Head { .. } => "head",
            Self::Tail { .. } => "tail",
            Self::HeadAndTail { .. } => "head-and-tail",
            Self::Fill { .. } => "fill",
            Self::Cycles { .. } => "cycles",
            Self::Meetings { .. } => "meetings",
            Self::Little { .. } => "little",
            Self::Windows => "windows",
            Self::Prefixes => "prefixes",
            Self::Branching => "branching",
        }
    }

    /// Whether the argument bounds the span of the stage that it names first.
    pub(super) const fn names_its_stage(self) -> bool {
        match self {
            Self::Work { .. }
            | Self::Trip { .. }
            | Self::Tail { .. }
            | Self::Little { .. }
            | Self::Meetings { .. }
            | Self::Path { .. }
            | Self::Cycles { .. } => true,
            Self::Head { .. }
            | Self::HeadAndTail { .. }
            | Self::Fill { .. }
            | Self::Windows
            | Self::Prefixes
            | Self::Branching => false,
        }
    }

    /// The stages on which the argument rests, one or two; empty where it rests on all of them.
    #[must_use]
    pub fn stages(self) -> Vec<usize> {
        match self {
            Self::Windows | Self::Prefixes | Self::Branching => Vec::new(),
            Self::Path { from, via } | Self::Cycles { from, via } => vec![from, via],
            Self::Work { stage }
            | Self::Trip { stage }
            | Self::Head { stage }
            | Self::Tail { stage }
            | Self::HeadAndTail { stage }
            | Self::Fill { stage }
            | Self::Meetings { stage }
            | Self::Little { stage } => vec![stage],
        }
    }
}

impl fmt::Display for Argument {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(self.name())?;
        self.stages().iter().try_for_each(|stage| write!(f, " {stage}"))
    }
}

/// A cost that no schedule undercuts.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct Bound {
    /// Why.
    pub argument: Argument,
    /// No schedule under the limits costs less.
    pub cost: Nanos,
}

/// The highest cost with its argument; of equal ones the first.
pub(super) fn highest(costs: impl Iterator<Item = (u64, Argument)>) -> Option<Bound> {
    let mut best: Option<Bound> = None;
    for (cost, argument) in costs {
        if best.is_none_or(|best| best.cost.0 < cost) {
            best = Some(Bound { argument, cost: Nanos(cost) });
        }
    }
    best
}
