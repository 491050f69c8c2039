//! Iterations that show the speed of a run, apart from warm-up, evaluation, checkpoints and outliers.

/// The class of an iteration.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum Class {
    /// It counts.
    Steady,
    /// Slower, at the start of the run: kernels are compiled and memory is taken.
    WarmUp,
    /// Of another global batch than the last.
    OtherBatch,
    /// Before the last change of the step.
    Earlier,
    /// Slower, behind an evaluation.
    Evaluation,
    /// Slower, behind a checkpoint.
    Checkpoint,
    /// Slower or faster than others, for an unknown reason.
    Outlier,
}

impl Class {
    /// All classes of iterations that do not count, with their names.
    pub(super) const LEFT_OUT: [(Self, &'static str); 6] = [
        (Self::WarmUp, "of warm-up"),
        (Self::OtherBatch, "of another batch"),
        (Self::Earlier, "before the step changes"),
        (Self::Evaluation, "behind an evaluation"),
        (Self::Checkpoint, "behind a checkpoint"),
        (Self::Outlier, "outliers"),
    ];
}

/// An iteration with what came before it.
#[derive(Clone, Copy, PartialEq, Debug)]
pub struct Timed {
    /// The number of the iteration.
    pub number: Option<u64>,
    /// The time of a step, in seconds.
    pub seconds: f64,
    /// The samples of its batch.
    pub batch: Option<u64>,
    /// The event between it and the iteration before, if that is slow by itself.
    pub behind: Option<Class>,
}

/// Standard deviations, as the median of absolute deviations estimates them, beyond which an iteration is an outlier.
const FAR: f64 = 5.0;
/// The standard deviation of a normal distribution over its median absolute deviation.
const NORMAL: f64 = 1.4826;
/// The share of the median within which no iteration is an outlier.
pub(super) const NEAR: f64 = 0.05;
/// The share of the median over which the middle half of steady iterations may spread.
const WIDE: f64 = 0.25;
/// The fewest iterations of which growth is seen.
const FEWEST_OF_GROWTH: usize = 9;

/// The global batch of the last of `steps` that has one.
pub(super) fn batch(steps: &[Timed]) -> Option<u64> {
    steps.iter().rev().find_map(|step| step.batch)
}

/// The places of `steps` of the last batch behind which neither an evaluation nor a checkpoint lies.
pub(super) fn usual(steps: &[Timed]) -> Vec<usize> {
    let batch = batch(steps);
    let is_own =
        |step: &Timed| step.behind.is_none() && (step.batch.is_none() || step.batch == batch);
    (0..steps.len()).filter(|&at| is_own(&steps[at])).collect()
}

/// The class of each of `steps`, of which those before `start` are of another step.
#[must_use]
pub fn classes(steps: &[Timed], start: usize) -> Vec<Class> {
    let batch = batch(steps);
    let is_own = |step: &&Timed| step.batch.is_none() || step.batch == batch;
    let last = steps.get(start..).unwrap_or_default();
    let own: Vec<f64> = last.iter().filter(is_own).map(|step| step.seconds).collect();
    // The later half is past the warm-up of short logs, too.
    let later = own.get(own.len() / 2..).unwrap_or_default();
    let Some(middle) = median(later) else { return Vec::new() };
    let deviations: Vec<f64> = later.iter().map(|one| (one - middle).abs()).collect();
    let spread = median(&deviations).unwrap_or(0.0);
    let far = (FAR * NORMAL * spread).max(NEAR * middle);
    let mut is_start = true;
    let class = |(at, step): (usize, &Timed)| {
        if !is_own(&step) {
            return Class::OtherBatch;
        }
        if at < start {
            return Class::Earlier;
        }
        let is_slow = step.seconds > middle + far;
        is_start &= is_slow;
        match step.behind {
            _ if is_start => Class::WarmUp,
            Some(class) if is_slow => class,
            _ if is_slow || step.seconds < middle - far => Class::Outlier,
            _ => Class::Steady,
        }
    };
    steps.iter().enumerate().map(class).collect()
}

/// Why the `steady` times, beside `outliers` others, have no median that a step takes, in words: they grow or shrink,
/// which is that the medians of the first and the last third are apart by more than [`NEAR`] and twice the distance
/// within which four in five of a third lie; their middle half spreads over more than [`WIDE`]; or more than a third
/// are outliers.
pub(super) fn unsteady(steady: &[f64], outliers: usize) -> Option<String> {
    let (count, all) = (steady.len(), steady.len() + outliers);
    let (first, last) = (&steady[..count / 3], &steady[count - count / 3..]);
    let [(from, near_from), (to, near_to)] = [middle(first)?, middle(last)?];
    let least = (NEAR * from.min(to)).max(2.0 * near_from.max(near_to));
    let mut sorted = steady.to_vec();
    sorted.sort_by(f64::total_cmp);
    let [low, median, high] = [1, 2, 3].map(|part| sorted[part * count / 4]);
    let why = if (to - from).abs() > least && count >= FEWEST_OF_GROWTH {
        format!(
            "it goes from {from:.3} s to {to:.3} s, the medians of the first and the last third"
        )
    } else if high - low > WIDE * median {
        format!("half of all steps are between {low:.3} s and {high:.3} s")
    } else if 3 * outliers > all {
        format!(
            "{outliers} of {all} iterations are far from {median:.3} s, the median of the others"
        )
    } else {
        return None;
    };
    Some(format!("its step is not steady: {why}"))
}

/// The median of `values`, the upper one of an even number.
pub(crate) fn median(values: &[f64]) -> Option<f64> {
    let mut sorted = values.to_vec();
    sorted.sort_by(f64::total_cmp);
    sorted.get(sorted.len() / 2).copied()
}

/// The median of `times`, and the distance from it within which four in five lie.
pub(super) fn middle(times: &[f64]) -> Option<(f64, f64)> {
    let middle = median(times)?;
    let mut distances: Vec<f64> = times.iter().map(|one| (one - middle).abs()).collect();
    distances.sort_by(f64::total_cmp);
    Some((middle, distances[(4 * distances.len()).div_ceil(5) - 1]))
}

#[cfg(test)]
mod tests {
    use super::*;

