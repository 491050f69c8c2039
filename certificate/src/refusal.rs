//! Refusals of certificates.

use pipeline::{Bytes, Fault, Nanos, Pass, Slot, TextError};
use thiserror::Error;

use crate::{BoundArgument, MAX_BYTES, VERSION};

/// The first claim of a certificate that does not hold.
#[derive(Clone, PartialEq, Eq, Debug, Error)]
pub enum Refusal {
    /// A text that is not read at all.
    #[error("the certificate has {bytes} bytes: at most {MAX_BYTES} are read")]
    TooLarge {
        /// Its length.
        bytes: usize,
    },
    /// No TOML, or not these keys.
    #[error("the certificate cannot be read: {0}")]
    Form(String),
    /// Another version of the form.
    #[error("the certificate has version {given}, but only versions 1 to {VERSION} can be checked")]
    Version {
        /// Its version.
        given: u32,
    },
    /// A placement for which there are no bounds.
    #[error("the placement is `{given}`: only `looped` and `vee` can be checked")]
    Placement {
        /// The text found.
        given: String,
    },
    /// A list of the wrong length.
    #[error("`{key}` has {given} numbers, but the schedule needs {needed}")]
    Count {
        /// Which list.
        key: &'static str,
        /// Its length.
        given: usize,
        /// One for each chunk or stage.
        needed: usize,
    },
    /// An argument that is not known, or looks at stages it cannot look at.
    #[error("the argument {given} cannot be checked: {why}")]
    Argument {
        /// Name and stages.
        given: String,
        /// The reason why they are wrong.
        why: &'static str,
    },
    /// No proof where the argument rests on one, or one that cannot be followed.
    #[error("the proof cannot be followed: {why}")]
    Log {
        /// The reason why not.
        why: &'static str,
    },
    /// Not a schedule, or costs or footprints of another.
    #[error("the schedule does not hold: {0}")]
    Schedule(#[from] TextError),
    /// Copies to the host, or a vocabulary in shards: bounds know neither.
    #[error(
        "the schedule copies to the host or cuts the output layer over all stages, and bounds are of \
         schedules without either"
    )]
    Beyond,
    /// A whole backward, or two passes at once: bounds are of split backwards, one at a time.
    #[error("{slot} on stage {stage} is not a pass that the bound is about")]
    Unsplit {
        /// The slot found.
        slot: Slot,
        /// Where.
        stage: usize,
    },
    /// More held than allowed.
    #[error("stage {stage} holds {held} at {pass}, but its limit is {limit}")]
    Memory {
        /// Which stage.
        stage: usize,
        /// The first pass with which it holds too much.
        pass: Pass,
        /// How much.
        held: Bytes,
        /// How much it may.
        limit: Bytes,
    },
    /// Another cost than claimed.
    #[error("the schedule costs {found}, not {claimed}")]
    Cost {
        /// The cost claimed.
        claimed: Nanos,
        /// The cost that the schedule has.
        found: Nanos,
    },
    /// A gap that is not cost less bound.
    #[error("the gap is {gap}, but the cost is {cost} and the bound {bound}")]
    Gap {
        /// The cost claimed.
        cost: Nanos,
        /// The bound claimed.
        bound: Nanos,
        /// The gap claimed.
        gap: Nanos,
    },
    /// A bound that the argument does not show.
    #[error("the argument {argument} does not show that every schedule costs {claimed} or more")]
    Bound {
        argument: BoundArgument,
        /// The bound claimed.
        claimed: Nanos,
    },
}

impl Refusal {
    /// Whether the text is not a certificate that this version reads, rather than one that is wrong.
    #[must_use]
    pub const fn is_unreadable(&self) -> bool {
        matches!(self, Self::TooLarge { .. } | Self::Form(_) | Self::Version { .. })
    }
}

impl From<Fault> for Refusal {
    fn from(fault: Fault) -> Self {
        Self::Schedule(fault.into())
    }
}
