//! How far predictions lie from measurements.

/// (predicted - measured) / measured, in whatever unit both have; 0 where they are the same, also
/// where both are 0.
pub fn error(predicted: f64, measured: f64) -> f64 {
    if predicted == measured { 0.0 } else { (predicted - measured) / measured }
}

/// The mean of the sizes of `errors`; 0 of none.
#[allow(clippy::cast_precision_loss)]
pub fn mean_absolute(errors: &[f64]) -> f64 {
    errors.iter().map(|error| error.abs()).sum::<f64>() / errors.len().max(1) as f64
}

/// The size that 95 % of `errors` do not exceed, by the nearest rank: of fewer than 20 the largest; 0
/// of none.
pub fn not_exceeded_by_95_percent(errors: &[f64]) -> f64 {
    let mut sizes: Vec<f64> = errors.iter().map(|error| error.abs()).collect();
    sizes.sort_by(f64::total_cmp);
    let rank = (sizes.len() * 95).div_ceil(100);
    rank.checked_sub(1).and_then(|at| sizes.get(at)).copied().unwrap_or_default()
}

#[cfg(test)]
mod tests {
    use super::not_exceeded_by_95_percent;

    #[test]
    fn of_few_errors_the_largest_counts() {
        let errors = |count: i32| (1..=count).map(|one| f64::from(-one)).collect::<Vec<_>>();
        let all = [0, 1, 19, 20, 100].map(|count| not_exceeded_by_95_percent(&errors(count)));
        assert_eq!(all, [0.0, 1.0, 19.0, 19.0, 95.0]);
    }
}
