//! Counter-based random numbers: a function of seed and index, the same in any order and on any
//! stage.

/// `SplitMix64` (Steele, Lea and Flood, 2014): 64 well mixed bits for each `x`.
const fn mix(x: u64) -> u64 {
    let x = x.wrapping_add(0x9E37_79B9_7F4A_7C15);
    let x = (x ^ (x >> 30)).wrapping_mul(0xBF58_476D_1CE4_E5B9);
    let x = (x ^ (x >> 27)).wrapping_mul(0x94D0_49BB_1331_11EB);
    x ^ (x >> 31)
}

/// 64 bits drawn for `key` under `seed`.
pub(crate) fn bits(seed: u64, key: &[u64]) -> u64 {
    key.iter().fold(mix(seed), |state, &part| mix(state ^ mix(part)))
}

/// An integer below `bound`, which is at least 1: uniform up to 1 in 2^64.
pub(crate) fn below(bound: u64, bits: u64) -> u64 {
    let product = u128::from(bits) * u128::from(bound);
    u64::try_from(product >> 64).unwrap_or(0)
}

/// A draw from the standard normal distribution (Box and Muller, 1958).
pub(crate) fn normal(seed: u64, index: u64) -> f64 {
    let unit = |bits: u64| ((bits >> 11) as f64) * (1.0 / (1u64 << 53) as f64);
    // The first draw is in (0, 1], so that its logarithm is finite.
    let radius = 1.0 - unit(bits(seed, &[index, 0]));
    let angle = std::f64::consts::TAU * unit(bits(seed, &[index, 1]));
    libm::sqrt(-2.0 * libm::log(radius)) * libm::cos(angle)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn normal_draws_have_mean_0_and_variance_1() {
        let draws: Vec<f64> = (0..20_000).map(|index| normal(7, index)).collect();
        let mean = draws.iter().sum::<f64>() / 20_000.0;
        let variance = draws.iter().map(|x| (x - mean).powi(2)).sum::<f64>() / 20_000.0;
        // Four standard deviations of each estimate.
        assert!(mean.abs() < 0.03, "mean {mean}");
        assert!((variance - 1.0).abs() < 0.04, "variance {variance}");
        assert_ne!(normal(7, 0).to_bits(), normal(8, 0).to_bits());
    }

    #[test]
    fn numbers_below_a_bound_are_spread_evenly() {
        let mut counts = [0u32; 5];
        for key in 0..5000 {
            counts[usize::try_from(below(5, bits(3, &[key]))).unwrap()] += 1;
        }
        assert!(counts.iter().all(|&count| (880..1120).contains(&count)), "{counts:?}");
    }
}
