//! Measures of the error of predictions against measurements.

/// The relative error of a prediction, (predicted - measured) / measured, where both have the same unit.
/// It is 0 where they are equal, also where both are 0.
pub fn error(predicted: f64, measured: f64) -> f64 {
    if predicted == measured { 0.0 } else { (predicted - measured) / measured }
}

/// The mean of the absolute values of `errors`, 0 if there are none.
#[allow(clippy::cast_precision_loss)]
pub fn mean_absolute(errors: &[f64]) -> f64 {
    errors.iter().map(|error| error.abs()).sum::<f64>() / errors.len().max(1) as f64
}

/// The 95th percentile of the absolute values of `errors` by the nearest rank. For fewer than 20 errors
/// it is the largest, and 0 if there are none.
pub fn not_exceeded_by_95_percent(errors: &[f64]) -> f64 {
    not_exceeded_by(95, errors)
}

/// The `percent`th percentile of the absolute values of `errors`, by the nearest rank; 0 if there are
/// none.
pub fn not_exceeded_by(percent: usize, errors: &[f64]) -> f64 {
    let mut sizes: Vec<f64> = errors.iter().map(|error| error.abs()).collect();
    sizes.sort_by(f64::total_cmp);
    let rank = (sizes.len() * percent).div_ceil(100);
    rank.checked_sub(1).and_then(|at| sizes.get(at)).copied().unwrap_or_default()
}

/// The middle of `values`; of an even number the mean of the two in the middle, 0 if there are none.
pub fn median(values: &[f64]) -> f64 {
    plan::fit::median(values).unwrap_or_default()
}

#[cfg(test)]
mod tests {
    use super::{median, not_exceeded_by, not_exceeded_by_95_percent};

    #[test]
    fn of_few_errors_the_largest_counts() {
        let errors = |count: i32| (1..=count).map(|one| f64::from(-one)).collect::<Vec<_>>();
        let all = [0, 1, 19, 20, 100].map(|count| not_exceeded_by_95_percent(&errors(count)));
        assert_eq!(all, [0.0, 1.0, 19.0, 19.0, 95.0]);
        assert_eq!(not_exceeded_by(90, &errors(10)), 9.0);
    }

    #[test]
    fn the_median_is_in_the_middle() {
        assert_eq!(median(&[]), 0.0);
        assert_eq!(median(&[3.0, 1.0, 2.0]), 2.0);
        assert_eq!(median(&[4.0, 1.0, 3.0, 2.0]), 2.5);
    }
}
