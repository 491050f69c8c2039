//! The numbers the CPU computes with, and sums over them that the compiler can vectorise.

use std::fmt::Debug;
use std::ops::{AddAssign, DivAssign, MulAssign, Neg, SubAssign};

use ndarray::LinalgScalar;

/// f32 or f64.
pub trait Real:
    LinalgScalar
    + AddAssign
    + SubAssign
    + MulAssign
    + DivAssign
    + Neg<Output = Self>
    + PartialOrd
    + Default
    + Debug
    + Send
    + Sync
{
    /// Bytes of a number.
    const BYTES: usize = size_of::<Self>();
    /// The smallest number.
    const LOWEST: Self;

    /// The nearest number to `x`.
    fn of(x: f64) -> Self;
    /// The same number.
    fn wide(self) -> f64;
    /// e to the power `self`; in f32 within 2 units in the last place, infinite above 88.3.
    fn exp(self) -> Self;
    /// Appends the number, least significant byte first.
    fn put(self, bytes: &mut Vec<u8>);
    /// The inverse of [`Real::put`]; `None` unless there are exactly [`Real::BYTES`] bytes.
    fn get(bytes: &[u8]) -> Option<Self>;
}

impl Real for f32 {
    const LOWEST: Self = Self::NEG_INFINITY;

    #[allow(clippy::cast_possible_truncation)] // Rounding is what is asked for.
    fn of(x: f64) -> Self {
        x as Self
    }

    fn wide(self) -> f64 {
        self.into()
    }

    /// By a polynomial (Cephes, expf) without a branch or a call, so that loops over it vectorise.
    #[inline]
    fn exp(self) -> Self {
        // Adding 1.5 * 2^23 rounds to a whole number, which is then found in the lowest bits.
        const ROUND: f32 = 12_582_912.0;
        let x = self.clamp(-87.3, 88.4);
        let shifted = x * std::f32::consts::LOG2_E + ROUND;
        let n = shifted - ROUND;
        let r = x - n * 0.693_359_4 + n * 2.121_944_4e-4;
        let mut p = 1.987_569_1e-4;
        for factor in [1.398_199_9e-3, 8.333_452e-3, 4.166_579_6e-2, 1.666_666_5e-1, 0.5] {
            p = p * r + factor;
        }
        let fraction = p * r * r + r + 1.0;
        let power = Self::from_bits((shifted.to_bits() << 23).wrapping_add(127 << 23));
        let y = fraction * power;
        if self < -87.3 { 0.0 } else { y }
    }

    fn put(self, bytes: &mut Vec<u8>) {
        bytes.extend(self.to_le_bytes());
    }

    fn get(bytes: &[u8]) -> Option<Self> {
        bytes.try_into().ok().map(Self::from_le_bytes)
    }
}

impl Real for f64 {
    const LOWEST: Self = Self::NEG_INFINITY;

    fn of(x: f64) -> Self {
        x
    }

    fn wide(self) -> f64 {
        self
    }

    fn exp(self) -> Self {
        libm::exp(self)
    }

    fn put(self, bytes: &mut Vec<u8>) {
        bytes.extend(self.to_le_bytes());
    }

    fn get(bytes: &[u8]) -> Option<Self> {
        bytes.try_into().ok().map(Self::from_le_bytes)
    }
}

/// Number of partial sums: fixed, so that the order of additions is.
const LANES: usize = 16;

/// The sum of `term` over `a` and `b`, which are of one length, always in the same order.
#[inline]
pub(crate) fn sum_over<T: Real>(a: &[T], b: &[T], term: impl Fn(T, T) -> T) -> T {
    let mut lanes = [T::zero(); LANES];
    let (left, right) = (a.chunks_exact(LANES), b.chunks_exact(LANES));
    let rest = left.remainder().iter().zip(right.remainder());
    let mut rest_sum = T::zero();
    rest.for_each(|(&x, &y)| rest_sum += term(x, y));
    for (x, y) in left.zip(right) {
        for lane in 0..LANES {
            lanes[lane] += term(x[lane], y[lane]);
        }
    }
    lanes.into_iter().fold(rest_sum, |sum, lane| sum + lane)
}

#[inline]
pub(crate) fn sum<T: Real>(a: &[T]) -> T {
    sum_over(a, a, |x, _| x)
}

/// The largest of `a`, ignoring NaN.
#[inline]
pub(crate) fn largest<T: Real>(a: &[T]) -> T {
    let mut lanes = [T::LOWEST; LANES];
    for chunk in a.chunks(LANES) {
        for (lane, &x) in lanes.iter_mut().zip(chunk) {
            *lane = if x > *lane { x } else { *lane };
        }
    }
    lanes.into_iter().fold(T::LOWEST, |most, x| if x > most { x } else { most })
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn exp_in_f32_is_within_two_units_in_the_last_place() {
        for step in -87_000..88_000 {
            let x = step as f32 * 1e-3;
            let exact = libm::exp(x.wide());
            let error = (Real::exp(x).wide() / exact - 1.0).abs();
            assert!(error < 2.0 * f64::from(f32::EPSILON), "exp({x}): {error}");
        }
        assert_eq!(Real::exp(0.0f32).to_bits(), 1.0f32.to_bits());
        assert_eq!((Real::exp(-200.0f32), Real::exp(f32::NEG_INFINITY)), (0.0, 0.0));
        assert_eq!(Real::exp(f32::INFINITY), f32::INFINITY);
        assert!(Real::exp(f32::NAN).is_nan());
    }

    #[test]
    fn sums_and_maxima_leave_nothing_out() {
        for len in [0, 1, 15, 16, 17, 100] {
            let all: Vec<f64> = (0..len).map(f64::from).collect();
            assert_eq!(sum(&all), f64::from(len) * (f64::from(len) - 1.0).max(0.0) / 2.0);
            assert_eq!(largest(&all), all.last().copied().unwrap_or(f64::LOWEST));
        }
        assert_eq!(sum_over(&[1.0, 2.0], &[3.0, 4.0], |x, y| x * y), 11.0);
    }
}
