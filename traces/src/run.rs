//! A run, checked and understood: its steps, and how long each would take.

mod predict;

use std::ops::Range;

use pipeline::{Fault, Kind, Nanos, Order, Placement, Schedule, Shape, Slot};

use crate::dependency::Parts;
use crate::error::TraceError;
use crate::graph::Graph;
use crate::hops::{self, Edge, LinkHops};
use crate::lack::Lack;
use crate::operation::Operation;
use crate::reader::{Sends, Trace};
use crate::waits::together;

/// A real run whose steps can be predicted from other durations.
pub struct Run {
    /// The operations by step, data-parallel rank, stage and start.
    operations: Vec<Operation>,
    own: Vec<u64>,
    dp_ranks: Vec<u32>,
    steps: Vec<Step>,
    /// The estimated hops of each step's edges.
    hops: Vec<Vec<u64>>,
    sends: Sends,
    lacks: Vec<Lack>,
}

/// One training step of a run.
pub struct Step {
    number: u64,
    operations: Range<usize>,
    shape: Shape,
    placement: Placement,
    begin: Nanos,
    end: Nanos,
    graph: Graph,
}

impl Run {
    /// Checks that `trace` has whole steps of a pipeline, infers the dependencies between its operations, and
    /// estimates the hops of values whose transfers are not in it.
    ///
    /// Sends hold up their rank as they do in runs of the form of the trace, unless the trace shows that they did not.
    pub fn new(trace: Trace) -> Result<Self, TraceError> {
        let sends = trace.sends();
        let Trace { mut operations, lacks, .. } = trace;
        // Stable: operations of no length stay as they stand in the file.
        operations.sort_by_key(|one| (one.step, one.dp_rank, one.stage, one.start, one.end()));
        let stages = operations.iter().map(|one| u64::from(one.stage) + 1).max();
        let Some(stages) = stages else { return Err(TraceError::Nothing { skipped: 0 }) };
        let mut dp_ranks: Vec<u32> = operations.iter().map(|one| one.dp_rank).collect();
        dp_ranks.sort_unstable();
        dp_ranks.dedup();
        let (own, steps, hops) = (Vec::new(), Vec::new(), Vec::new());
        let mut run = Self { operations, own, dp_ranks, steps, hops, sends, lacks };
        run.steps = match run.all_steps(stages, sends) {
            Ok(steps) if sends == Sends::Free || are_held_up(&steps) => steps,
            Err(error) if sends == Sends::Free => return Err(error),
            _ => {
                run.sends = Sends::Free;
                run.all_steps(stages, Sends::Free)?
            }
        };
        let own = run
            .steps
            .iter()
            .map(|step| step.graph.own_times(&run.operations[step.operations.clone()]));
        run.own = own.collect::<Vec<_>>().concat();
        let edges = run.edges();
        run.hops = hops::estimate(&edges, &edges);
        Ok(run)
    }

    fn all_steps(&self, stages: u64, sends: Sends) -> Result<Vec<Step>, TraceError> {
        let steps = self.operations.chunk_by(|one, other| one.step == other.step);
        let ranges = steps.scan(0, |next, step| {
            let first = std::mem::replace(next, *next + step.len());
            Some(first..*next)
        });
        ranges.map(|range| self.step(range, stages, sends)).collect()
    }

    fn step(&self, range: Range<usize>, stages: u64, sends: Sends) -> Result<Step, TraceError> {
        let operations = &self.operations[range.clone()];
        let number = operations[0].step;
        let pipelines = operations.chunk_by(|one, other| one.dp_rank == other.dp_rank);
        let present: Vec<u32> = pipelines.clone().map(|ops| ops[0].dp_rank).collect();
        if let Some(&dp_rank) =
            self.dp_ranks.iter().find(|rank| present.binary_search(rank).is_err())
        {
            return Err(TraceError::MissingRank { step: number, dp_rank });
        }
        let dp_rank = present[0];
        let wrong = |fault| TraceError::Schedule { step: number, dp_rank, fault };
        let shape = shape(operations, stages).map_err(wrong)?;
        let placement = likeliest_placement(shape, operations);
        for pipeline in pipelines {
            let dp_rank = pipeline[0].dp_rank;
            schedule(shape, placement, pipeline).map_err(|fault| TraceError::Schedule {
                step: number,
                dp_rank,
                fault,
            })?;
        }
        let by_rank = operations
            .chunk_by(|one, other| (one.dp_rank, one.stage) == (other.dp_rank, other.stage));
        let ranks = by_rank.scan(0, |next, rank| {
            let first = std::mem::replace(next, *next + rank.len());
            Some(first..*next)
        });
        let parts = Parts { operations, ranks: ranks.collect(), shape, placement, sends };
        let graph = Graph::new(&parts)?;
        let begin = operations.iter().map(|one| one.start).min().unwrap_or_default();
        let end = operations.iter().map(Operation::end).max().unwrap_or_default();
        Ok(Step { number, operations: range, shape, placement, begin, end, graph })
    }

    /// The steps, by number.
    #[must_use]
    pub fn steps(&self) -> &[Step] {
        &self.steps
    }

    /// The data-parallel ranks, ascending.
    #[must_use]
    pub fn dp_ranks(&self) -> &[u32] {
        &self.dp_ranks
    }

