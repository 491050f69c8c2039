//! The part of a device's memory that a plan may use.

use pipeline::Bytes;

use crate::machine::Machine;
use crate::model::number;

/// The part of a device's memory that a plan may use, as [`StageMemory`](crate::StageMemory)
/// predicts it.
#[derive(Clone, Copy, PartialEq, Default, Debug)]
pub struct MemoryBudget {
    /// Relative error of predicted memory, in either direction.
    pub error: f64,
    /// Cap on the memory, if the question has one.
    pub cap: Option<Bytes>,
}

impl MemoryBudget {
    /// The memory that may be used on a device of `machine`: its memory less its reserve, less the
    /// error of the prediction, and no more than the cap.
    #[must_use]
    #[allow(clippy::cast_possible_truncation, clippy::cast_sign_loss)] // Neither negative nor large.
    pub fn of(&self, machine: &Machine) -> Bytes {
        let given = machine.memory.0.saturating_sub(machine.reserve.0);
        let sure = number(given) / (1.0 + self.error.max(0.0));
        let sure = Bytes((sure.floor() as u64).min(given));
        self.cap.map_or(sure, |cap| cap.min(sure))
    }

    /// The memory that may be used if predictions are exact.
    #[must_use]
    pub fn if_exact(&self, machine: &Machine) -> Bytes {
        Self { error: 0.0, ..*self }.of(machine)
    }

    /// The most that may be predicted where devices hold as much less as predictions can be off.
    #[must_use]
    #[allow(clippy::cast_possible_truncation, clippy::cast_sign_loss)] // Neither negative nor large.
    pub fn at_best(&self, machine: &Machine) -> Bytes {
        let exact = number(Self { cap: None, ..*self }.if_exact(machine).0);
        let most = Bytes((exact * (1.0 + self.error.max(0.0))).floor() as u64);
        self.cap.map_or(most, |cap| cap.min(most))
    }
}
