//! Turns the numbers of a trace into nanoseconds and counts, where they are in range.

use pipeline::Nanos;

use crate::error::{Place, TraceError};

/// Nanoseconds per microsecond, the unit of trace events.
pub(crate) const MICROSECOND: f64 = 1e3;
/// The latest start in nanoseconds: 126 years, so that dates will do.
pub(crate) const LATEST: f64 = 1e9 * 1e9 * 4.0;
/// The longest duration in nanoseconds: 11 days.
pub(crate) const LONGEST: f64 = 1e6 * 1e9;

/// `value` times `unit` nanoseconds, at most `limit`: the one place where floating-point time
/// becomes whole nanoseconds, to the nearest.
#[allow(clippy::cast_possible_truncation, clippy::cast_sign_loss)] // In range by then.
pub(crate) fn nanos(
    value: f64,
    unit: f64,
    limit: f64,
    place: Place,
    column: &'static str,
) -> Result<Nanos, TraceError> {
    let nanos = (value * unit).round();
    let why = match nanos {
        _ if nanos.is_nan() => "not a number",
        _ if nanos < 0.0 => "negative",
        _ if nanos > limit => "too large",
        _ => return Ok(Nanos(nanos as u64)),
    };
    Err(TraceError::Value { place, column, value: value.to_string(), why })
}

/// `value` nanoseconds, at most [`LATEST`].
pub(crate) fn moment(value: i64, place: Place, column: &'static str) -> Result<Nanos, TraceError> {
    #[allow(clippy::cast_precision_loss)] // A limit.
    nanos(value as f64, 1.0, LATEST, place, column)?;
    count(value, place, column).map(Nanos)
}

/// A whole number that fits its field.
pub(crate) fn count<T: TryFrom<i64>>(
    value: i64,
    place: Place,
    column: &'static str,
) -> Result<T, TraceError> {
    T::try_from(value).map_err(|_| {
        let why = if value < 0 { "negative" } else { "too large" };
        TraceError::Value { place, column, value: value.to_string(), why }
    })
}
