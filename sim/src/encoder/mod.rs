//! When passes run where an encoder stands in front of the model: as a part of its chunks ([`Together`]), or as
//! layers between the slots of any stage ([`EncoderStep`]).

mod step;

use pipeline::{Costs, EncoderRun, Nanos, Pass, Slot, Value};

pub use self::step::{Beside, EncoderStep, ModelOrder};
use crate::timed::Timing;

/// What a stage does for a time.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum EncoderOperation {
    /// A slot of the model's order.
    Slot(Slot),
    /// Layers of the encoder.
    Encoder(EncoderRun),
}

/// An operation in time.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct EncoderSpan {
    /// The slot or the layers.
    pub operation: EncoderOperation,
    /// When it began.
    pub start: Nanos,
    /// When it ended.
    pub end: Nanos,
}

/// All operations of a step in time, by stage, each stage in order. Time 0 is the start of the step.
#[derive(Clone, PartialEq, Eq, Debug)]
pub struct EncoderTimeline {
    /// The spans of each stage.
    pub stages: Vec<Vec<EncoderSpan>>,
}

impl EncoderTimeline {
    /// The end of the last operation.
    #[must_use]
    pub fn step(&self) -> Nanos {
        self.stages.iter().flatten().map(|span| span.end).max().unwrap_or_default()
    }

    /// The time that all stages work.
    #[must_use]
    pub fn busy(&self) -> u128 {
        self.stages.iter().flatten().map(|span| u128::from((span.end - span.start).0)).sum()
    }
}

/// Chunks that do a part of the encoder beside their own work: each pass takes both times.
#[derive(Clone, Copy, Debug)]
pub struct Together<'a> {
    /// The times of the model, and its hops.
    pub model: &'a Costs,
    /// The times of the encoder in each chunk.
    pub encoder: &'a Costs,
}

impl Timing for Together<'_> {
    fn duration(&self, _: usize, pass: Pass, _: u64) -> u64 {
        self.model.of(pass).0.saturating_add(self.encoder.of(pass).0)
    }

    fn hop(&self, value: Value, from: usize, to: usize, _: u64) -> u64 {
        let chunk = value.chunk().unwrap_or(u16::MAX);
        let crosses_frozen =
            matches!(value, Value::Gradient { .. }) && chunk <= self.model.forward_only_chunks();
        match crosses_frozen && chunk <= self.encoder.forward_only_chunks() {
            true => 0,
            false => self.model.hops().between(from, to).0,
        }
    }

    fn collective(&self, value: Value, _: u64) -> u64 {
        self.model.collectives().of(value).0
    }
}

#[cfg(test)]
mod tests;
