//! Predicted steps against measured ones.

use measured::{Row, Validated, unknown};
use question::Diagnostic;

use crate::Width;
use crate::plot::agreement::{self, Agreement, Apart, Pair};

/// Steps that differ by less are predicted well.
const BAND: f64 = 0.1;

/// Every step of `validated` in seconds, coloured by its set, rows that are set apart among them. Sets
/// that the model does not cover are in a panel of their own, all in a picture of that `width`.
pub fn steps(validated: &Validated, width: Option<Width>) -> Result<String, Diagnostic> {
    let mut series: Vec<String> = Vec::new();
    let mut points = Vec::new();
    let mut apart: Option<Apart> = None;
    for set in &validated.sets {
        let steps = set.rows.iter().filter(|row| row.is_time());
        let pair = |row: &Row| Pair {
            series: series.len(),
            name: row.run.clone(),
            across: row.measured,
            up: row.predicted,
        };
        let own: Vec<Pair> = steps.map(pair).collect();
        if own.is_empty() {
            continue;
        }
        if let Some(reason) = unknown(set.set) {
            let title = format!("{}, {} runs", set.set, own.len());
            let reason = reason.to_owned();
            apart.get_or_insert(Apart { title, reason, points: Vec::new() }).points.extend(own);
            continue;
        }
        series.push(set.set.to_owned());
        points.extend(own);
    }
    Ok(agreement::svg(&Agreement {
        title: "Steps of published runs, predicted against measured".to_owned(),
        x_label: "measured, s".to_owned(),
        y_label: "predicted, s".to_owned(),
        series,
        band: BAND,
        points,
        width,
        apart,
    })?)
}