    /// All operations, by step, data-parallel rank, stage and start.
    #[must_use]
    pub fn operations(&self) -> &[Operation] {
        &self.operations
    }

    /// How long each of [`Self::operations`] took by itself.
    pub(crate) fn own(&self) -> &[u64] {
        &self.own
    }

    /// How long each of [`Self::operations`] hesitated when it could have started.
    pub(crate) fn launch_delays(&self) -> Vec<u64> {
        let of = |(step, hops): (&Step, &Vec<u64>)| {
            let operations = &self.operations[step.operations.clone()];
            step.graph.launch_delays(operations, step.begin.0, hops)
        };
        self.steps.iter().zip(&self.hops).flat_map(of).collect()
    }

    /// The edges of each step.
    fn edges(&self) -> Vec<&[Edge]> {
        self.steps.iter().map(|step| step.graph.edges()).collect()
    }

    /// Information about the run that the trace lacks.
    #[must_use]
    pub fn lacks(&self) -> &[Lack] {
        &self.lacks
    }

    /// How sends that are not in the trace hold up their rank.
    #[must_use]
    pub const fn sends(&self) -> Sends {
        self.sends
    }

    /// The hops over each link whose transfers are not in the trace, as they are estimated; none if nothing is.
    #[must_use]
    pub fn links(&self) -> Vec<LinkHops> {
        hops::links(self.edges().into_iter())
    }

    /// Whether the run has whole backward passes, rather than B and W apart.
    #[must_use]
    pub fn is_fused(&self) -> bool {
        let mut passes = self.operations.iter().filter_map(Operation::pass);
        passes.any(|pass| pass.kind == Kind::BW)
    }

    /// The time from the end of a pass to the arrival of its value where transfers are not in the
    /// trace: the median of the estimates.
    pub(crate) fn hop(&self) -> u64 {
        hops::median(&mut self.hops.concat())
    }

    /// The order in which the pipeline of `dp_rank` (by its place in [`Self::dp_ranks`]) did the passes of `step`.
    pub fn schedule(&self, step: &Step, dp_rank: usize) -> Result<Schedule, Fault> {
        let operations = &self.operations[step.operations.clone()];
        let mut pipelines = operations.chunk_by(|one, other| one.dp_rank == other.dp_rank);
        schedule(step.shape, step.placement, pipelines.nth(dp_rank).unwrap_or_default())
    }
}

impl Step {
    /// Its number in the training run.
    #[must_use]
    pub const fn number(&self) -> u64 {
        self.number
    }

    /// Stages, chunks and microbatches.
    #[must_use]
    pub const fn shape(&self) -> Shape {
        self.shape
    }

    /// How long it took: from the start of the first operation of any rank to the end of the last of any.
    #[must_use]
    pub fn measured(&self) -> Nanos {
        self.end - self.begin
    }
}

/// Whether senders waited until the other end was ready, but for one in twenty.
fn are_held_up(steps: &[Step]) -> bool {
    let edges = || steps.iter().flat_map(|step| step.graph.edges());
    edges().filter(|edge| edge.went_on).count() * 20 <= edges().count()
}

/// The smallest shape that has all passes of a step.
fn shape(operations: &[Operation], stages: u64) -> Result<Shape, Fault> {
    let passes = || operations.iter().filter_map(Operation::pass);
    let chunks = passes().map(|pass| u64::from(pass.chunk) + 1).max().unwrap_or(0);
    let microbatches = passes().map(|pass| u64::from(pass.microbatch) + 1).max().unwrap_or(0);
    Shape::new(stages, chunks.div_ceil(stages), microbatches)
}

/// The placement under which fewest passes stand on a wrong stage.
fn likeliest_placement(shape: Shape, operations: &[Operation]) -> Placement {
    let strays = |placement: &Placement| {
        let is_stray = |one: &&Operation| {
            let home = |pass: pipeline::Pass| placement.stage(shape, pass.chunk, pass.microbatch);
            one.pass().is_some_and(|pass| home(pass) != usize::from(one.stage))
        };
        operations.iter().filter(is_stray).count()
    };
    let candidates = [Placement::Looped, Placement::Vee, Placement::Mirrored];
    // Only a pipeline of one chunk per stage can be mirrored; of equals, the first is kept.
    let allowed = if shape.chunks_per_stage() == 1 { &candidates[..] } else { &candidates[..2] };
    allowed.iter().copied().min_by_key(strays).unwrap_or(Placement::Looped)
}

/// The order of passes of one pipeline in one step.
fn schedule(
    shape: Shape,
    placement: Placement,
    operations: &[Operation],
) -> Result<Schedule, Fault> {
    let mut orders = vec![Order::default(); shape.stages()];
    let passes: Vec<&Operation> = operations.iter().filter(|one| one.pass().is_some()).collect();
    let mut at = 0;
    while let Some(first) = passes.get(at) {
        let next =
            passes.get(at + 1).filter(|next| next.stage == first.stage && together(first, next));
        let slot = match (first.pass(), next.and_then(|next| next.pass())) {
            (Some(first), Some(second)) => Slot::Pair(first, second),
            (Some(first), None) => first.into(),
            (None, _) => break,
        };
        at += slot.passes().count();
        orders[usize::from(first.stage)].push(slot);
    }
    Schedule::new(shape, placement, orders)
}
