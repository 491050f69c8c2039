//! A prediction above its measurement.

use answer::compare::Comparison;
use question::{Diagnostic, format};

use crate::Width;
use crate::gantt::Style;

/// The compared step of the prediction and that of the measurement, on one time axis, in a picture of that `width`.
pub fn timelines(comparison: &Comparison<'_>, width: Option<Width>) -> Result<String, Diagnostic> {
    let titles = [comparison.predicted, comparison.measured]
        .map(|one| format!("{}, {} on {}", one.name, one.source.name(), one.device));
    let figures = comparison
        .metrics
        .each_ref()
        .map(|metrics| format!("makespan {}", format::time(metrics.makespan())));
    let titled: Vec<_> = titles.into_iter().zip(comparison.timelines()).collect();
    let title = format!("Predicted above measured: off by {}", format::percent(comparison.error()));
    super::stages(
        &titled,
        &Style { title: Some(&title), figures: &figures, width, ..Style::default() },
    )
}
