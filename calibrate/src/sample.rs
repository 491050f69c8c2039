//! Repeats a measurement until its medians are known well enough. What is measured, and by which
//! clock, is the caller's: a [`Source`].

use std::time::Duration;

use profile::Summary;

/// When to stop repeating.
#[derive(Clone, Copy, PartialEq, Debug)]
pub struct Rule {
    /// Rounds that are thrown away first, in any case: caches and page tables settle.
    pub warm_up: usize,
    /// How long rounds are thrown away, unless that is more than a quarter of `time`: clocks of a
    /// device that was idle rise.
    pub rise: Duration,
    /// Rounds to take in any case.
    pub at_least: usize,
    /// Rounds to take at most.
    pub at_most: usize,
    /// Target half-width of the interval of every median, as a fraction of the median.
    pub half_width: f64,
    /// Time limit, the warm-up included; [`Rule::at_least`] rounds are taken in any case,
    /// unless they exceed twice this time.
    pub time: Duration,
}

/// A source of repeated measurements.
pub trait Source {
    /// The reason that a round failed.
    type Error;

    /// Runs once more, and adds at least one raw sample, in nanoseconds, to each of `series`.
    fn round(&mut self, series: &mut [Vec<u64>]) -> Result<(), Self::Error>;

    /// Time since it was made.
    fn elapsed(&mut self) -> Duration;
}

/// Samples of `count` series, each less `overhead`, but never below zero, in the order taken.
pub fn sample<S: Source>(
    source: &mut S,
    count: usize,
    overhead: u64,
    rule: &Rule,
) -> Result<Vec<Vec<u64>>, S::Error> {
    let mut thrown_away = vec![Vec::new(); count];
    let rise = rule.rise.min(rule.time / 4);
    let begun = source.elapsed();
    for round in 0.. {
        let elapsed = source.elapsed();
        let is_warm = round >= rule.warm_up && elapsed.saturating_sub(begun) >= rise;
        if is_warm || elapsed >= rule.time {
            break;
        }
        source.round(&mut thrown_away)?;
    }
    let mut series = vec![Vec::new(); count];
    let mut next_look = rule.at_least;
    for round in 1..=rule.at_most.max(1) {
        source.round(&mut series)?;
        let elapsed = source.elapsed();
        let mut enough = false;
        if round >= next_look {
            // Looking sorts all samples: as they grow, it is worth it more rarely.
            next_look = round + 1 + round / 10;
            enough = all_tight(&series, overhead, rule.half_width);
        }
        let over = elapsed >= rule.time && round >= rule.at_least;
        if enough || over || elapsed >= rule.time.saturating_mul(2) {
            break;
        }
    }
    for samples in &mut series {
        samples.iter_mut().for_each(|sample| *sample = sample.saturating_sub(overhead));
    }
    Ok(series)
}

/// Whether the interval of every median is narrow enough once `overhead` is taken off.
fn all_tight(series: &[Vec<u64>], overhead: u64, half_width: f64) -> bool {
    series.iter().all(|samples| {
        let net: Vec<u64> = samples.iter().map(|one| one.saturating_sub(overhead)).collect();
        let width = Summary::of(&net).and_then(|summary| summary.half_width());
        width.is_some_and(|width| width <= half_width)
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    /// Plays series back, each round one after the other, on a clock that only it moves.
    struct Played<F: Fn(usize) -> Vec<u64>> {
        at: F,
        rounds: usize,
        elapsed: u64,
    }

    impl<F: Fn(usize) -> Vec<u64>> Source for Played<F> {
        type Error = String;

        fn round(&mut self, series: &mut [Vec<u64>]) -> Result<(), String> {
            let samples = (self.at)(self.rounds);
            if samples.is_empty() {
                return Err(format!("round {}", self.rounds));
            }
            self.rounds += 1;
            self.elapsed += samples.iter().sum::<u64>();
            series.iter_mut().zip(samples).for_each(|(series, sample)| series.push(sample));
            Ok(())
        }

        fn elapsed(&mut self) -> Duration {
            Duration::from_nanos(self.elapsed)
        }
    }

    const RULE: Rule = Rule {
        warm_up: 3,
        at_least: 10,
        at_most: 200,
        half_width: 0.02,
        rise: Duration::ZERO,
        time: Duration::from_secs(1),
    };

    fn play(at: impl Fn(usize) -> Vec<u64>, count: usize, rule: &Rule) -> Vec<Vec<u64>> {
        sample(&mut Played { at, rounds: 0, elapsed: 0 }, count, 40, rule).unwrap()
    }

    #[test]
    fn a_constant_series_takes_the_least_and_loses_warm_up_and_overhead() {
        let at = |round| vec![if round < 3 { 90_000 } else { 1_040 }];
        assert_eq!(play(at, 1, &RULE), [vec![1_000; 10]]);
    }

    #[test]
    fn clocks_rise_for_as_long_as_is_asked_but_no_longer_than_a_quarter() {
        // 10 ms a round: the first 20 at a low clock.
        let at = |round| vec![if round < 20 { 20_000_000 } else { 10_000_040 }];
        let long = Rule { rise: Duration::from_millis(400), time: Duration::from_secs(4), ..RULE };
        assert_eq!(play(at, 1, &long), [vec![10_000_000; 10]]);
        let short = Rule { rise: Duration::from_secs(9), ..long };
        let quarter = |round| vec![if round < 100 { 20_000_000 } else { 10_000_040 }];
        assert_eq!(play(quarter, 1, &short)[0][..3], [19_999_960; 3]);
        assert_eq!(play(at, 1, &short), [vec![10_000_000; 10]]);
    }

    #[test]
    fn samples_never_fall_below_zero() {
        assert_eq!(play(|_| vec![25], 1, &RULE), [vec![0; 10]]);
    }

    #[test]
    fn a_wide_series_goes_on_and_holds_up_the_others() {
        let two_speeds =
            |round: usize| vec![100_000, if round.is_multiple_of(2) { 100_000 } else { 200_000 }];
        let series = play(two_speeds, 2, &RULE);
        assert_eq!((series[0].len(), series[1].len()), (200, 200));
        // Narrow once there are enough: 1 % of uniform spread is not.
        let spread = |round: usize| vec![1_004_000 + (round as u64 * 7_919) % 100_000];
        let count = play(spread, 1, &RULE)[0].len();
        assert!((10..200).contains(&count) && count > 10, "{count}");
    }

    #[test]
    fn time_ends_it_but_not_before_the_least_unless_it_is_far_over() {
        let slow = |round: usize| vec![40_000_000 + 20_000_000 * (round as u64 % 2)];
        let rule = Rule { time: Duration::from_millis(1_000), ..RULE };
        assert_eq!(play(slow, 1, &rule)[0].len(), 17);
        let rule = Rule { time: Duration::from_millis(300), ..RULE };
        let count = play(slow, 1, &rule)[0].len();
        assert!((9..=10).contains(&count), "{count}");
        let rule = Rule { time: Duration::from_millis(50), ..RULE };
        assert_eq!(play(slow, 1, &rule)[0].len(), 1);
    }

    #[test]
    fn what_stops_the_source_stops_the_sampling() {
        let at = |round| if round < 5 { vec![1] } else { Vec::new() };
        let failed = sample(&mut Played { at, rounds: 0, elapsed: 0 }, 1, 0, &RULE);
        assert_eq!(failed, Err("round 5".to_owned()));
    }
}
