//! The cost of a sample.

use pipeline::Nanos;

use crate::error::{FsdpError, count};

/// The unit of length of the quadratic costs, in tokens.
const NORMAL_LENGTH: f64 = 32_000.0;

/// The longest time of one sample: 1,000,000 s.
const MAX_SECONDS: f64 = 1e6;

/// Forward and backward time of one sample by its length. Samples of one microbatch do not attend
/// to each other, so that their costs add up.
#[derive(Clone, Copy, PartialEq, Debug)]
pub struct CostModel(Law);

#[derive(Clone, Copy, PartialEq, Debug)]
enum Law {
    /// As many units as tokens, of which each takes a time.
    Linear { per_token: Nanos },
    /// Seconds: `a (s/32000)^2 + b (s/32000)`.
    Quadratic { a: f64, b: f64 },
}

impl CostModel {
    /// The fit published with ODC for a model of 1.5B parameters.
    pub const FIT_1_5B: Self = Self(Law::Quadratic { a: 1.982_122, b: 2.611_821 });
    /// The fit for 7B.
    pub const FIT_7B: Self = Self(Law::Quadratic { a: 4.348_357, b: 8.768_377 });

    /// `per_token` for every token; samples are packed by their number of tokens.
    pub fn linear(per_token: Nanos) -> Result<Self, FsdpError> {
        count("the time of a token in nanoseconds", per_token.0, 1, 1_000_000_000)?;
        Ok(Self(Law::Linear { per_token }))
    }

    /// `a (s/32000)^2 + b (s/32000)` seconds for a sample of s tokens, a for attention, b for the
    /// rest.
    pub fn quadratic(a: f64, b: f64) -> Result<Self, FsdpError> {
        for (what, given) in [("the quadratic cost a", a), ("the linear cost b", b)] {
            if !(0.0..=1_000.0).contains(&given) {
                return Err(FsdpError::Number { what, given, range: "from 0 to 1000 seconds" });
            }
        }
        if a + b < 1e-6 {
            let (what, range) = ("the sum of the costs a and b", "at least 0.000001 seconds");
            return Err(FsdpError::Number { what, given: a + b, range });
        }
        Ok(Self(Law::Quadratic { a, b }))
    }

    /// a and b of quadratic costs, in seconds.
    #[must_use]
    pub const fn constants(self) -> Option<[f64; 2]> {
        match self.0 {
            Law::Linear { .. } => None,
            Law::Quadratic { a, b } => Some([a, b]),
        }
    }

    /// The same, `factor` times as long, as groups of devices or parts of a pass have it.
    #[allow(clippy::cast_possible_truncation, clippy::cast_sign_loss, clippy::cast_precision_loss)]
    pub fn scaled(self, factor: f64) -> Result<Self, FsdpError> {
        match self.0 {
            // A cast of floats saturates, and the range is checked.
            Law::Linear { per_token } => {
                Self::linear(Nanos((per_token.0 as f64 * factor).round() as u64))
            }
            Law::Quadratic { a, b } => Self::quadratic(a * factor, b * factor),
        }
    }

    /// The cost of a sample of `tokens` when samples are packed: tokens where costs are linear,
    /// else seconds.
    #[must_use]
    pub fn cost(self, tokens: u32) -> f64 {
        match self.0 {
            Law::Linear { .. } => f64::from(tokens),
            Law::Quadratic { a, b } => {
                let length = f64::from(tokens) / NORMAL_LENGTH;
                a * length * length + b * length
            }
        }
    }

    /// How long forward and backward of a sample of `tokens` take.
    pub fn time(self, tokens: u32) -> Result<Nanos, FsdpError> {
        let seconds = match self.0 {
            Law::Linear { per_token } => return Ok(per_token * u64::from(tokens)),
            Law::Quadratic { .. } => self.cost(tokens),
        };
        if seconds > MAX_SECONDS {
            return Err(FsdpError::Overflow);
        }
        Ok(nanos(seconds))
    }
}

/// `seconds` to the nearest nanosecond.
#[allow(clippy::cast_possible_truncation, clippy::cast_sign_loss)] // A cast of floats saturates.
pub(crate) fn nanos(seconds: f64) -> Nanos {
    Nanos((seconds * 1e9).round() as u64)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_fits_at_32000_tokens_are_the_sums_of_their_constants() {
        assert_eq!(CostModel::FIT_1_5B.time(32_000), Ok(Nanos(4_593_943_000)));
        assert_eq!(CostModel::FIT_7B.time(32_000), Ok(Nanos(13_116_734_000)));
        // Half the length: a quarter of the quadratic part, half of the linear one.
        assert_eq!(CostModel::FIT_7B.time(16_000), Ok(Nanos(5_471_277_750)));
    }

    #[test]
    fn linear_costs_count_tokens() {
        let linear = CostModel::linear(Nanos(1_000)).unwrap();
        assert_eq!((linear.cost(77), linear.time(77)), (77.0, Ok(Nanos(77_000))));
    }

    #[test]
    fn costs_that_are_none_are_refused() {
        for (a, b) in [(f64::NAN, 1.0), (1.0, -1.0), (0.0, 0.0), (f64::INFINITY, 1.0), (1e9, 0.0)] {
            assert!(CostModel::quadratic(a, b).is_err(), "{a} {b}");
        }
        assert!(CostModel::linear(Nanos(0)).is_err());
        assert_eq!(CostModel::quadratic(1e3, 1e3).unwrap().time(1 << 24), Err(FsdpError::Overflow));
    }
}
