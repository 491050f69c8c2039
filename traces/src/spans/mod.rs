//! Spans of OpenTelemetry that Megatron-LM exports, from OTLP in JSON or from the console exporter.
//!
//! A span of a pass says neither its chunk nor its microbatch, and none says its stage: `file` reads what there
//! is, with the resource of each rank, `steps` sorts the spans of a rank by step, `order` numbers passes by
//! Megatron-core's own order, and `ranks` finds the stage of each rank and makes the operations.

mod attributes;
mod between;
mod fault;
mod file;
mod order;
mod ranks;
mod steps;
#[cfg(test)]
mod tests;

use std::collections::BTreeMap;

use pipeline::{Kind, Nanos};

use crate::error::{Place, TraceError};
use crate::events::keep;

use self::attributes::Attributes;
pub use self::fault::SpanFault;
pub(crate) use self::file::{is_one, read};
pub(crate) use self::ranks::operations;

/// What a span is of.
#[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Debug)]
enum What {
    /// A step, by its number.
    Step(u64),
    /// All passes of a step, with the number of its microbatches.
    Passes(u32),
    /// A forward or a whole backward pass.
    Pass(Kind),
    /// The optimizer's step, with what ranks find together in it.
    Optimizer,
    /// Gradients of a chunk summed over the ranks that share it.
    Reduction,
}

/// What a name says, of a step without its number: today's names, and those of Megatron-LM's guide.
const NAMES: [(&str, What); 9] = [
    ("megatron.train.iteration", What::Step(0)),
    ("megatron.train_step", What::Step(0)),
    ("megatron.train.iteration.forward_backward", What::Passes(0)),
    ("megatron.forward_backward", What::Passes(0)),
    ("megatron.microbatch.forward", What::Pass(Kind::F)),
    ("megatron.microbatch.backward", What::Pass(Kind::BW)),
    ("megatron.train.iteration.optimizer", What::Optimizer),
    ("megatron.optimizer_step", What::Optimizer),
    ("megatron.grad_sync.finish", What::Reduction),
];

/// A span of a rank, on the clock of Unix.
#[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Debug)]
struct Span {
    start: Nanos,
    end: Nanos,
    what: What,
    /// Number of its rank.
    rank: u32,
}

/// The numbers of ranks, pipelines and stages of a run.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
struct Sizes {
    world: u32,
    /// Stages of a pipeline.
    stages: u32,
    /// Pipelines that train on other data.
    replicas: u32,
}

/// A process of the run, as the resource of its spans says it.
#[derive(Clone, PartialEq, Eq, Debug)]
struct Process {
    sizes: Sizes,
    /// The run, by its name.
    run: String,
    /// Whether it names a GPU.
    has_gpu: bool,
}

impl Process {
    /// Whether `other` is of the same run.
    fn agrees(&self, other: &Self) -> Result<(), SpanFault> {
        if self.sizes == other.sizes && self.run == other.run {
            return Ok(());
        }
        Err(SpanFault::Runs { first: self.run.clone(), other: other.run.clone() })
    }
}

/// The spans of a run so far.
#[derive(Default)]
pub(crate) struct Spans {
    spans: Vec<Span>,
    /// The process of each rank.
    processes: BTreeMap<u32, Process>,
    /// Spans that are of something else.
    skipped: usize,
}

impl Spans {
    /// Number of spans that it has kept.
    pub(crate) fn len(&self) -> usize {
        self.spans.len()
    }

    /// Number of spans of something else.
    pub(crate) const fn skipped(&self) -> usize {
        self.skipped
    }

    /// Takes a span, whose resource may come later; `time` gives its start and its end.
    fn take(
        &mut self,
        name: &str,
        said: &Attributes,
        at: Place,
        time: impl FnOnce() -> Result<(Nanos, Nanos), TraceError>,
    ) -> Result<(), TraceError> {
        let known = NAMES.into_iter().find(|(known, _)| *known == name);
        let Some((_, what)) = known else {
            self.skipped += 1;
            return Ok(());
        };
        let what = match what {
            What::Step(_) => What::Step(said.needed(said.iteration, "megatron.iteration", at)?),
            What::Passes(_) => {
                What::Passes(said.needed(said.microbatches, "num_microbatches", at)?)
            }
            other => other,
        };
        let (start, end) = time()?;
        let rows = self.spans.len() + 1;
        keep(&mut self.spans, Span { start, end, what, rank: 0 }, rows)
    }

    /// Takes the resource of the spans from place `first` on.
    fn resource(&mut self, said: &Attributes, first: usize) -> Result<(), TraceError> {
        if self.spans.len() == first {
            return Ok(());
        }
        let (rank, process) = said.process()?;
        // An exporter repeats it in each batch.
        let known = self.processes.entry(rank).or_insert_with(|| process.clone());
        self.spans[first..].iter_mut().for_each(|one| one.rank = rank);
        known.agrees(&process).map_err(TraceError::from)
    }
}
