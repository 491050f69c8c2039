//! Random numbers of tokens that choose experts: normal ones, and orders.

use std::f64::consts::TAU;

use rand::RngExt;
use rand::distr::OpenClosed01;
use rand_xoshiro::SplitMix64;

/// A number of the standard normal (Box and Muller 1958).
pub(super) fn normal(chance: &mut SplitMix64) -> f64 {
    let [radius, angle]: [f64; 2] = [0; 2].map(|_| chance.sample(OpenClosed01));
    libm::sqrt(-2.0 * libm::log(radius)) * libm::cos(TAU * angle)
}

/// The numbers below `count` in any order (Fisher and Yates).
pub(super) fn shuffled(count: usize, chance: &mut SplitMix64) -> Vec<u16> {
    let mut all: Vec<u16> = (0..=u16::MAX).take(count).collect();
    for at in (1..all.len()).rev() {
        all.swap(at, chance.random_range(0..=at));
    }
    all
}
