//! The rows of a sweep: one question, its answer, as a line of CSV.

use sim::Replay;

use super::axis::Axis;
use super::grid::{Grid, Question};
use crate::error::Error;
use crate::outcome::Outcome;
use crate::question;

/// Columns before the axes.
const BEFORE: [&str; 2] = ["index", "setting"];
/// Columns behind the axes.
const BEHIND: [&str; 15] = [
    "schedule",
    "stages",
    "microbatches",
    "chunks",
    "bubble_rate",
    "bubble_rate_makespan",
    "span_ns",
    "makespan_ns",
    "work_ns",
    "peak_stage",
    "peak_activation_bytes",
    "peak_microbatches",
    "peak_in_flight",
    "fits",
    "error",
];

/// The name of the column of `axis`; `None` where another column says the same.
fn column(axis: &Axis) -> Option<String> {
    match &axis.key[..] {
        "schedule" | "stages" | "microbatches" => None,
        // What a schedule with chunks of its own makes of it stands under `chunks`.
        "chunks" => Some("chunks_asked".to_owned()),
        key => Some(key.to_owned()),
    }
}

/// The column with the values of `axis`.
pub fn column_of(axis: &Axis) -> String {
    column(axis).unwrap_or_else(|| axis.key.clone())
}

/// The line of column names.
pub fn header(grid: &Grid) -> Vec<u8> {
    let axes = grid.axes.iter().filter_map(column);
    let before = BEFORE.map(str::to_owned).into_iter();
    line(before.chain(axes).chain(BEHIND.map(str::to_owned)))
}

/// The row of question number `index`.
pub fn answer(grid: &Grid, index: u64, replay: &mut Replay) -> Vec<u8> {
    let mut fields = vec![index.to_string()];
    let question = match grid.question(index) {
        Ok(question) => question,
        Err(error) => {
            let empty = grid.axes.iter().filter_map(column).count() + BEHIND.len();
            fields.resize(1 + empty, String::new());
            fields.push(error.to_string());
            return line(fields);
        }
    };
    fields.push(question.setting.name.clone().unwrap_or_default());
    let labels = grid.axes.iter().zip(grid.labels(&question.places));
    fields.extend(labels.filter(|(axis, _)| column(axis).is_some()).map(|(_, l)| l.into_owned()));
    let case = question::case(&grid.scenario, &question.setting, question.rule);
    match case.and_then(|case| Outcome::of(case, replay)) {
        Ok(outcome) => fields.extend(result(&outcome)),
        Err(error) => fields.extend(failure(&question, &error)),
    }
    line(fields)
}

fn result(outcome: &Outcome) -> [String; BEHIND.len()] {
    let (metrics, shape) = (&outcome.metrics, outcome.case.schedule.shape());
    let (stage, peak) = outcome.worst();
    let bytes = outcome.case.has_footprints.then(|| peak.0.to_string());
    let in_flight = outcome.in_flight.iter().max().copied().unwrap_or(0);
    [
        outcome.case.name.clone(),
        shape.stages().to_string(),
        shape.microbatches().to_string(),
        shape.chunks_per_stage().to_string(),
        metrics.bubble_rate().to_string(),
        metrics.bubble_rate_makespan().to_string(),
        metrics.span().0.to_string(),
        metrics.makespan().0.to_string(),
        metrics.work().0.to_string(),
        stage.to_string(),
        bytes.unwrap_or_default(),
        outcome.in_microbatches(peak).to_string(),
        in_flight.to_string(),
        outcome.fits().map_or_else(String::new, |fits| fits.to_string()),
        String::new(),
    ]
}

/// What was asked, and why there is no answer.
fn failure(question: &Question<'_>, error: &Error) -> [String; BEHIND.len()] {
    let keys = &question.setting.keys;
    let asked = [keys.stages, keys.microbatches, keys.chunks];
    let [stages, microbatches, chunks] =
        asked.map(|n| n.map_or_else(String::new, |n| n.to_string()));
    let mut fields: [String; BEHIND.len()] = Default::default();
    fields[0] = question.rule.name().to_owned();
    (fields[1], fields[2], fields[3]) = (stages, microbatches, chunks);
    // One line per row, whatever the message.
    fields[BEHIND.len() - 1] = error.to_string().replace(['\n', '\r'], " ");
    fields
}

fn line(fields: impl IntoIterator<Item = String>) -> Vec<u8> {
    let mut line = Vec::new();
    for field in fields {
        if !line.is_empty() {
            line.push(b',');
        }
        match field.contains([',', '"', '\n', '\r']) {
            true => {
                let field = field.replace('"', "\"\"");
                line.extend(format!("\"{field}\"").bytes());
            }
            false => line.extend(field.bytes()),
        }
    }
    line.push(b'\n');
    line
}
