//! One copy of an activation between device and host, and how long copies take.

use std::fmt;

use crate::units::{Bytes, Nanos};

/// Which way an activation goes.
#[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash, Debug)]
pub enum CopyDirection {
    /// A copy from the device to the host: offload.
    Out,
    /// A copy from the host to the device: reload.
    Back,
}

/// One copy of an activation.
#[derive(Clone, Copy, PartialEq, Eq, Hash, Debug)]
pub struct CopyOp {
    /// The direction of the copy.
    pub way: CopyDirection,
    /// The chunk whose forward made the activation.
    pub chunk: u16,
    /// The microbatch.
    pub microbatch: u32,
    /// Number of slots of the stage that must have ended before it may begin.
    pub after: u32,
}

impl fmt::Display for CopyOp {
    /// As in the text form: `O0.3@7`, `R0.3@12`.
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let name = match self.way {
            CopyDirection::Out => 'O',
            CopyDirection::Back => 'R',
        };
        write!(f, "{name}{}.{}@{}", self.chunk, self.microbatch, self.after)
    }
}

/// How long an activation of a chunk takes to the host and back, all of it.
#[derive(Clone, Copy, PartialEq, Eq, Default, Debug)]
pub struct CopyTimes {
    /// The duration of a copy to the host.
    pub out: Nanos,
    /// The duration of a copy from the host.
    pub back: Nanos,
}

impl CopyTimes {
    /// The duration of a copy in direction `way`.
    #[must_use]
    pub const fn of(self, way: CopyDirection) -> Nanos {
        match way {
            CopyDirection::Out => self.out,
            CopyDirection::Back => self.back,
        }
    }
}

/// The part of an activation that is copied, in thousandths from 1 to 1000.
#[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash, Debug)]
pub struct CopyPart(u16);

impl CopyPart {
    /// The whole activation.
    pub const WHOLE: Self = Self(1000);

    /// `per_mille` thousandths; `None` unless from 1 to 1000.
    #[must_use]
    pub const fn new(per_mille: u32) -> Option<Self> {
        match per_mille {
            #[allow(clippy::cast_possible_truncation)] // At most 1000.
            1..=1000 => Some(Self(per_mille as u16)),
            _ => None,
        }
    }

    /// The part in thousandths.
    #[must_use]
    pub const fn per_mille(self) -> u16 {
        self.0
    }

    /// This part of `bytes`, rounded down.
    #[must_use]
    pub fn of_bytes(self, bytes: Bytes) -> Bytes {
        let part = u128::from(bytes.0) * u128::from(self.0) / 1000;
        Bytes(u64::try_from(part).unwrap_or(u64::MAX))
    }

    /// This part of `time`, rounded up.
    #[must_use]
    pub fn of_time(self, time: Nanos) -> Nanos {
        let part = (u128::from(time.0) * u128::from(self.0)).div_ceil(1000);
        Nanos(u64::try_from(part).unwrap_or(u64::MAX))
    }
}

/// The part of each activation that is copied to the host, and how far passes run ahead of the copies.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct CopyPolicy {
    /// The part of each activation that is copied.
    pub part: CopyPart,
    /// Number of copies to the host that may be in flight when a stage begins the slot after a forward that is copied:
    /// it waits until all but the last `max_inflight` copies of its forwards have ended, with 0 for each. `None`: no slot
    /// waits. As `fine_grained_offloading_max_inflight_offloads` of Megatron-LM, which counts modules.
    pub max_inflight: Option<u32>,
}

impl From<CopyPart> for CopyPolicy {
    fn from(part: CopyPart) -> Self {
        Self { part, max_inflight: None }
    }
}
