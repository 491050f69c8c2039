//! Everything that can be wrong with a pipeline, as values that name stages and passes.

use std::fmt;

use thiserror::Error;

use crate::copy_op::CopyOp;
use crate::pass::Pass;
use crate::shape::{MAX_CHUNKS, MAX_PASSES};
use crate::units::Bytes;

/// A fault of a shape, a schedule, its costs, or a question to a family.
#[derive(Clone, PartialEq, Eq, Debug, Error)]
pub enum Fault {
    /// A pipeline with none of something.
    #[error("{what} must be at least 1")]
    Zero {
        /// The quantity that is zero.
        what: &'static str,
    },
    /// More chunks than [`MAX_CHUNKS`].
    #[error("{chunks} chunks (stages x chunks per stage): at most {MAX_CHUNKS}")]
    TooManyChunks {
        /// Number asked for.
        chunks: u128,
    },
    /// More passes than [`MAX_PASSES`].
    #[error(
        "{passes} passes (3 x stages x chunks per stage x microbatches): at most {MAX_PASSES}; \
         use fewer microbatches or stages"
    )]
    TooManyPasses {
        /// Number asked for.
        passes: u128,
    },
    /// Not one order for each stage.
    #[error("{orders} orders for {stages} stages: each stage needs one")]
    OrderCount {
        /// Number of stages that the shape has.
        stages: usize,
        /// Number of orders given.
        orders: usize,
    },
    /// A chunk or a microbatch that the shape does not have.
    #[error(
        "{pass} on stage {stage}: there are only {chunks} chunks and {microbatches} microbatches, counted from 0"
    )]
    UnknownPass {
        /// The pass.
        pass: Pass,
        /// Where it stands.
        stage: usize,
        /// Chunks of the model.
        chunks: u16,
        /// Microbatches.
        microbatches: u32,
    },
    /// Work on a shard of the vocabulary in a pipeline that has none.
    #[error(
        "{pass} on stage {stage}: the output layer is not in shards; a schedule with S and T \
         says which barriers they have, in text by a first line `vocabulary 1` (algorithm 1, a \
         barrier behind S and one behind T) or `vocabulary 2` (algorithm 2, one behind S)"
    )]
    NoShards {
        /// The pass.
        pass: Pass,
        /// Where it stands.
        stage: usize,
    },
    /// Shards where microbatches go through the stages both ways.
    #[error(
        "the output layer cannot be in shards where microbatches go both ways: S and T are for one \
         last chunk on one stage"
    )]
    MirroredShards,
    /// A shard or a microbatch that the shape does not have.
    #[error(
        "{pass} on stage {stage}: there are only {stages} shards, one per stage, and \
         {microbatches} microbatches, counted from 0"
    )]
    UnknownShard {
        /// The pass.
        pass: Pass,
        /// Where it stands.
        stage: usize,
        /// Number of stages.
        stages: usize,
        /// Microbatches.
        microbatches: u32,
    },
    /// A pass on a stage that does not hold its chunk.
    #[error("{pass} is on stage {stage}, but its {} is on stage {home}", place(*.pass))]
    WrongStage {
        /// The pass.
        pass: Pass,
        /// Where it stands.
        stage: usize,
        /// Where it belongs.
        home: usize,
    },
    /// Work done twice.
    #[error("{pass} on stage {stage} does work that was already done there")]
    Duplicate {
        /// The second of the two.
        pass: Pass,
        /// Where it stands.
        stage: usize,
    },
    /// A recomputation that does not come before its backward.
    #[error("{pass} on stage {stage} does not come before the backward that it is for")]
    LateRecompute {
        /// The recomputation.
        pass: Pass,
        /// Where it stands.
        stage: usize,
    },
    /// Footprints of a chunk that discards its activations, and an order that does not recompute them.
    #[error(
        "the forward of chunk {chunk} keeps a part of its activations, but no R makes the rest again"
    )]
    NotRecomputed {
        /// The chunk.
        chunk: u16,
    },
    /// Work never done.
    #[error("{pass} is missing from stage {stage}{}", more(*.others))]
    Missing {
        /// The first missing pass; `BW` where neither it nor `B` and `W` are there.
        pass: Pass,
        /// Where it belongs.
        stage: usize,
        /// How many other chunks and microbatches lack something too.
        others: usize,
    },
    /// Passes that wait for each other.
    #[error("deadlock: {0}")]
    Deadlock(Cycle),
    /// A copy to the host or back that cannot be.
    #[error("the copy {copy} of stage {stage} {what}")]
    Copies {
        /// The copy.
        copy: CopyOp,
        /// The stage.
        stage: usize,
        /// The fault of the copy.
        what: &'static str,
    },
    /// Costs or footprints made for another pipeline.
    #[error("{what} for {given} chunks, but the schedule has {chunks}")]
    ChunkCount {
        /// Costs or footprints.
        what: &'static str,
        /// Chunks they were made for.
        given: usize,
        /// Chunks of the schedule.
        chunks: u16,
    },
    /// Times or footprints of shards that the schedule needs and were not given, or not one for
    /// each stage.
    #[error("{what} for {given} shards of the vocabulary, but the schedule has {shards}")]
    ShardCount {
        /// Costs or footprints.
        what: &'static str,
        /// Shards they were made for.
        given: usize,
        /// Shards of the schedule, one per stage.
        shards: usize,
    },
    /// Neither one value, nor one per stage, nor one per chunk.
    #[error(
        "{what} has {given} values: give 1 (all stages alike), {stages} (one per stage){}",
        per_chunk(*.stages, *.chunks)
    )]
    ValueCount {
        /// Which quantity.
        what: &'static str,
        /// Number of values given.
        given: usize,
        /// Number of stages.
        stages: usize,
        /// Number of chunks.
        chunks: u16,
    },
    /// The work of other microbatches than those of the pipeline.
    #[error(
        "the work of {given} microbatches is given, and the step has {microbatches}: give one factor for each"
    )]
    MicrobatchCount {
        /// Number of microbatches whose work is given.
        given: usize,
        /// Microbatches of the step.
        microbatches: u32,
    },
    /// Neither one hop for all links, nor one for each.
    #[error("hop has {given} values{}", links(*.stages, *.wraps))]
    HopCount {
        /// Number of values given.
        given: usize,
        /// Number of stages.
        stages: usize,
        /// Whether the link from the last stage back to the first is the one that lacks a value.
        wraps: bool,
    },
    /// An encoder without layers, or with more than [`MAX_ENCODER_LAYERS`](crate::MAX_ENCODER_LAYERS).
    #[error("the encoder has {layers} layers: from 1 to {}", crate::encoder::MAX_ENCODER_LAYERS)]
    EncoderLayers {
        /// Its layers.
        layers: u64,
    },
    /// A schedule whose stages are not free for layers of an encoder between their slots.
    #[error(
        "an encoder needs a schedule with one first stage, without shards of the vocabulary, copies to the \
         host or collectives of parameters"
    )]
    BehindEncoder,
    /// More slots and layers of an encoder than are searched.
    #[error(
        "{operations} passes and layers of the encoder are too many: use fewer microbatches or layers"
    )]
    EncoderOperations {
        /// Slots of the model and layers of the encoder in a step.
        operations: usize,
    },
    /// More layers of encoder and model than are dealt to chunks.
    #[error("{layers} layers are too many to divide among chunks: at most {most}")]
    EncoderUnits {
        /// Layers of both.
        layers: u64,
        /// The most that are dealt.
        most: u64,
    },
    /// Stages of an encoder of its own where the model has none left, or several chunks on each.
    #[error(
        "an encoder has {own} of {stages} stages of its own: at least 1 and fewer than all, one chunk on each"
    )]
    EncoderStages {
        /// Stages of the encoder.
        own: u16,
        /// All stages.
        stages: usize,
    },
    /// A step so long, or activations so large, that the numbers overflow.
    #[error("{what} of the whole step add up to more than a 64-bit number can hold")]
    Overflow {
        /// The quantity that overflows.
        what: &'static str,
    },
    /// A family that cannot be built for this shape.
    #[error("{family} needs {what}")]
    Needs {
        /// Name of the family.
        family: &'static str,
        /// The key of the question that it concerns: `stages`, `chunks`, `microbatches`, `group`,
        /// `segments`, `offload-time`, `offload-chunks` or `recompute`.
        key: &'static str,
        /// The requirement, with the value given.
        what: String,
    },
    /// Segments of passes that cannot be.
    #[error("{what}")]
    Segments {
        /// Description of the fault.
        what: String,
    },
    /// An order of segments that cannot be.
    #[error("{what}")]
    Interleaving {
        /// Description of the fault.
        what: String,
    },
    /// A pair of which one pass needs what the other makes.
    #[error(
        "{first} and {second} on stage {stage} cannot run together: {second} needs what {first} makes"
    )]
    PairDepends {
        /// The pass that makes the value.
        first: Pass,
        /// The pass that needs it.
        second: Pass,
        /// Where they stand.
        stage: usize,
    },
    /// A limit under which not even one microbatch alone fits.
    #[error("stage {stage} needs {needs} for a single microbatch, but the memory limit is {limit}")]
    BelowOneMicrobatch {
        /// The stage that needs most.
        stage: usize,
        /// The activations of one microbatch there.
        needs: Bytes,
        /// The limit.
        limit: Bytes,
    },
    /// A limit under which the family finds no order.
    #[error(
        "{family} finds no order under the memory limit: stage {stage} would need {needs} to run \
         {pass}, but the limit is {limit}"
    )]
    Infeasible {
        /// Name of the family.
        family: &'static str,
        /// The stage that got stuck.
        stage: usize,
        /// The pass it could not run.
        pass: Pass,
        /// The memory that would be held then.
        needs: Bytes,
        /// The limit.
        limit: Bytes,
    },
}

