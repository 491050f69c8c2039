//! Microbatches of unequal work: documents or samples of several lengths.

use crate::costs::PassTimes;
use crate::fault::Fault;
use crate::units::Nanos;

/// What a factor of 1 is in the fixed-point numbers below.
const ONE: u32 = 1_000_000;

/// The work of one microbatch over that of the microbatch whose times are given, by kind of pass, in millionths.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct Work {
    /// Of F, and of R.
    pub forward: u32,
    /// Of B.
    pub backward_input: u32,
    /// Of W.
    pub backward_weight: u32,
}

impl Work {
    /// The largest factor.
    pub const MOST: f64 = 1000.0;

    /// Work by factors of F, B and W, to the nearest millionth; `None` if one is below 0, above [`Self::MOST`] or no
    /// number.
    #[must_use]
    pub fn new(forward: f64, backward_input: f64, backward_weight: f64) -> Option<Self> {
        let fixed = |factor: f64| {
            #[allow(clippy::cast_possible_truncation, clippy::cast_sign_loss)] // Within range.
            (0.0..=Self::MOST).contains(&factor).then(|| (factor * f64::from(ONE)).round() as u32)
        };
        Some(Self {
            forward: fixed(forward)?,
            backward_input: fixed(backward_input)?,
            backward_weight: fixed(backward_weight)?,
        })
    }

    /// The same factor for all kinds of passes; `None` as in [`Self::new`].
    #[must_use]
    pub fn alike(factor: f64) -> Option<Self> {
        Self::new(factor, factor, factor)
    }

    /// The factors of F, B and W.
    #[must_use]
    pub fn factors(self) -> [f64; 3] {
        self.millionths().map(|millionths| f64::from(millionths) / f64::from(ONE))
    }

    const fn millionths(self) -> [u32; 3] {
        [self.forward, self.backward_input, self.backward_weight]
    }
}

/// The work of each microbatch of a step.
#[derive(Clone, PartialEq, Eq, Debug)]
pub struct MicrobatchWork(Vec<Work>);

impl MicrobatchWork {
    /// The work of microbatches 0, 1, ...
    #[must_use]
    pub const fn new(each: Vec<Work>) -> Self {
        Self(each)
    }

    /// The work of each microbatch.
    #[must_use]
    pub fn each(&self) -> &[Work] {
        &self.0
    }

    /// The same with microbatch i in the place of microbatch `order[i]`.
    ///
    /// # Panics
    /// If there is no such microbatch.
    #[must_use]
    pub fn ordered(&self, order: &[u32]) -> Self {
        Self(order.iter().map(|&at| self.0[at as usize]).collect())
    }

    /// The time of a forward of `microbatch` that takes `time` where the work is 1.
    pub(super) fn forward(&self, time: Nanos, microbatch: u32) -> Nanos {
        scaled(time, self.0[microbatch as usize].forward)
    }

    /// The times of `microbatch` in a chunk of `times`.
    pub(super) fn times(&self, times: PassTimes, microbatch: u32) -> PassTimes {
        let Work { forward, backward_input, backward_weight } = self.0[microbatch as usize];
        let input = scaled(times.backward_input, backward_input);
        let weight = scaled(times.backward_weight, backward_weight);
        let apart = u128::from(times.backward_input.0) + u128::from(times.backward_weight.0);
        let whole = |whole: Nanos| match apart {
            0 => scaled(whole, backward_input),
            _ => {
                let both = u128::from(input.0) + u128::from(weight.0);
                nanos(rounded(u128::from(whole.0) * both, apart))
            }
        };
        PassTimes {
            forward: scaled(times.forward, forward),
            backward_input: input,
            backward_weight: weight,
            backward: times.backward.map(whole),
        }
    }

    /// The times of a chunk with the mean work of all microbatches.
    pub(super) fn mean(&self, times: PassTimes) -> PassTimes {
        let count = self.0.len().max(1) as u128;
        let mean = |of: fn(&PassTimes) -> Nanos| {
            let all = (0u32..).zip(&self.0).map(|(at, _)| u128::from(of(&self.times(times, at)).0));
            nanos(rounded(all.sum(), count))
        };
        PassTimes {
            forward: mean(|times| times.forward),
            backward_input: mean(|times| times.backward_input),
            backward_weight: mean(|times| times.backward_weight),
            backward: times.backward.map(|_| mean(PassTimes::whole_backward)),
        }
    }

