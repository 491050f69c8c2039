//! The range of a number in a machine's file.

/// Checks that `value`, that of `key`, is between two limits.
pub(super) fn within(
    key: &'static str,
    value: f64,
    least: f64,
    most: f64,
) -> Result<(), (&'static str, String)> {
    if value >= least && value <= most {
        return Ok(());
    }
    Err((key, format!("{key} is {value}: it must be from {least} to {most}")))
}
