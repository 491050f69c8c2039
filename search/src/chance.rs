//! The random stream of one chain.

use rand::{RngExt, SeedableRng};
use rand_xoshiro::Xoshiro256PlusPlus;

/// Random numbers that follow from a seed and the number of an attempt.
pub(crate) struct Chance(Xoshiro256PlusPlus);

impl Chance {
    pub(crate) fn new(seed: u64, attempt: u64) -> Self {
        Self(Xoshiro256PlusPlus::seed_from_u64(seed.rotate_left(32) ^ attempt))
    }

    /// A number in `[0, 1)`.
    pub(crate) fn unit(&mut self) -> f64 {
        self.0.random::<f64>()
    }

    /// A number in `[low, high)`.
    pub(crate) fn between(&mut self, low: f64, high: f64) -> f64 {
        low + (high - low) * self.unit()
    }

    /// A whole number below `count`, which is at least 1.
    pub(crate) fn below(&mut self, count: usize) -> usize {
        self.0.random_range(0..count.max(1))
    }

    /// Whether a change that is worse by `more` is accepted at `temperature`: with probability
    /// exp(-more / temperature) (Metropolis et al. 1953). A change that is not worse always is.
    pub(crate) fn takes(&mut self, more: f64, temperature: f64) -> bool {
        more <= self.worse(temperature)
    }

    /// Draws by how much worse a change may be that is accepted at `temperature`.
    pub(crate) fn worse(&mut self, temperature: f64) -> f64 {
        -temperature * (1.0 - self.unit()).ln()
    }
}
