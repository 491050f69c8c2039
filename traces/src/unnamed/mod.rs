//! Passes of a trace of `torch.profiler` that names none, as of Megatron-LM or any other trainer.
//!
//! Autograd separates forward and backward: an operator that it records has a sequence number, and the node that is
//! evaluated for it later has the same one. So a backward pass is a run of evaluated nodes, and its forward pass the
//! run of operators with their numbers; a second run of nodes of the same forward pass is W (`passes`). What a rank
//! sends after a forward pass goes to the next stage, after a backward pass to the one before (`sends`), and so chunks
//! and microbatches follow from rank to rank (`chain`) in each step (`steps`). On a GPU, a pass takes the time of the
//! kernels that it launches (`device`).

mod chain;
mod device;
mod messages;
mod passes;
mod rank;
mod ranks;
mod sends;
mod steps;
#[cfg(test)]
mod tests;

use pipeline::Nanos;

use self::messages::Message;
use crate::error::{Place, TraceError};
use crate::events::{Args, Event, Head, decimal, keep, number};
use crate::numbers::{LATEST, LONGEST, MICROSECOND, nanos};
use crate::torch::Origin;

pub(crate) use self::ranks::operations;

/// How many events take the memory of an operation, with all that is derived from them.
const EVENTS_PER_OPERATION: usize = 2;

/// From when to when something ran.
#[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Debug)]
struct Span {
    start: Nanos,
    end: Nanos,
}

impl Span {
    /// The shortest that has both.
    fn hull(self, other: Self) -> Self {
        Self { start: self.start.min(other.start), end: self.end.max(other.end) }
    }

    /// Whether `other` lies within.
    fn has(self, other: Self) -> bool {
        self.start <= other.start && other.end <= self.end
    }
}

/// An operator that autograd records.
struct Operator {
    thread: i64,
    span: Span,
    /// Number of the node that it makes, on its thread.
    sequence: i64,
}

/// A node that autograd evaluates.
struct Node {
    span: Span,
    /// The operator that made it: its thread, as torch counts threads, and its number. None of what
    /// accumulates gradients.
    of: Option<(i64, i64)>,
}

/// The operations of one rank in a trace.
#[derive(Default)]
pub(crate) struct Observed {
    origin: Origin,
    /// Its steps, by their numbers.
    steps: Vec<(u64, Span)>,
    operators: Vec<Operator>,
    nodes: Vec<Node>,
    messages: Vec<Message>,
    /// When transfers of gloo were over.
    arrivals: Vec<Nanos>,
    /// When kernels were launched, by correlation.
    launches: Vec<(i64, Nanos)>,
    /// Kernels that compute, by correlation.
    kernels: Vec<(i64, Span)>,
}

impl Observed {
    /// The memory that it takes, as a number of operations.
    pub(crate) fn len(&self) -> usize {
        let events = self.operators.len() + self.nodes.len() + self.messages.len();
        let events = events
            + self.arrivals.len()
            + self.steps.len()
            + self.launches.len()
            + self.kernels.len();
        events.div_ceil(EVENTS_PER_OPERATION)
    }

    /// Takes a complete event; whether it says something of a pass.
    pub(crate) fn take(&mut self, event: &Event<'_>, at: Place) -> Result<bool, TraceError> {
        let none = Args::default();
        let args = event.args.as_ref().unwrap_or(&none);
        let name = event.name.as_deref().unwrap_or_default();
        let rows = self.len() + 1;
        match event.cat.as_deref() {
            Some("cpu_op") => self.operator(event, name, args, at),
            Some("user_annotation") if name.starts_with("gloo:") => {
                keep(&mut self.arrivals, span(event, at)?.end, rows).map(|()| true)
            }
            Some("user_annotation") => {
                let number = name.strip_prefix("ProfilerStep#").and_then(|step| step.parse().ok());
                let Some(number) = number else { return Ok(false) };
                keep(&mut self.steps, (number, span(event, at)?), rows).map(|()| true)
            }
            Some("cuda_runtime" | "cuda_driver") => {
                let Some(correlation) = number(args.correlation.as_ref()) else { return Ok(false) };
                keep(&mut self.launches, (correlation, span(event, at)?.start), rows).map(|()| true)
            }
            Some("kernel") if !name.starts_with("nccl") && !name.starts_with("rccl") => {
                let Some(correlation) = number(args.correlation.as_ref()) else { return Ok(false) };
                keep(&mut self.kernels, (correlation, span(event, at)?), rows).map(|()| true)
            }
            _ => Ok(false),
        }
    }

    fn operator(
        &mut self,
        event: &Event<'_>,
        name: &str,
        args: &Args,
        at: Place,
    ) -> Result<bool, TraceError> {
        let rows = self.len() + 1;
        let thread = number(event.tid.as_ref()).unwrap_or(0);
        let of = number(args.forward_thread.as_ref()).zip(number(args.sequence.as_ref()));
        if let Some(message) = messages::of(name, args, thread) {
            let message = message.at(span(event, at)?);
            return keep(&mut self.messages, message, rows).map(|()| true);
        }
        if name.starts_with("autograd::engine::evaluate_function") {
            // The thread 0 is none.
            let of = of.filter(|(thread, _)| *thread > 0);
            return keep(&mut self.nodes, Node { span: span(event, at)?, of }, rows).map(|()| true);
        }
        let Some((0, sequence)) = of else { return Ok(false) };
        let operator = Operator { thread, span: span(event, at)?, sequence };
        keep(&mut self.operators, operator, rows).map(|()| true)
    }

    /// Takes what the file says next to its events.
    pub(crate) fn head(&mut self, head: &Head) -> Result<(), TraceError> {
        self.origin = Origin::of(head)?;
        Ok(())
    }
}

fn span(event: &Event<'_>, at: Place) -> Result<Span, TraceError> {
    let start = nanos(decimal(event.ts.as_ref(), at, "ts")?, MICROSECOND, LATEST, at, "ts")?;
    let length = decimal(event.dur.as_ref(), at, "dur")?;
    let length = nanos(length, MICROSECOND, LONGEST, at, "dur")?;
    Ok(Span { start, end: Nanos(start.0 + length.0) })
}
