//! Evaluates an argument at the stages that it names.

use super::{BoundArgument, Kind};
use crate::critical_path::{Pipe, Stage};
use crate::{Objective, Refusal, cycles, head, meetings};

impl BoundArgument {
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
                let times = cycles::times(pipe, via).map_err(|_| self.too_many())?;
                times.is_some_and(|times| {
                    let seen = match self.from == self.via {
                        true => cost(pipe, via, times.end),
                        false => over(pipe, from, via, times.last_backward),
                    };
                    bound <= seen
                })
            }
            Kind::Meetings => {
                let span = meetings::span(pipe).map_err(|_| self.too_many())?;
                self.from == 0 && span.is_some_and(|span| bound <= cost(pipe, from, span))
            }
        };
        Ok(shown)
    }

    fn too_many(self) -> Refusal {
        let why = "following so many round trips takes too long";
        Refusal::Argument { given: self.to_string(), why }
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
