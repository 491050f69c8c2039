//! Why stages wait: what causes their idle time, what each pass waits for, and the critical path.
//!
//! [`Causes`] attributes the idle time to causes, by runs that each leave out one cause
//! more, and [`Gaps`] that of each gap between two slots. [`Waits`] gives the event that let each slot
//! begin, and [`Waits::critical_path`] traces these back from the end of a step to its beginning.

mod cause;
mod causes;
pub(crate) mod chain;
mod gaps;
mod path;
mod waits;

use std::collections::BTreeMap;

use pipeline::{Costs, Nanos, Pass, Schedule, Timeline, Value};

pub use cause::{CAUSES, Cause};
pub use causes::Causes;
pub(crate) use causes::Times;
pub use gaps::Gaps;
pub(crate) use gaps::Lengths;
pub use path::{Path, PathSummary};
pub use waits::{Link, Wait, Waits};

use crate::engine::{Collective, Run, Transfer};

/// The run that `timeline` shows, where links are never shared: what is made leaves at once and
/// travels for `hop` of the value, its two stages and the time at which it was made, in nanoseconds.
/// Collectives are added by [`with_collectives`].
#[must_use]
pub fn unshared(
    schedule: &Schedule,
    timeline: Timeline,
    hop: impl Fn(Value, usize, usize, u64) -> u64,
) -> Run {
    let (shape, placement) = (schedule.shape(), schedule.placement());
    let mut transfers = Vec::new();
    for (from, spans) in timeline.stages.iter().enumerate() {
        let made = move |span: &pipeline::Span| {
            let end = span.end;
            let values = span.slot.passes().filter_map(Pass::makes);
            values.map(move |value| (value, end))
        };
        for (value, made) in spans.iter().flat_map(made) {
            let taker = value.taken_by(shape.chunks());
            let to = taker.map(|chunk| placement.stage(shape, chunk, value.microbatch()));
            if let Some(to) = to.filter(|&to| to != from) {
                let end = Nanos(made.0.saturating_add(hop(value, from, to, made.0)));
                transfers.push(Transfer { value, step: 0, from, to, made, begin: made, end });
            }
        }
    }
    transfers.sort_by_key(|one| one.end);
    Run {
        timeline,
        transfers,
        collectives: Vec::new(),
        copies: Vec::new(),
        all_to_alls: Vec::new(),
        parameters: Vec::new(),
        releases: Vec::new(),
        events: 0,
    }
}

/// `run`, one step of `schedule`, with the collectives of the vocabulary, each as long as `costs`
/// say.
#[must_use]
pub fn with_collectives(mut run: Run, schedule: &Schedule, costs: &Costs) -> Run {
    let shape = schedule.shape();
    let mut all: BTreeMap<usize, Collective> = BTreeMap::new();
    for (stage, spans) in run.timeline.stages.iter().enumerate() {
        for span in spans {
            let values = span.slot.passes().filter_map(Pass::makes);
            for value in values.filter(|value| value.is_collective(shape)) {
                let end = Nanos(span.end.0.saturating_add(costs.collectives().of(value).0));
                let one = Collective { value, step: 0, last: stage, made: span.end, end };
                let last = all.entry(shape.value_cell(value)).or_insert(one);
                if last.made < one.made {
                    *last = one;
                }
            }
        }
    }
    run.collectives = all.into_values().collect();
    run.collectives.sort_by_key(|one| one.made);
    run
}
