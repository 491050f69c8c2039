//! Times in seconds, as formulas give them, and in whole nanoseconds, as schedules take them.

use pipeline::Nanos;

/// F, B and W, in seconds.
#[derive(Clone, Copy, PartialEq, Default, Debug)]
pub struct Times {
    pub forward: f64,
    /// Backward for the input, with recomputation.
    pub backward_input: f64,
    pub backward_weight: f64,
}

impl Times {
    /// `count` times as long.
    #[must_use]
    pub fn times(self, count: f64) -> Self {
        Self {
            forward: self.forward * count,
            backward_input: self.backward_input * count,
            backward_weight: self.backward_weight * count,
        }
    }

    /// One after the other.
    #[must_use]
    pub fn plus(self, other: Self) -> Self {
        Self {
            forward: self.forward + other.forward,
            backward_input: self.backward_input + other.backward_input,
            backward_weight: self.backward_weight + other.backward_weight,
        }
    }

    /// All three.
    #[must_use]
    pub fn sum(self) -> f64 {
        self.forward + self.backward_input + self.backward_weight
    }
}

/// Whole nanoseconds, rounded up: a float becomes a time once, here.
#[allow(clippy::cast_possible_truncation, clippy::cast_sign_loss)] // A cast of floats saturates.
#[must_use]
pub fn nanos(seconds: f64) -> Nanos {
    Nanos((seconds.max(0.0) * 1e9).ceil() as u64)
}