fn place(pass: Pass) -> &'static str {
    if pass.kind.is_of_vocabulary() { "shard" } else { "chunk" }
}

fn more(others: usize) -> String {
    match others {
        0 => String::new(),
        n => format!(" (and work for {n} more chunks and microbatches)"),
    }
}

/// The allowed numbers of hops over `stages` stages, in words.
fn links(stages: usize, wraps: bool) -> String {
    let all = ": give 1 (all links alike)";
    match (stages, wraps) {
        (..=1, _) => ": give 1".to_owned(),
        (2, _) => format!("{all}; two stages share one link"),
        (_, true) => format!(
            ", but chunks go round in loops, from stage {0} back to stage 0: give 1 (all links alike), or \
             {stages}, the last of them for that link",
            stages - 1
        ),
        (_, false) => format!(
            "{all}, {0} (one per link between neighbouring stages), or {stages} (then the link from stage \
             {0} back to stage 0)",
            stages - 1
        ),
    }
}

fn per_chunk(stages: usize, chunks: u16) -> String {
    if usize::from(chunks) == stages {
        return String::new();
    }
    format!(" or {chunks} (one per chunk, in model order)")
}

/// A pass that cannot start, and the pass it waits for.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct Wait {
    /// The stage that stands still.
    pub stage: usize,
    /// The pass it cannot start.
    pub pass: Pass,
    /// The pass whose value it needs.
    pub needs: Pass,
    /// The stage where that pass stands, no sooner than the pass of the next wait of the cycle.
    pub on: usize,
}

/// Passes that wait for each other in a ring: each needs the next one, or one that starts no sooner.
#[derive(Clone, PartialEq, Eq, Debug)]
pub struct Cycle(pub Vec<Wait>);

impl fmt::Display for Cycle {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        const SHOWN: usize = 8;
        for (i, wait) in self.0.iter().take(SHOWN).enumerate() {
            let Wait { stage, pass, needs, on } = wait;
            let behind = self.0[(i + 1) % self.0.len()].pass;
            let sep = if i > 0 { "; " } else { "" };
            write!(f, "{sep}{pass} on stage {stage} waits for {needs} on stage {on}")?;
            // The needed pass may itself stand still; if not, it is behind or paired with one.
            if behind != *needs {
                write!(f, ", which starts no sooner than {behind}")?;
            }
        }
        match self.0.len().saturating_sub(SHOWN) {
            0 => Ok(()),
            rest => write!(f, "; and {rest} more passes in the same ring"),
        }
    }
}
