//! An operation of a rank in a step.

use std::fmt;

use pipeline::{Kind, Nanos, Pass};

/// The most operations a trace may have. Bounds the memory a hostile input can ask for.
pub const MAX_OPERATIONS: usize = 20_000_000;

/// The most bytes of memory that an operation takes from [`crate::read`] to [`crate::Run::predict`].
pub const BYTES_PER_OPERATION: u64 = 512;

/// The way a transfer goes.
#[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash, Debug)]
pub enum Direction {
    /// The output of a forward, to the next stage; from the last stage to the first between laps.
    Forward,
    /// The gradient of a backward, to the stage before.
    Backward,
}

/// The side of a transfer that a rank is on.
#[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash, Debug)]
pub enum Side {
    /// It has the value.
    Send,
    /// It wants the value.
    Recv,
}

/// The type of an operation of a rank.
#[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash, Debug)]
pub enum OpType {
    /// A pass of the pipeline.
    Pass(Kind),
    /// Its side of a transfer.
    Transfer(Direction, Side),
    /// Parameters gathered from the ranks that share the stage.
    ParamsAllGather,
    /// Gradients summed over the ranks that share the stage.
    GradsReduceScatter,
    /// Gradients of the embedding summed over the stages that hold it.
    EmbeddingAllReduce,
    /// Gradients of layer norms summed over the tensor-parallel ranks, which a trace leaves out.
    LayernormAllReduce,
    /// Gradients clipped to a norm that all ranks find together.
    ClipGradients,
    /// The optimizer's step.
    Optimizer,
    /// Garbage collection of the host.
    GarbageCollection,
    /// Something else that the host does between passes, such as to post a transfer.
    Host,
}

use Direction::{Backward, Forward};
use Side::{Recv, Send};

/// Every name an operation is read by; the first of two is the one it is printed by.
const NAMES: [(&str, OpType); 18] = [
    ("F", OpType::Pass(Kind::F)),
    ("B", OpType::Pass(Kind::B)),
    ("W", OpType::Pass(Kind::W)),
    ("BW", OpType::Pass(Kind::BW)),
    ("forward-compute", OpType::Pass(Kind::F)),
    ("backward-compute", OpType::Pass(Kind::BW)),
    ("forward-send", OpType::Transfer(Forward, Send)),
    ("forward-recv", OpType::Transfer(Forward, Recv)),
    ("backward-send", OpType::Transfer(Backward, Send)),
    ("backward-recv", OpType::Transfer(Backward, Recv)),
    ("params-all-gather", OpType::ParamsAllGather),
    ("grads-reduce-scatter", OpType::GradsReduceScatter),
    ("embedding-grads-all-reduce", OpType::EmbeddingAllReduce),
    ("layernorm-grads-all-reduce", OpType::LayernormAllReduce),
    ("optimizer-clip-main-grad", OpType::ClipGradients),
    ("optimizer", OpType::Optimizer),
    ("gc", OpType::GarbageCollection),
    ("host", OpType::Host),
];

impl OpType {
    /// The operation of that name, as it stands in traces.
    #[must_use]
    pub fn named(name: &str) -> Option<Self> {
        NAMES.into_iter().find_map(|(known, optype)| (known == name).then_some(optype))
    }

    /// The name in traces.
    #[must_use]
    pub fn name(self) -> &'static str {
        NAMES.into_iter().find_map(|(name, optype)| (optype == self).then_some(name)).unwrap_or("?")
    }

    /// All names, for an error.
    pub(crate) fn names() -> String {
        NAMES.map(|(name, _)| name).join(", ")
    }
}

/// An operation of a rank in a step. A rank is a stage of a data-parallel rank.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct Operation {
    /// Number of the training step.
    pub step: u64,
    /// Which of the pipelines that train on other data.
    pub dp_rank: u32,
    /// Which stage of it, from 0.
    pub stage: u16,
    /// The type of the operation.
    pub optype: OpType,
    /// The chunk of a pass, in model order over the whole model.
    pub chunk: u16,
    /// The microbatch of a pass, from 0.
    pub microbatch: u32,
    /// When it began; any time 0 will do that is the same for all ranks of a step.
    pub start: Nanos,
    /// How long it took, waiting for other ranks included.
    pub duration: Nanos,
}

impl Operation {
    /// When it was over; saturates.
    #[must_use]
    pub const fn end(&self) -> Nanos {
        Nanos(self.start.0.saturating_add(self.duration.0))
    }

    /// The pass, if it is one.
    #[must_use]
    pub fn pass(&self) -> Option<Pass> {
        match self.optype {
            OpType::Pass(kind) => {
                Some(Pass { kind, chunk: self.chunk, microbatch: self.microbatch })
            }
            _ => None,
        }
    }
}

impl fmt::Display for Operation {
    /// A pass as in `F0.3`, anything else by its name.
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self.pass() {
            Some(pass) => pass.fmt(f),
            None => f.write_str(self.optype.name()),
        }
    }
}
