//! The part of a device's memory that a plan may use, and the odds that a device holds what is predicted.

use pipeline::Bytes;
use thiserror::Error;

use crate::machine::Machine;
use crate::model::number;

/// The part of a device's memory that a plan may use, as [`StageMemory`](crate::StageMemory) predicts it.
#[derive(Clone, Copy, PartialEq, Default, Debug)]
pub struct MemoryBudget {
    /// Relative error of predicted memory, in either direction.
    pub error: f64,
    /// The distribution of measured peaks around predicted ones.
    pub peaks: Peaks,
    /// The memory that predictions may reach in place of what surely fits, if the question has it.
    pub cap: Option<Bytes>,
    /// Whether predictions may reach what is as likely to fit as not.
    pub is_even: bool,
}

/// A stage that needs more than its device has.
#[derive(Clone, Copy, PartialEq, Eq, Debug, Error)]
#[error("stage {stage} needs {needs}, of {has}")]
pub struct Overflow {
    /// Which stage.
    pub stage: usize,
    /// The memory that it needs.
    pub needs: Bytes,
    /// The memory that its device has.
    pub has: Bytes,
}

/// The distribution of the logarithm of measured over predicted peaks, a normal one.
#[derive(Clone, Copy, PartialEq, Default, Debug)]
pub struct Peaks {
    pub mean: f64,
    /// Its standard deviation.
    pub deviation: f64,
}

impl Peaks {
    /// The odds that a device which has `has` holds what is predicted to be `needs`.
    #[must_use]
    pub fn odds(&self, needs: Bytes, has: Bytes) -> f64 {
        let room = libm::log(number(has.0.max(1)) / number(needs.0.max(1))) - self.mean;
        if self.deviation <= 0.0 {
            return if room < 0.0 { 0.0 } else { 1.0 };
        }
        // The logistic law that is nearest to the normal one.
        1.0 / (1.0 + libm::exp(-1.702 * room / self.deviation))
    }
}

impl MemoryBudget {
    /// The memory that predictions may reach on a device of `machine`: its memory less its reserve, less
    /// the error of the prediction; or the cap, as far as the device has it.
    #[must_use]
    #[allow(clippy::cast_possible_truncation, clippy::cast_sign_loss)] // Neither negative nor large.
    pub fn of(&self, machine: &Machine) -> Bytes {
        let exact = self.if_exact(machine);
        match (self.cap, self.is_even) {
            (Some(_), _) => exact,
            (None, true) => Bytes((number(exact.0) * libm::exp(-self.peaks.mean)).floor() as u64),
            (None, false) => Bytes((number(exact.0) / (1.0 + self.error.max(0.0))).floor() as u64),
        }
    }

    /// Whether what lacks as much as `overflow` says of what surely fits is as likely to fit as not.
    pub(crate) fn is_likely(&self, overflow: &Overflow) -> bool {
        let most = (1.0 + self.error.max(0.0)) * libm::exp(-self.peaks.mean);
        self.cap.is_none() && number(overflow.needs.0) <= most * number(overflow.has.0)
    }

    /// The same budget where predictions may reach what is as likely to fit as not.
    pub(crate) const fn as_likely_as_not(self) -> Self {
        Self { is_even: true, ..self }
    }

    /// The memory that may be used if predictions are exact.
    #[must_use]
    pub fn if_exact(&self, machine: &Machine) -> Bytes {
        let given = Bytes(machine.memory.0.saturating_sub(machine.reserve.0));
        self.cap.map_or(given, |cap| cap.min(given))
    }

    /// The most that may be predicted where devices hold as much less as predictions can be off.
    #[must_use]
    #[allow(clippy::cast_possible_truncation, clippy::cast_sign_loss)] // Neither negative nor large.
    pub fn at_best(&self, machine: &Machine) -> Bytes {
        let exact = self.if_exact(machine);
        match self.cap {
            Some(_) => exact,
            None => Bytes((number(exact.0) * (1.0 + self.error.max(0.0))).floor() as u64),
        }
    }
}
