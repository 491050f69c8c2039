//! The kinds of operations on sharded parameters.

/// The kind of an operation on the stream.
#[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash, Debug)]
#[repr(u8)]
pub enum ParameterAct {
    /// The parameters of a chunk are collected from all replicas (all-gather).
    Gather,
    /// The gradients of a chunk are added up over all replicas (reduce-scatter).
    Reduce,
    /// The parameters gathered from other replicas are dropped; takes no time.
    Reshard,
}

impl ParameterAct {
    /// The name in traces, `torch`'s.
    #[must_use]
    pub const fn name(self) -> &'static str {
        match self {
            Self::Gather => "UNSHARD",
            Self::Reduce => "REDUCE_GRAD",
            Self::Reshard => "RESHARD",
        }
    }
}
