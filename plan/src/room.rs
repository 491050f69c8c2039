//! How much of the memory of a device a plan may use.

use pipeline::Bytes;

use crate::machine::Machine;
use crate::model::number;

/// The part of a device's memory that a plan may use, as [`StageMemory`](crate::StageMemory)
/// predicts it.
#[derive(Clone, Copy, PartialEq, Default, Debug)]
pub struct Room {
    /// How much more than predicted a device may come to hold, or how much more than that may be predicted, as a share.
    pub error: f64,
    /// The most that is allowed, if the question says so.
    pub cap: Option<Bytes>,
}

impl Room {
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

    /// The same if devices hold no more than predicted.
    #[must_use]
    pub fn if_exact(&self, machine: &Machine) -> Bytes {
        Self { error: 0.0, ..*self }.of(machine)
    }

    /// The most that may be predicted where devices come to hold as much less as predictions were off.
    #[must_use]
    #[allow(clippy::cast_possible_truncation, clippy::cast_sign_loss)] // Neither negative nor large.
    pub fn at_best(&self, machine: &Machine) -> Bytes {
        let exact = number(Self { cap: None, ..*self }.if_exact(machine).0);
        let most = Bytes((exact * (1.0 + self.error.max(0.0))).floor() as u64);
        self.cap.map_or(most, |cap| cap.min(most))
    }
}
