//! How long each slot waited, predicted and measured.

use std::cmp::Reverse;
use std::collections::HashMap;

use pipeline::{Measurement, Nanos, Slot, Step, Value};

/// The wait of a stage before one slot.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct Wait {
    /// Which stage.
    pub stage: usize,
    pub slot: Slot,
    /// The value that it needed last from another stage, if any.
    pub value: Option<Value>,
    /// How long it waits by the prediction, from the end of the slot before it.
    pub predicted: Nanos,
    /// How long it waited.
    pub measured: Nanos,
}

impl Wait {
    /// Measured less predicted, in nanoseconds.
    pub const fn difference(&self) -> i64 {
        self.measured.0.cast_signed().saturating_sub(self.predicted.0.cast_signed())
    }
}

/// The `most` waits that differ most, the largest difference first; those that do not differ are
/// left out. The first slot of a stage waits from the start of the step.
pub(super) fn largest(predicted: &Step, measured: &Step, most: usize) -> Vec<Wait> {
    let mut all = Vec::new();
    for (stage, (predicted, measured)) in predicted.stages.iter().zip(&measured.stages).enumerate()
    {
        let before: HashMap<Slot, Nanos> =
            waits(predicted).map(|(one, wait)| (one.slot, wait)).collect();
        for (one, measured) in waits(measured) {
            let predicted = before.get(&one.slot).copied().unwrap_or_default();
            let value = one.arrived.map(|(value, _)| value);
            all.push(Wait { stage, slot: one.slot, value, predicted, measured });
        }
    }
    all.retain(|wait| wait.difference() != 0);
    all.sort_by_key(|wait| (Reverse(wait.difference().unsigned_abs()), wait.stage));
    all.truncate(most);
    all
}

fn waits(slots: &[Measurement]) -> impl Iterator<Item = (&Measurement, Nanos)> {
    let ends = std::iter::once(Nanos(0)).chain(slots.iter().map(|one| one.end));
    slots.iter().zip(ends).map(|(one, free)| (one, one.start - free))
}
