//! The quantile of the normal distribution, with the same bits on every machine.
#![allow(clippy::excessive_precision)] // Coefficients as they were published.

/// Where the two parts of the distribution meet: |p - 1/2| of the centre.
const CENTRE: f64 = 0.425;

/// The quantile of the standard normal distribution for a probability strictly between 0 and 1,
/// good to about 1 in 10^16 (M. J. Wichura, Algorithm AS 241: The Percentage Points of the Normal
/// Distribution, *Applied Statistics* 37, 1988, routine PPND16). Only sums, products, quotients and `libm`.
#[must_use]
pub fn quantile(probability: f64) -> f64 {
    let from_half = probability - 0.5;
    if from_half.abs() <= CENTRE {
        return from_half * ratio(&NEAR, CENTRE * CENTRE - from_half * from_half);
    }
    let tail = probability.min(1.0 - probability);
    let root = libm::sqrt(-libm::log(tail));
    let size = if root <= 5.0 { ratio(&MIDDLE, root - 1.6) } else { ratio(&FAR, root - 5.0) };
    size.copysign(from_half)
}

/// Coefficients of two polynomials, from the constant on.
type Ratio = [[f64; 8]; 2];

/// The ratio of the two polynomials at `x`.
fn ratio([over, under]: &Ratio, x: f64) -> f64 {
    // By Estrin's scheme: its products do not wait for each other as Horner's do.
    let square = x * x;
    let value = |[a, b, c, d, e, f, g, h]: &[f64; 8]| {
        let low = (a + b * x) + (c + d * x) * square;
        let high = (e + f * x) + (g + h * x) * square;
        low + high * (square * square)
    };
    value(over) / value(under)
}

const NEAR: Ratio = [
    [
        3.387_132_872_796_366_608,
        1.331_416_678_917_843_774_5e2,
        1.971_590_950_306_551_442_7e3,
        1.373_169_376_550_946_112_5e4,
        4.592_195_393_154_987_145_7e4,
        6.726_577_092_700_870_085_3e4,
        3.343_057_558_358_812_810_5e4,
        2.509_080_928_730_122_672_7e3,
    ],
    [
        1.0,
        4.231_333_070_160_091_125_2e1,
        6.871_870_074_920_579_083_0e2,
        5.394_196_021_424_751_107_7e3,
        2.121_379_430_158_659_586_7e4,
        3.930_789_580_009_271_061_0e4,
        2.872_908_573_572_194_267_4e4,
        5.226_495_278_852_854_561_0e3,
    ],
];

const MIDDLE: Ratio = [
    [
        1.423_437_110_749_683_577_34,
        4.630_337_846_156_545_295_90,
        5.769_497_221_460_691_405_50,
        3.647_848_324_763_204_605_04,
        1.270_458_252_452_368_382_58,
        2.417_807_251_774_506_117_70e-1,
        2.272_384_498_926_918_458_33e-2,
        7.745_450_142_783_414_076_40e-4,
    ],
    [
        1.0,
        2.053_191_626_637_758_821_87,
        1.676_384_830_183_803_849_40,
        6.897_673_349_851_000_045_50e-1,
        1.481_039_764_274_800_745_90e-1,
        1.519_866_656_361_645_719_66e-2,
        5.475_938_084_995_344_946_00e-4,
        1.050_750_071_644_416_843_24e-9,
    ],
];

const FAR: Ratio = [
    [
        6.657_904_643_501_103_777_20,
        5.463_784_911_164_114_369_90,
        1.784_826_539_917_291_335_80,
        2.965_605_718_285_048_912_30e-1,
        2.653_218_952_657_612_309_30e-2,
        1.242_660_947_388_078_438_60e-3,
        2.711_555_568_743_487_578_15e-5,
        2.010_334_399_292_288_132_65e-7,
    ],
    [
        1.0,
        5.998_322_065_558_879_376_90e-1,
        1.369_298_809_227_358_053_10e-1,
        1.487_536_129_085_061_485_25e-2,
        7.868_691_311_456_132_591_00e-4,
        1.846_318_317_510_054_681_80e-5,
        1.421_511_758_316_445_888_70e-7,
        2.044_263_103_389_939_785_64e-15,
    ],
];

#[cfg(test)]
mod tests {
    use super::*;

    /// The distribution function, by the error function.
    fn below(z: f64) -> f64 {
        libm::erfc(-z / std::f64::consts::SQRT_2) / 2.0
    }

    #[test]
    fn known_quantiles() {
        // R's qnorm, to the last digit it prints; the last is that of 2^-53.
        for (probability, z) in [
            (0.5, 0.0),
            (0.75, 0.674_489_750_196_081_7),
            (0.95, 1.644_853_626_951_472_2),
            (0.975, 1.959_963_984_540_054),
            (1e-3, -3.090_232_306_167_813),
            (1e-10, -6.361_340_902_404_056),
            (f64::EPSILON / 2.0, -8.209_536_151_601_387),
        ] {
            assert!((quantile(probability) - z).abs() < 1e-13, "{}", quantile(probability));
        }
    }

    #[test]
    fn the_inverse_of_the_distribution_function() {
        for step in 1..20_000u32 {
            let z = f64::from(step) * 4e-4 - 8.0;
            // Beside 1, probabilities are too coarse to tell quantiles apart.
            let error = quantile(below(-z.abs())) + z.abs();
            assert!(error.abs() < 1e-13 * (1.0 + z.abs()), "{z}: {error}");
        }
    }

    #[test]
    fn symmetric() {
        for step in 1..1000u32 {
            let share = f64::from(step) / 2048.0;
            assert_eq!(quantile(share), -quantile(1.0 - share));
        }
    }
}