    /// The least work of the `count` microbatches with most work, by kind of pass.
    pub(super) fn least_of_heaviest(&self, count: usize) -> Work {
        let mut heaviest = self.0.clone();
        heaviest.sort_by_key(|work| {
            std::cmp::Reverse(work.millionths().map(u64::from).iter().sum::<u64>())
        });
        let least = |of: fn(&Work) -> u32| heaviest.iter().take(count).map(of).min().unwrap_or(0);
        Work {
            forward: least(|work| work.forward),
            backward_input: least(|work| work.backward_input),
            backward_weight: least(|work| work.backward_weight),
        }
    }

    /// The mean time of what is recomputed in `time` where the work is 1.
    pub(super) fn mean_forward(&self, time: Nanos) -> Nanos {
        self.mean(PassTimes { forward: time, ..PassTimes::default() }).forward
    }

    /// How many times as long the passes of a step take as they would if none took longer than given, at most.
    pub(super) fn most(&self) -> u128 {
        let most = self.0.iter().flat_map(|work| work.millionths()).max().unwrap_or(ONE);
        u128::from(most.div_ceil(ONE)).max(1)
    }

    /// Checks that there are `microbatches`.
    pub(super) fn check(&self, microbatches: u32) -> Result<(), Fault> {
        let given = self.0.len();
        if given == microbatches as usize {
            return Ok(());
        }
        Err(Fault::MicrobatchCount { given, microbatches })
    }
}

/// `time` by `factor` in millionths, to the nearest nanosecond.
fn scaled(time: Nanos, factor: u32) -> Nanos {
    match factor {
        ONE => time,
        _ => nanos(rounded(u128::from(time.0) * u128::from(factor), u128::from(ONE))),
    }
}

/// `of` over `by`, to the nearest whole number.
const fn rounded(of: u128, by: u128) -> u128 {
    (of + by / 2) / by
}

fn nanos(time: u128) -> Nanos {
    Nanos(u64::try_from(time).unwrap_or(u64::MAX))
}

#[cfg(test)]
mod tests {
    use super::*;

    fn times() -> PassTimes {
        PassTimes { backward: Some(Nanos(25)), ..PassTimes::new(Nanos(10), Nanos(20), Nanos(10)) }
    }

    #[test]
    fn kinds_have_factors_of_their_own() {
        let work = MicrobatchWork::new(vec![
            Work::alike(1.0).unwrap(),
            Work::new(2.0, 3.0, 0.0).unwrap(),
            Work::alike(0.0).unwrap(),
        ]);
        assert_eq!(work.times(times(), 0), times());
        let second = work.times(times(), 1);
        assert_eq!(
            (second.forward, second.backward_input, second.backward_weight, second.backward),
            // 25 of 30 as both together take 60 of 30.
            (Nanos(20), Nanos(60), Nanos(0), Some(Nanos(50)))
        );
        assert_eq!(work.times(times(), 2).whole_backward(), Nanos(0));
        assert_eq!(work.mean(times()).forward, Nanos(10));
        assert_eq!(work.most(), 3);
        assert_eq!(work.ordered(&[2, 0, 1]).times(times(), 2), second);
    }

    #[test]
    fn factors_are_numbers_in_range() {
        for wrong in [-0.1, 1000.1, f64::NAN, f64::INFINITY] {
            assert_eq!(Work::alike(wrong), None, "{wrong}");
        }
        assert_eq!(Work::alike(0.000_000_4), Work::alike(0.0));
    }

    #[test]
    fn no_microbatch_may_be_missing() {
        let work = MicrobatchWork::new(vec![Work::alike(1.0).unwrap(); 3]);
        assert!(work.check(3).is_ok());
        let fault = work.check(4).unwrap_err();
        assert_eq!(fault, Fault::MicrobatchCount { given: 3, microbatches: 4 });
    }
}
