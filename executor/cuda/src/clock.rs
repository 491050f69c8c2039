//! Times of events as nanoseconds.
#![forbid(unsafe_code)]

use std::time::Instant;

/// Beyond this many milliseconds from its anchor, an event becomes the next anchor: the driver
/// returns f32 milliseconds, which resolve 60 ns up to there and lose a bit with every doubling.
const FAR_MS: f32 = 1000.0;

/// Nanoseconds of events 1 to `count` after event 0, where `elapsed(i, j)` are the milliseconds from
/// event i to j.
pub(crate) fn unroll<E>(
    count: usize,
    mut elapsed: impl FnMut(usize, usize) -> Result<f32, E>,
) -> Result<Vec<f64>, E> {
    let (mut anchor, mut anchor_ns) = (0, 0.0);
    let mut times = Vec::with_capacity(count);
    for event in 1..=count {
        let ms = elapsed(anchor, event)?;
        let ns = anchor_ns + f64::from(ms) * 1e6;
        if ms > FAR_MS {
            (anchor, anchor_ns) = (event, ns);
        }
        times.push(ns);
    }
    Ok(times)
}

/// `after_base` nanoseconds after `base`, as nanoseconds since `epoch`; 0 if that is before
/// `epoch`.
pub(crate) fn since(epoch: Instant, base: Instant, after_base: f64) -> u64 {
    let ahead = base.saturating_duration_since(epoch).as_secs_f64()
        - epoch.saturating_duration_since(base).as_secs_f64();
    #[allow(clippy::cast_possible_truncation, clippy::cast_sign_loss)] // saturates
    let nanoseconds = (ahead * 1e9 + after_base).round() as u64;
    nanoseconds
}

#[cfg(test)]
mod tests {
    use std::convert::Infallible;
    use std::time::Duration;

    use super::*;

    #[test]
    fn far_events_keep_the_resolution_of_near_ones() {
        // An hour, where f32 milliseconds alone resolve 0.25 ms.
        let at: Vec<f64> = (0..4000).map(|i| f64::from(i) * 900_000_013.0).collect();
        #[allow(clippy::cast_possible_truncation)] // as the driver answers
        let elapsed = |i: usize, j: usize| Ok::<_, Infallible>(((at[j] - at[i]) * 1e-6) as f32);
        let got = unroll(at.len() - 1, elapsed).unwrap();
        for (pair, want) in got.windows(2).zip(at[1..].windows(2)) {
            let error = (pair[1] - pair[0]) - (want[1] - want[0]);
            assert!(error.abs() < 130.0, "{error}");
        }
    }

    #[test]
    fn times_count_from_the_epoch_on_either_side_of_the_base() {
        let base = Instant::now();
        let later = base + Duration::from_micros(5);
        assert_eq!(since(base, base, 250.4), 250);
        assert_eq!(since(base, later, 250.0), 5250);
        assert_eq!(since(later, base, 6000.0), 1000);
        assert_eq!(since(later, base, 10.0), 0);
    }
}
