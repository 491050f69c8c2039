//! Steps as they are predicted, against what was measured.

use papers::measured::Validated;
use question::Diagnostic;

use crate::plot::agreement::{self, Agreement, Pair};

/// Steps that differ by less are predicted well.
const BAND: f64 = 0.1;

/// Every step of `validated` whose unit is seconds, coloured by its set; what is set apart is left out.
///
/// # Errors
/// If no step was measured.
pub fn steps(validated: &Validated) -> Result<String, Diagnostic> {
    let mut series: Vec<String> = Vec::new();
    let mut points = Vec::new();
    for set in &validated.sets {
        let steps = set.rows.iter().filter(|row| row.is_time() && row.apart.is_none());
        let own: Vec<_> = steps.collect();
        if own.is_empty() {
            continue;
        }
        series.push(set.set.to_owned());
        points.extend(own.into_iter().map(|row| Pair {
            series: series.len() - 1,
            name: row.run.clone(),
            across: row.measured,
            up: row.predicted,
        }));
    }
    Ok(agreement::svg(&Agreement {
        title: "Steps of published runs, predicted against measured".to_owned(),
        x_label: "measured, s".to_owned(),
        y_label: "predicted, s".to_owned(),
        series,
        band: BAND,
        points,
    })?)
}
