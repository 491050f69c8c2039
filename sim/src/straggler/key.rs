//! Chance as a function: every place and piece of work has random numbers of its own.
//!
//! No generator is shared, so draws do not depend on their order, their number or the thread.

use pipeline::{Kind, Pass, Value};
use rand::SeedableRng;
use rand_xoshiro::SplitMix64;

/// The purpose for which a random number is drawn. The numbers are part of the key: keep them.
#[derive(Clone, Copy)]
pub(crate) enum Purpose {
    Pass = 1,
    Hop = 2,
    Stall = 3,
    Validation = 4,
    Straggler = 5,
}

/// The common part of the keys of one replica and iteration.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(crate) struct Key(u64);

/// A random number's place and piece of work, the same in all replicas.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(crate) struct Word(u64);

impl Key {
    pub(super) fn new(seed: u64, replica: u64, iteration: u64) -> Self {
        Self([seed, replica, iteration].into_iter().fold(0, mix))
    }

    /// The random bits of `word`.
    #[inline(always)]
    pub(crate) const fn draw(self, word: Word) -> u64 {
        mix(self.0, word.0)
    }

    /// The random numbers of the validation after a step.
    pub(super) fn validation(self) -> SplitMix64 {
        self.rng(Purpose::Validation)
    }

    /// The random numbers that pick the stragglers of the iteration.
    pub(super) fn stragglers(self) -> SplitMix64 {
        self.rng(Purpose::Straggler)
    }

    fn rng(self, purpose: Purpose) -> SplitMix64 {
        SplitMix64::seed_from_u64(mix(mix(self.0, 0), (purpose as u64) << 56))
    }
}

impl Word {
    /// That of `pass` on `stage`.
    #[inline]
    pub(crate) fn pass(purpose: Purpose, stage: usize, pass: Pass) -> Self {
        let kind = match pass.kind {
            Kind::F => 0,
            Kind::B => 1,
            Kind::W => 2,
            Kind::BW => 3,
            Kind::S => 4,
            Kind::T => 5,
            Kind::R => 6,
        };
        Self::at(stage as u64, word(purpose, kind, pass.chunk, pass.microbatch))
    }

    /// That of the transfer of `value` between two stages.
    #[inline]
    pub(crate) fn hop(from: usize, to: usize, value: Value) -> Self {
        let (kind, chunk) = match value {
            Value::Output { chunk, .. } => (0, chunk),
            Value::Gradient { chunk, .. } => (1, chunk),
            Value::Statistics { .. } => (2, 0),
            Value::HiddenGradient { .. } => (3, 0),
        };
        let place = (from as u64) << 32 | to as u64;
        Self::at(place, word(Purpose::Hop, kind, chunk, value.microbatch()))
    }

    fn at(place: u64, work: u64) -> Self {
        Self(mix(mix(0, place), work))
    }
}

/// A piece of work in one word, without loss.
fn word(purpose: Purpose, kind: u64, chunk: u16, microbatch: u32) -> u64 {
    (purpose as u64) << 56 | kind << 48 | u64::from(chunk) << 32 | u64::from(microbatch)
}

/// Adds a word to a hash by the finalizer of `SplitMix64` (Steele, Lea and Flood 2014), which
/// changes half of the bits of its result for every bit of its argument.
///
/// It is the first number of `SplitMix64` with the seed `hash ^ word`, written out because this is
/// called for every pass and every transfer, and the crate does not inline the making of a generator.
#[inline(always)]
const fn mix(hash: u64, word: u64) -> u64 {
    let z = (hash ^ word).wrapping_add(0x9e37_79b9_7f4a_7c15);
    let z = (z ^ (z >> 30)).wrapping_mul(0xbf58_476d_1ce4_e5b9);
    let z = (z ^ (z >> 27)).wrapping_mul(0x94d0_49bb_1331_11eb);
    z ^ (z >> 31)
}

#[cfg(test)]
mod tests {
    use super::*;
    use rand_xoshiro::rand_core::Rng;

    #[test]
    fn words_are_mixed_as_the_generator_does() {
        for [hash, word] in [[0, 0], [1, 2], [u64::MAX, 77], [1_477_776_061_723_855_037, 0]] {
            let first = SplitMix64::seed_from_u64(hash ^ word).next_u64();
            assert_eq!(mix(hash, word), first);
        }
    }
}
