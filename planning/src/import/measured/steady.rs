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
    /// Slower, behind an evaluation.
    Evaluation,
    /// Slower, behind a checkpoint.
    Checkpoint,
    /// Slower or faster than others, for an unknown reason.
    Outlier,
}

impl Class {
    /// All classes of iterations that do not count, with their names.
    pub(super) const LEFT_OUT: [(Self, &'static str); 5] = [
        (Self::WarmUp, "of warm-up"),
        (Self::OtherBatch, "of another batch"),
        (Self::Evaluation, "behind an evaluation"),
        (Self::Checkpoint, "behind a checkpoint"),
        (Self::Outlier, "outliers"),
    ];
}

/// An iteration with what came before it.
#[derive(Clone, Copy, PartialEq, Debug)]
pub struct Timed {
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
const NEAR: f64 = 0.05;

/// The class of each of `steps`.
#[must_use]
pub fn classes(steps: &[Timed]) -> Vec<Class> {
    let batch = steps.iter().rev().find_map(|step| step.batch);
    let is_own = |step: &&Timed| step.batch.is_none() || step.batch == batch;
    let own: Vec<f64> = steps.iter().filter(is_own).map(|step| step.seconds).collect();
    // The later half is past the warm-up of short logs, too.
    let later = own.get(own.len() / 2..).unwrap_or_default();
    let Some(middle) = median(later) else { return Vec::new() };
    let deviations: Vec<f64> = later.iter().map(|one| (one - middle).abs()).collect();
    let spread = median(&deviations).unwrap_or(0.0);
    let far = (FAR * NORMAL * spread).max(NEAR * middle);
    let mut is_start = true;
    let class = |step: &Timed| {
        if !is_own(&step) {
            return Class::OtherBatch;
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
    steps.iter().map(class).collect()
}

/// The median of `values`, the upper one of an even number.
pub(super) fn median(values: &[f64]) -> Option<f64> {
    let mut sorted = values.to_vec();
    sorted.sort_by(f64::total_cmp);
    sorted.get(sorted.len() / 2).copied()
}

#[cfg(test)]
mod tests {
    use super::*;

    fn steps(seconds: &[f64]) -> Vec<Timed> {
        seconds.iter().map(|&seconds| Timed { seconds, batch: Some(64), behind: None }).collect()
    }

    #[test]
    fn warm_up_and_outliers_are_told_apart() {
        use Class::{Outlier, Steady, WarmUp};
        let mut own = steps(&[30.0, 2.0, 1.01, 1.0, 1.02, 1.4, 1.0, 0.99, 1.01, 0.5]);
        let expected =
            [WarmUp, WarmUp, Steady, Steady, Steady, Outlier, Steady, Steady, Steady, Outlier];
        assert_eq!(classes(&own), expected);
        own[5].behind = Some(Class::Checkpoint);
        own[6].behind = Some(Class::Evaluation);
        assert_eq!(classes(&own)[5..7], [Class::Checkpoint, Steady]);
    }

    #[test]
    fn iterations_of_another_batch_do_not_count() {
        let mut own = steps(&[0.5, 0.5, 0.5, 1.0, 1.0, 1.0]);
        own[..3].iter_mut().for_each(|step| step.batch = Some(32));
        assert_eq!(
            classes(&own)[..4],
            [Class::OtherBatch, Class::OtherBatch, Class::OtherBatch, Class::Steady]
        );
    }

    #[test]
    fn few_iterations_are_as_they_are() {
        assert_eq!(classes(&[]), []);
        assert_eq!(classes(&steps(&[1.0])), [Class::Steady]);
        assert_eq!(classes(&steps(&[9.0, 1.0])), [Class::WarmUp, Class::Steady]);
    }
}
