//! The arguments of lower bounds, with the stages that they name.

mod evaluate;
mod read;

use std::fmt;

/// The argument of a lower bound on the cost of every schedule.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct BoundArgument {
    kind: Kind,
    /// The first stage that it names.
    from: usize,
    /// The second stage that it names; `from` again where it names only one.
    via: usize,
}

#[derive(Clone, Copy, PartialEq, Eq, Debug)]
enum Kind {
    /// A stage does its work.
    Work,
    /// A microbatch goes all the way and comes back.
    Trip,
    /// All the work of a later stage lies between the first F of a stage and its last W.
    Path,
    /// Idle time before the first B.
    Head,
    /// Idle time between the last F and the last B.
    Tail,
    /// Both on the same stages.
    HeadAndTail,
    /// Both, and the paths from earlier stages.
    Fill,
    /// Forwards that wait for the memory of earlier microbatches.
    Cycles,
    /// Microbatches that meet on their way, and wait.
    Meetings,
    /// Memory times time.
    Little,
    /// A tree of orders, all refuted.
    Branching,
    /// Windows of the passes that contradict each other.
    Windows,
    /// The same, with starts that windows of the first microbatches have raised.
    Prefixes,
}

impl Kind {
    /// Whether it rests on all stages and names none.
    const fn is_of_all(self) -> bool {
        matches!(self, Self::Branching | Self::Windows | Self::Prefixes)
    }
}

const KINDS: [(Kind, &str); 13] = [
    (Kind::Work, "work"),
    (Kind::Trip, "trip"),
    (Kind::Path, "path"),
    (Kind::Head, "head"),
    (Kind::Tail, "tail"),
    (Kind::HeadAndTail, "head-and-tail"),
    (Kind::Fill, "fill"),
    (Kind::Cycles, "cycles"),
    (Kind::Meetings, "meetings"),
    (Kind::Little, "little"),
    (Kind::Branching, "branching"),
    (Kind::Windows, "windows"),
    (Kind::Prefixes, "prefixes"),
];

impl BoundArgument {
    /// The name in the file.
    #[must_use]
    pub fn name(self) -> &'static str {
        KINDS.iter().find(|(kind, _)| *kind == self.kind).map_or("", |(_, name)| name)
    }

    /// Whether it rests on a branching log.
    #[must_use]
    pub fn is_branching(self) -> bool {
        self.kind == Kind::Branching
    }

    /// Whether it rests on windows alone.
    #[must_use]
    pub fn is_windows(self) -> bool {
        self.kind == Kind::Windows
    }

    /// Whether it rests on raised starts.
    #[must_use]
    pub fn is_prefixes(self) -> bool {
        self.kind == Kind::Prefixes
    }

    /// The stages that it names, one or two; empty where it rests on all of them.
    #[must_use]
    pub fn stages(self) -> Vec<usize> {
        match self.kind {
            kind if kind.is_of_all() => Vec::new(),
            Kind::Path | Kind::Cycles => vec![self.from, self.via],
            _ => vec![self.from],
        }
    }
}

impl fmt::Display for BoundArgument {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(self.name())?;
        self.stages().iter().try_for_each(|stage| write!(f, " {stage}"))
    }
}
