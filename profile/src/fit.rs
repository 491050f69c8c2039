//! A straight line through times by message size: latency + size over bandwidth.

use crate::statistics::RESOLUTION;

/// Latency and bandwidth of a link, fitted to the times of messages.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct Fit {
    /// The time of a message of no size, in nanoseconds.
    pub latency: u64,
    /// The time per MiB, in nanoseconds: 2^20 over the bandwidth.
    pub per_mib: u64,
    /// How far the worst point lies from the line, in thousandths of the point, or of
    /// [`RESOLUTION`] where that is more.
    pub worst_per_mille: u64,
}

impl Fit {
    /// The line through `points`, of (bytes, nanoseconds), with the smallest sum of squared relative errors: small
    /// messages count as much as large ones. Neither part is negative. `None` without two sizes.
    #[must_use]
    pub fn of(points: &[(u64, u64)]) -> Option<Self> {
        let first = points.first()?.0;
        if points.iter().all(|point| point.0 == first) {
            return None;
        }
        let (latency, per_byte) = line(points);
        let fit = Self {
            latency: rounded(latency),
            per_mib: rounded(per_byte * f64::from(1u32 << 20)),
            worst_per_mille: 0,
        };
        let off = |&(bytes, time): &(u64, u64)| {
            1000 * u128::from(fit.time(bytes).abs_diff(time)) / u128::from(time.max(RESOLUTION))
        };
        let worst = points.iter().map(off).max().unwrap_or(0);
        Some(Self { worst_per_mille: u64::try_from(worst).unwrap_or(u64::MAX), ..fit })
    }

    /// The time of a message of `bytes` on the line, in nanoseconds.
    #[must_use]
    pub fn time(&self, bytes: u64) -> u64 {
        let moving = (u128::from(self.per_mib) * u128::from(bytes)) >> 20;
        u64::try_from(u128::from(self.latency) + moving).unwrap_or(u64::MAX)
    }

    /// Bytes per second for large messages; `None` where size costs nothing.
    #[must_use]
    #[allow(clippy::cast_precision_loss)]
    pub fn bandwidth(&self) -> Option<f64> {
        (self.per_mib > 0).then(|| f64::from(1u32 << 20) * 1e9 / self.per_mib as f64)
    }
}

/// Weighted least squares with weights 1 / time^2, none below the resolution of clocks, and the nearest line with no negative part.
#[allow(clippy::cast_precision_loss)]
fn line(points: &[(u64, u64)]) -> (f64, f64) {
    let [mut ones, mut x, mut y, mut xx, mut xy] = [0.0; 5];
    for &(bytes, time) in points {
        let (bytes, resolved) = (bytes as f64, time.max(RESOLUTION) as f64);
        let (time, weight) = (time as f64, 1.0 / (resolved * resolved));
        ones += weight;
        x += weight * bytes;
        y += weight * time;
        xx += weight * bytes * bytes;
        xy += weight * bytes * time;
    }
    let slope = (ones * xy - x * y) / (ones * xx - x * x);
    if slope <= 0.0 || !slope.is_finite() {
        return (y / ones, 0.0);
    }
    let start = (y - slope * x) / ones;
    if start < 0.0 { (0.0, xy / xx) } else { (start, slope) }
}

#[allow(clippy::cast_possible_truncation, clippy::cast_sign_loss)]
fn rounded(value: f64) -> u64 {
    value.round() as u64
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    const SIZES: [u64; 6] = [8, 1 << 10, 1 << 14, 1 << 18, 1 << 20, 1 << 24];

    proptest! {
        #[test]
        fn points_on_a_line_give_the_line(latency in 1_000..1_000_000u64, per_mib in 1_000..1_000_000u64) {
            let line = Fit { latency, per_mib, worst_per_mille: 0 };
            let points = SIZES.map(|bytes| (bytes, line.time(bytes)));
            let fit = Fit::of(&points).unwrap();
            prop_assert!(fit.latency.abs_diff(latency) <= 1 + latency / 100, "{fit:?}");
            prop_assert!(fit.per_mib.abs_diff(per_mib) <= 1 + per_mib / 100, "{fit:?}");
            prop_assert!(SIZES.iter().all(|&bytes| fit.time(bytes).abs_diff(line.time(bytes)) <= 4 + line.time(bytes) / 1_000));
        }
    }

    #[test]
    fn neither_part_is_negative() {
        let falling = Fit::of(&[(8, 1_000), (1 << 20, 500)]).unwrap();
        assert_eq!((falling.per_mib, falling.bandwidth()), (0, None));
        let steep = Fit::of(&[(1 << 19, 100), (1 << 20, 1_000), (1 << 24, 90_000)]).unwrap();
        assert_eq!(steep.latency, 0);
        assert!(steep.per_mib > 0);
    }

    #[test]
    fn a_point_off_the_line_is_said() {
        let fit = Fit::of(&[(0, 1_000), (1 << 20, 2_000), (2 << 20, 6_000), (3 << 20, 4_000)]);
        assert!((200..700).contains(&fit.unwrap().worst_per_mille), "{fit:?}");
    }

    #[test]
    fn one_size_has_no_line() {
        assert_eq!(Fit::of(&[]), None);
        assert_eq!(Fit::of(&[(8, 100), (8, 110)]), None);
        assert!(Fit::of(&[(8, 0), (16, 0)]).is_some());
    }
}
