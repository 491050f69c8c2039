//! A prediction above its measurement.

use answer::compare::Comparison;
use question::Diagnostic;

use crate::gantt::Style;

/// The compared step of the prediction and that of the measurement, on one time axis.
///
/// # Errors
/// If no pass takes any time.
pub fn timelines(comparison: &Comparison<'_>) -> Result<String, Diagnostic> {
    let titles = [comparison.predicted, comparison.measured]
        .map(|one| format!("{}, {} on {}", one.name, one.source.name(), one.device));
    let titled: Vec<_> = titles.into_iter().zip(comparison.timelines()).collect();
    super::stages(&titled, &Style::default())
}
