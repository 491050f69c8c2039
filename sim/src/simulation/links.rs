//! Durations of which some links are faster.

use pipeline::{CopyDirection, Pass, Slot, Value};

use crate::engine::Durations;
use crate::timed::Timing;

/// The links on which every transfer takes half the time.
#[derive(Clone, Copy, PartialEq, Eq, Default, Debug)]
pub enum FasterLinks {
    /// None: all transfers take the time that they take.
    #[default]
    None,
    /// Every link.
    All,
    /// The link between two stages, both ways; the lower stage first.
    Between(usize, usize),
}

impl FasterLinks {
    /// The part of `time` between two stages that is left, rounded up.
    #[inline]
    pub(crate) fn shorten(self, time: u64, from: usize, to: usize) -> u64 {
        let applies = match self {
            Self::None => false,
            Self::All => true,
            Self::Between(a, b) => (a, b) == (from.min(to), from.max(to)),
        };
        if applies { time.div_ceil(2) } else { time }
    }
}

/// The durations of `inner`, with faster links.
pub(super) struct Faster<T> {
    pub(super) inner: T,
    pub(super) links: FasterLinks,
}

impl<T: Timing> Timing for Faster<T> {
    fn begin(&self, stage: usize) -> u64 {
        self.inner.begin(stage)
    }

    fn duration(&self, stage: usize, pass: Pass, start: u64) -> u64 {
        self.inner.duration(stage, pass, start)
    }

    fn slot(&self, stage: usize, slot: Slot, start: u64) -> u64 {
        self.inner.slot(stage, slot, start)
    }

    fn hop(&self, value: Value, from: usize, to: usize, start: u64) -> u64 {
        self.links.shorten(self.inner.hop(value, from, to, start), from, to)
    }

    fn copy(&self, chunk: u16, way: CopyDirection) -> u64 {
        self.inner.copy(chunk, way)
    }

    fn parameters(&self) -> Option<&pipeline::sharding::ParameterTimes> {
        self.inner.parameters()
    }

    fn collective(&self, value: Value, start: u64) -> u64 {
        self.inner.collective(value, start)
    }
}

impl<T: Durations> Durations for Faster<T> {
    fn pass(&self, nominal: u64, stage: usize, pass: Pass, step: u32, start: u64) -> u64 {
        self.inner.pass(nominal, stage, pass, step, start)
    }

    fn hop(
        &self,
        nominal: u64,
        value: Value,
        from: usize,
        to: usize,
        step: u32,
        start: u64,
    ) -> u64 {
        let time = self.inner.hop(nominal, value, from, to, step, start);
        self.links.shorten(time, from, to)
    }
}
