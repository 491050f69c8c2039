//! The arguments of lower bounds, evaluated at the stages that they name.

use std::fmt;

use crate::critical_path::{Pipe, Stage};
use crate::cycles;
use crate::head;
use crate::{Objective, Refusal};

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

const KINDS: [(Kind, &str); 12] = [
    (Kind::Work, "work"),
    (Kind::Trip, "trip"),
    (Kind::Path, "path"),
    (Kind::Head, "head"),
    (Kind::Tail, "tail"),
    (Kind::HeadAndTail, "head-and-tail"),
    (Kind::Fill, "fill"),
    (Kind::Cycles, "cycles"),
    (Kind::Little, "little"),
    (Kind::Branching, "branching"),
    (Kind::Windows, "windows"),
    (Kind::Prefixes, "prefixes"),
];

impl BoundArgument {
    /// The argument of that name at `stages` of a pipeline of `count` stages: two for `path` and `cycles`, the
    /// first no later than the second, none for `branching`, `windows` and `prefixes`, one for the rest.
    ///
    /// # Errors
    /// [`Refusal::Argument`] if there is none such.
    pub fn new(name: &str, stages: &[usize], count: usize) -> Result<Self, Refusal> {
        let refuse = |why| {
            let stages: Vec<String> = stages.iter().take(4).map(usize::to_string).collect();
            let name: String = name.chars().take(40).collect();
            Err(Refusal::Argument { given: format!("{name} {}", stages.join(" ")), why })
        };
        let Some(&(kind, _)) = KINDS.iter().find(|(_, known)| *known == name) else {
            return refuse("there is none of that name");
        };
        let (from, via) = match (kind, stages) {
            (kind, &[]) if kind.is_of_all() => (0, 0),
            (kind, _) if kind.is_of_all() => {
                return refuse("it looks at all stages and names none");
            }
            (Kind::Path | Kind::Cycles, &[from, via]) => (from, via),
            (Kind::Path | Kind::Cycles, _) => return refuse("it needs two stages"),
            (_, &[one]) => (one, one),
            _ => return refuse("it needs one stage"),
        };
        if from > via || (kind == Kind::Path && from == via) {
            return refuse("the first stage must lie before the second");
        }
        if via >= count {
            return refuse("the pipeline has no such stage");
        }
        Ok(Self { kind, from, via })
    }

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

    /// Whether it shows that every schedule of `pipe` costs `bound` or more. Arguments that rest on a log or on
    /// windows are checked with these, not here.
    pub(crate) fn shows(self, pipe: &Pipe, bound: u64) -> Result<bool, Refusal> {
        let bound = i128::from(bound);
        if bound == 0 {
            return Ok(true);
        }
        let (from, via) = (&pipe.stages[self.from], &pipe.stages[self.via]);
        let shown = match self.kind {
            Kind::Work => bound <= cost(pipe, from, from.work),
            Kind::Trip => {
                let (first, back) = (from.forwards[0], from.backwards[0]);
                bound
                    <= cost(
                        pipe,
                        from,
                        pipe.start(back) - pipe.start(first) + pipe.time(back) + from.weights[0],
                    )
            }
            Kind::Path => bound <= over(pipe, from, via, via.until_last_backward(pipe)),
            Kind::Tail => bound <= cost(pipe, from, from.work + from.idle_in_tail(pipe)),
            Kind::Head => head::impossible(pipe, bound - 1, false, false) == Some(self.from),
            Kind::HeadAndTail => head::impossible(pipe, bound - 1, true, false) == Some(self.from),
            Kind::Fill => head::impossible(pipe, bound - 1, true, true) == Some(self.from),
            Kind::Branching | Kind::Windows | Kind::Prefixes => false,
            Kind::Little => {
                // The span that is too short: its memory cannot hold what must be held.
                let short = bound - 1 - start_of_time(pipe, from);
                short < 0
                    || short.checked_mul(from.limit).is_some_and(|room| room < from.area(pipe))
            }
            Kind::Cycles => {
                let times = cycles::times(pipe, via).map_err(|cycles::TooMany| {
                    let why = "following so many round trips takes too long";
                    Refusal::Argument { given: self.to_string(), why }
                })?;
                times.is_some_and(|[last_backward, end]| {
                    let seen = match self.from == self.via {
                        true => cost(pipe, via, end),
                        false => over(pipe, from, via, last_backward),
                    };
                    bound <= seen
                })
            }
        };
        Ok(shown)
    }
}

/// When time begins to count for `stage`: at its first pass, or at the start of the step.
fn start_of_time(pipe: &Pipe, stage: &Stage) -> i128 {
    match pipe.objective {
        Objective::Span => 0,
        Objective::Makespan => pipe.start(stage.forwards[0]),
    }
}

fn cost(pipe: &Pipe, stage: &Stage, span: i128) -> i128 {
    start_of_time(pipe, stage) + span
}

/// The cost where `via` needs `inner` from its first F to the end of its last B, the first of which
/// comes behind one of `from` and the last of which comes before one there.
fn over(pipe: &Pipe, from: &Stage, via: &Stage, inner: i128) -> i128 {
    let there = pipe.start(via.forwards[0]) - pipe.start(from.forwards[0]);
    let back = pipe.end(from.backwards[0]) - pipe.end(via.backwards[0]);
    cost(pipe, from, there + inner + back + from.weights[0])
}

impl fmt::Display for BoundArgument {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(self.name())?;
        self.stages().iter().try_for_each(|stage| write!(f, " {stage}"))
    }
}
