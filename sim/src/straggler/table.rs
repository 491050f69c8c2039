//! Quantiles of a law by table: a factor is one hash and one cubic.
//!
//! A word of 64 bits has the side of the median in its highest bit, and in the next 52 the number k of a tail
//! probability t = (k + 1/2) / 2^53. The quantile function of the law is cut at each eighth of each octave of t, on
//! either side, and is the cubic through four of its values in between. The exponent of 2 t as a float, and the
//! first three bits of its mantissa, are the number of the piece: there is no search and no case for tails.
//!
//! Tables are made by `libm` and IEEE arithmetic alone, so that their bits are the same on every machine.

use std::sync::Arc;

use super::jitter::{Jitter, Law};
use super::normal;

/// Pieces of an octave, as a power of two.
const PARTS: u32 = 3;
/// Octaves of 2 t, from 2^-53 to 1.
const OCTAVES: u32 = 53;
/// Places of a side: its pieces, up to a power of two.
const SIDE: usize = 512;
/// The pieces of a side that are used.
const PIECES: usize = (OCTAVES as usize) << PARTS;
/// What the bits of the least 2 t begin with.
const FIRST: u64 = (1023 - OCTAVES as u64) << PARTS;
/// Bits of a float that tell no piece.
const REST: u32 = 52 - PARTS;
const ONE: u64 = 1.0_f64.to_bits();

/// Cubics of both sides: of the values below the median, then of those above.
pub(crate) type Pieces = [[f64; 4]; 2 * SIDE];

/// A law of factors, ready to be drawn from.
#[derive(Clone, Debug)]
pub(crate) enum LawTable {
    /// The quantile function, piece by piece.
    Pieces(Arc<Pieces>),
    /// Samples, each as likely as the others.
    Samples(Arc<[f64]>),
}

impl LawTable {
    pub(super) fn of(jitter: &Jitter) -> Self {
        let normalised = jitter.mean().is_some();
        let pieces =
            |quantile: &dyn Fn(f64, f64) -> f64| Self::Pieces(Arc::new(cut(quantile, normalised)));
        match jitter.law() {
            Law::Samples(samples) => Self::Samples(Arc::clone(samples)),
            &Law::Normal { spread } => {
                // The share beyond each cut; the rest is stretched over all probabilities.
                let beyond = libm::erfc(1.0 / (spread * std::f64::consts::SQRT_2)) / 2.0;
                let within = 1.0 - 2.0 * beyond;
                pieces(&|t, side| 1.0 - side * spread * normal::quantile(beyond + t * within))
            }
            &Law::LogNormal { mu, sigma } => {
                pieces(&|t, side| libm::exp(mu - side * sigma * normal::quantile(t)))
            }
            &Law::Pareto { tail, least } => pieces(&|t, side| {
                let log = if side > 0.0 { libm::log(t) } else { libm::log1p(-t) };
                least * libm::exp(-log / tail)
            }),
        }
    }

    /// The factor of `word`.
    #[inline]
    pub(super) fn draw(&self, word: u64) -> f64 {
        match self {
            Self::Pieces(pieces) => of_pieces(pieces, word),
            Self::Samples(samples) => of_samples(samples, word),
        }
    }
}

/// The factor of `word` by a quantile function in pieces.
#[allow(clippy::cast_possible_truncation)] // Less than 1024.
#[inline(always)]
pub(crate) fn of_pieces(pieces: &Pieces, word: u64) -> f64 {
    // (2 k + 1) / 2^53, exactly: the low bits of a number from 1 to 2, moved down by 1 - 2^-53.
    let twice = f64::from_bits(ONE | word << 1 >> 12) - (1.0 - f64::EPSILON / 2.0);
    let bits = twice.to_bits();
    let piece = (bits >> REST).wrapping_sub(FIRST) & (SIDE as u64 - 1);
    let side = word >> 63 << SIDE.trailing_zeros();
    let x = f64::from_bits(ONE | bits << (64 - REST) >> 12) - 1.0;
    // Masked, so that no bound is checked.
    let [a, b, c, d] = pieces[(piece | side) as usize & (2 * SIDE - 1)];
    a + x * (b + x * (c + x * d))
}

/// The sample of `word`.
#[allow(clippy::cast_possible_truncation)] // Less than their number.
#[inline(always)]
pub(crate) fn of_samples(samples: &[f64], word: u64) -> f64 {
    samples[((u128::from(word) * samples.len() as u128) >> 64) as usize]
}

/// Cuts `quantile` into pieces: a function of the tail probability, up to 1/2, and of the side of the median, -1 or 1.
/// Divides it by the mean of what is drawn, the integral of the cubics, if it is `normalised`.
fn cut(quantile: &dyn Fn(f64, f64) -> f64, normalised: bool) -> Pieces {
    let mut pieces = [[0.0; 4]; 2 * SIDE];
    let mut mean = 0.0;
    for (of_side, side) in pieces.chunks_exact_mut(SIDE).zip([-1.0, 1.0]) {
        for (piece, number) in of_side.iter_mut().take(PIECES).zip(FIRST..) {
            let [from, to] = [number, number + 1].map(|bits| f64::from_bits(bits << REST) / 2.0);
            let at = |third: f64| quantile(from + (to - from) * third / 3.0, side);
            *piece = cubic([0.0, 1.0, 2.0, 3.0].map(at));
            let [a, b, c, d] = *piece;
            mean += (to - from) * (a + b / 2.0 + c / 3.0 + d / 4.0);
        }
    }
    if normalised {
        pieces.iter_mut().flatten().for_each(|coefficient| *coefficient /= mean);
    }
    pieces
}

/// The cubic with these values at 0, 1/3, 2/3 and 1 (Newton's forward differences), from its constant on.
fn cubic([a, b, c, d]: [f64; 4]) -> [f64; 4] {
    let (first, second, third) = (b - a, c - 2.0 * b + a, d - 3.0 * c + 3.0 * b - a);
    [a, 3.0 * first - 1.5 * second + third, 4.5 * (second - third), 4.5 * third]
}

#[cfg(test)]
mod tests;