    fn steps(seconds: &[f64]) -> Vec<Timed> {
        seconds
            .iter()
            .map(|&seconds| Timed { number: None, seconds, batch: Some(64), behind: None })
            .collect()
    }

    #[test]
    fn warm_up_and_outliers_are_told_apart() {
        use Class::{Outlier, Steady, WarmUp};
        let mut own = steps(&[30.0, 2.0, 1.01, 1.0, 1.02, 1.4, 1.0, 0.99, 1.01, 0.5]);
        let expected =
            [WarmUp, WarmUp, Steady, Steady, Steady, Outlier, Steady, Steady, Steady, Outlier];
        assert_eq!(classes(&own, 0), expected);
        own[5].behind = Some(Class::Checkpoint);
        own[6].behind = Some(Class::Evaluation);
        assert_eq!(classes(&own, 0)[5..7], [Class::Checkpoint, Steady]);
    }

    #[test]
    fn iterations_of_another_batch_do_not_count() {
        let mut own = steps(&[0.5, 0.5, 0.5, 1.0, 1.0, 1.0]);
        own[..3].iter_mut().for_each(|step| step.batch = Some(32));
        assert_eq!(
            classes(&own, 0)[..4],
            [Class::OtherBatch, Class::OtherBatch, Class::OtherBatch, Class::Steady]
        );
    }

    #[test]
    fn few_iterations_are_as_they_are() {
        assert_eq!(classes(&[], 0), []);
        assert_eq!(classes(&steps(&[1.0]), 0), [Class::Steady]);
        assert_eq!(classes(&steps(&[9.0, 1.0]), 0), [Class::WarmUp, Class::Steady]);
    }
    #[test]
    fn times_that_do_not_settle_are_named() {
        let of = |steady: &[f64], outliers| unsteady(steady, outliers).unwrap_or_default();
        let grown: Vec<f64> = (0..30).map(|at| 0.8 + 0.02 * f64::from(at)).collect();
        assert!(of(&grown, 0).contains(": it goes from 0.900 s to 1.300 s"), "{}", of(&grown, 0));
        let shrunk: Vec<f64> = grown.iter().rev().copied().collect();
        assert!(of(&shrunk, 0).contains(": it goes from 1.300 s to 0.900 s"));
        let alternating: Vec<f64> = (0..40).map(|at| [0.8, 1.6][at % 2]).collect();
        assert!(of(&alternating, 0).contains("half of all steps are between 0.800 s and 1.600 s"));
        assert!(of(&[1.0; 6], 4).contains(": 4 of 10 iterations are far from 1.000 s"));
        assert_eq!(of(&[1.0; 6], 3), "");
        assert_eq!(of(&[1.0, 1.02, 0.98, 1.01, 1.0, 1.03, 0.99, 1.0, 1.02, 1.04], 1), "");
        assert_eq!(of(&[], 0), "");
    }
}
