//! Latency and rate of a collective from its times over sizes.

use plan::fit::median;

/// Largest size whose time is all latency, in bytes: protocols of small messages reach up to here.
const SMALL: u64 = 32 << 10;
/// Least size that says something of a rate, in bytes.
const LARGE: u64 = 1 << 20;
/// Sizes down to this share of the largest give the rate.
const SPAN: u64 = 256;

/// One time: of a size, with the bytes that pass a device in units of the machine's rate, and seconds besides them that
/// are known.
#[derive(Clone, Copy, Debug)]
pub(super) struct Sample {
    pub(super) bytes: u64,
    /// Seconds at the whole rate of the machine.
    pub(super) whole: f64,
    /// Seconds that other links take.
    pub(super) besides: f64,
    pub(super) seconds: f64,
}

/// Time = latency + whole / share.
#[derive(Clone, Copy, PartialEq, Debug)]
pub(super) struct Line {
    /// Seconds: the median of small sizes, if there are any.
    pub(super) latency: Option<f64>,
    /// Share of the machine's rate.
    pub(super) share: f64,
    /// Relative residuals of times over the sizes that give the share: the median and the largest.
    pub(super) residuals: [f64; 2],
    /// How many sizes these are, the least and the largest.
    pub(super) sizes: usize,
    pub(super) range: [u64; 2],
}

/// The latency alone, by times in seconds with their bytes.
pub(super) fn latency(times: impl Iterator<Item = (u64, f64)>) -> Option<f64> {
    let small = times.filter(|(bytes, _)| *bytes <= SMALL).map(|(_, seconds)| seconds);
    median(&small.collect::<Vec<_>>())
}

/// The line through `samples` by least absolute errors of the logarithms of times, which single sizes that are far off do
/// not move; nothing where no size is large.
pub(super) fn line(samples: &[Sample]) -> Option<Line> {
    let largest = samples.iter().map(|one| one.bytes).max()?;
    let least = LARGE.max(largest / SPAN);
    let used: Vec<Sample> = samples.iter().copied().filter(|one| one.bytes >= least).collect();
    let latency = latency(samples.iter().map(|one| (one.bytes, one.seconds)));
    let fixed = latency.unwrap_or(0.0);
    let time = |one: &Sample, share: f64| fixed + one.besides + one.whole / share;
    let error = |share: f64| -> f64 {
        used.iter().map(|one| libm::log(time(one, share) / one.seconds).abs()).sum()
    };
    // The sum is least where the line meets one of the samples.
    let meets = used.iter().map(|one| one.whole / (one.seconds - fixed - one.besides));
    let meets = meets.filter(|share| share.is_finite() && *share > 0.0);
    let share = meets.min_by(|a, b| error(*a).total_cmp(&error(*b)).then(a.total_cmp(b)))?;
    let residuals: Vec<f64> =
        used.iter().map(|one| (time(one, share) / one.seconds - 1.0).abs()).collect();
    let most = residuals.iter().copied().fold(0.0, f64::max);
    let mut sizes: Vec<u64> = used.iter().map(|one| one.bytes).collect();
    sizes.sort_unstable();
    sizes.dedup();
    let range = [sizes.first().copied()?, sizes.last().copied()?];
    Some(Line { latency, share, residuals: [median(&residuals)?, most], sizes: sizes.len(), range })
}

#[cfg(test)]
mod tests {
    use super::*;

    fn sample(bytes: u64, seconds: f64) -> Sample {
        Sample { bytes, whole: plan::number(bytes) / 50e9, besides: 0.0, seconds }
    }

    #[test]
    fn a_line_is_found_through_sizes_of_which_two_are_far_off() {
        let time = |bytes: u64| 30e-6 + plan::number(bytes) / (0.4 * 50e9);
        let sizes = (3..33).map(|exponent| 1_u64 << exponent);
        let mut all: Vec<Sample> = sizes
            .map(|bytes| match bytes <= SMALL {
                true => sample(bytes, 30e-6),
                false => sample(bytes, time(bytes)),
            })
            .collect();
        let far: Vec<usize> =
            (0..all.len()).filter(|&at| [1 << 27, 1 << 29].contains(&all[at].bytes)).collect();
        for at in far {
            all[at].seconds *= 5.0;
        }
        let line = line(&all).unwrap();
        assert!(
            (line.share - 0.4).abs() < 1e-6 && (line.latency.unwrap() - 30e-6).abs() < 1e-9,
            "{line:?}"
        );
        assert!(line.residuals[0] < 1e-6 && (line.residuals[1] - 0.8).abs() < 1e-6, "{line:?}");
        assert_eq!((line.sizes, line.range), (9, [1 << 24, 1 << 32]));
    }

    #[test]
    fn small_sizes_alone_have_a_latency_and_no_rate() {
        let all = [sample(8, 20e-6), sample(1024, 22e-6), sample(65536, 30e-6)];
        assert_eq!(line(&all), None);
        let small = latency(all.iter().map(|one| (one.bytes, one.seconds)));
        assert!((small.unwrap() - 21e-6).abs() < 1e-12);
        let large = [sample(1 << 30, 0.1)];
        let line = line(&large).unwrap();
        assert_eq!((line.latency, line.residuals, line.sizes), (None, [0.0, 0.0], 1));
    }
}
