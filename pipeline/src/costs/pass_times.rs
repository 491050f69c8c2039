//! Times of the passes of a chunk.

use crate::units::Nanos;

/// The times of one chunk for one microbatch.
#[derive(Clone, Copy, PartialEq, Eq, Default, Debug)]
pub struct PassTimes {
    /// Forward, F.
    pub forward: Nanos,
    /// Backward for the input, B.
    pub backward_input: Nanos,
    /// Backward for the weights, W.
    pub backward_weight: Nanos,
    /// Both backwards in one pass, BW; B + W where it was not measured. A trainer shares work between both:
    /// it goes through the graph once, and recomputes once.
    pub backward: Option<Nanos>,
}

impl PassTimes {
    /// Times where a whole backward takes B + W.
    #[must_use]
    pub const fn new(forward: Nanos, backward_input: Nanos, backward_weight: Nanos) -> Self {
        Self { forward, backward_input, backward_weight, backward: None }
    }

    /// How long a whole backward takes, BW.
    #[must_use]
    #[inline]
    pub fn whole_backward(&self) -> Nanos {
        self.backward.unwrap_or(self.backward_input + self.backward_weight)
    }

    /// The least time in which a microbatch gets both of its backwards: that of BW, or of B and W.
    #[must_use]
    #[inline]
    pub fn least_backward(&self) -> Nanos {
        self.whole_backward().min(self.backward_input + self.backward_weight)
    }

    /// The least time until the gradient for the input is there: that of B, or of BW.
    #[must_use]
    #[inline]
    pub fn least_gradient(&self) -> Nanos {
        self.backward_input.min(self.whole_backward())
    }

    /// Forward and whole backward, in nanoseconds.
    #[must_use]
    pub fn forward_and_backward(&self) -> u128 {
        u128::from(self.forward.0) + u128::from(self.whole_backward().0)
    }

    /// The times of both, each kind by `join`; with a whole backward of its own where one of them has it.
    #[must_use]
    pub fn joined(&self, other: &Self, join: impl Fn(Nanos, Nanos) -> Nanos) -> Self {
        Self {
            forward: join(self.forward, other.forward),
            backward_input: join(self.backward_input, other.backward_input),
            backward_weight: join(self.backward_weight, other.backward_weight),
            backward: match (self.backward, other.backward) {
                (None, None) => None,
                _ => Some(join(self.whole_backward(), other.whole_backward())),
            },
        }
    }

    /// The time of a whole backward in two parts, as B is to W.
    #[must_use]
    pub fn whole_in_parts(&self) -> [Nanos; 2] {
        let [input, weight] = [self.backward_input, self.backward_weight];
        let Some(whole) = self.backward else { return [input, weight] };
        let both = u128::from(input.0) + u128::from(weight.0);
        let first = (u128::from(whole.0) * u128::from(input.0)).checked_div(both);
        let first = first.and_then(|first| u64::try_from(first).ok()).map_or(whole, Nanos);
        [first, whole - first]
    }

    /// Whether a whole backward takes another time than B and W one after the other.
    #[must_use]
    #[inline]
    pub fn has_whole(&self) -> bool {
        self.whole_backward() != self.backward_input + self.backward_weight
    }
}
