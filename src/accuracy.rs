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
