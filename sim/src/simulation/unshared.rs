//! Durations with noise or without it, where links are never shared.

use pipeline::{CopyDirection, Pass, Slot, Value};

use crate::straggler::NoisyTiming;
use crate::timed::{Nominal, Timing};

/// Durations where links are not shared, with or without noise.
pub(super) enum UnsharedTiming<'a> {
    Nominal(Nominal<'a>),
    Replica(NoisyTiming<'a>),
}

impl Timing for UnsharedTiming<'_> {
    fn duration(&self, stage: usize, pass: Pass, start: u64) -> u64 {
        match self {
            Self::Nominal(timing) => timing.duration(stage, pass, start),
            Self::Replica(timing) => timing.duration(stage, pass, start),
        }
    }

    fn slot(&self, stage: usize, slot: Slot, start: u64) -> u64 {
        match self {
            Self::Nominal(timing) => timing.slot(stage, slot, start),
            Self::Replica(timing) => timing.slot(stage, slot, start),
        }
    }

    fn hop(&self, value: Value, from: usize, to: usize, start: u64) -> u64 {
        match self {
            Self::Nominal(timing) => timing.hop(value, from, to, start),
            Self::Replica(timing) => timing.hop(value, from, to, start),
        }
    }

    fn copy(&self, chunk: u16, way: CopyDirection) -> u64 {
        match self {
            Self::Nominal(timing) => timing.copy(chunk, way),
            Self::Replica(timing) => timing.copy(chunk, way),
        }
    }

    fn parameters(&self) -> Option<&pipeline::sharding::ParameterTimes> {
        match self {
            Self::Nominal(timing) => timing.parameters(),
            Self::Replica(timing) => timing.parameters(),
        }
    }

    fn collective(&self, value: Value, start: u64) -> u64 {
        match self {
            Self::Nominal(timing) => timing.collective(value, start),
            Self::Replica(timing) => timing.collective(value, start),
        }
    }
}
