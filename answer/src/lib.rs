//! One function for each question: a typed question in, a typed answer out.
//!
//! | question | function | answer |
//! |---|---|---|
//! | schedules side by side | [`simulate::simulate`] | [`simulate::Answers`]: an [`outcome::Outcome`] each |
//! | a grid of questions | [`sweep::sweep`] | [`sweep::SweepAnswer`]: rows as CSV |
//! | the best order under a memory limit | [`search::search`] | [`search::SearchAnswer`] |
//! | set-ups of a model on machines | [`plan::plan`] | [`plan::Planned`] |
//! | what to change of a run | [`advise::advise`] | [`advise::Advice`] |
//! | packing for data-parallel training | [`fsdp::fsdp`] | [`fsdp::FsdpAnswer`] |
//! | dead workers of data-parallel pipelines | [`failures::failures`] | [`failures::FailuresAnswer`] |
//! | a step of reinforcement learning | [`rl::rl`] | [`rl::RlAnswer`] |
//! | an encoder in front of a language model | [`encoder::encoder`] | [`encoder::EncoderAnswer`] |
//! | a trace of a real run | [`replay::replay`] | [`replay::ReplayAnswer`] |
//! | prediction against measurement | [`timelines::read`], [`compare::Comparison::of`] | [`compare::Comparison`] |
//! | a trainer, recorded | [`profile::of`] | a [`TrainerProfile`](::profile::TrainerProfile) |
//! | a certificate | [`verify::verify`] | [`verify::VerifyAnswer`] |
//! | one schedule for other tools | [`export::export`] | [`cases::Case`] |
//! | all schedules | [`schedules::schedules`] | [`schedules::SchedulesAnswer`] |
//!
//! Nothing here opens a path, prints, reads a clock or ends the process: a [`question::Host`] lends
//! files, progress, a clock and a way to stop. Every answer is [`Serialize`]; warnings for the user are
//! in the [`question::Context`] afterwards.
//!
//! ```
//! use std::collections::BTreeMap;
//! use std::path::{Path, PathBuf};
//!
//! use answer::simulate::{Wants, simulate};
//! use question::{Context, keys::Keys, scenario::Scenario};
//!
//! // A host: files by name, in memory.
//! let text = "schedule = [\"1f1b\", \"zb-h1\"]\nstages = 4\nmicrobatches = 8\n\
//!             forward = \"1ms\"\nbackward-input = \"1ms\"\nbackward-weight = \"1ms\"\n";
//! let host = BTreeMap::from([(PathBuf::from("question.toml"), text.as_bytes().to_vec())]);
//! let context = Context::new(&host);
//! let scenario = Scenario::asked(&context, Some(Path::new("question.toml")), &Keys::default())?;
//!
//! let answers = simulate(&context, &scenario, Wants::default())?;
//! let bubbles: Vec<f64> = answers.outcomes.iter().map(|one| one.metrics.bubble_rate()).collect();
//! assert!(bubbles[1] < bubbles[0]); // Zero Bubble waits less than 1F1B.
//! # Ok::<(), question::Diagnostic>(())
//! ```

pub mod advise;
pub mod compare;
pub mod encoder;
pub mod explain;
pub mod export;
pub mod failures;
pub mod front;
pub mod fsdp;
mod gathered;
pub mod hardware;
mod headline;
pub mod noise;
pub mod outcome;
pub mod pairs;
pub mod parquet;
pub mod plan;
pub mod profile;
pub mod records;
pub mod replay;
pub mod rl;
pub mod schedules;
pub mod search;
pub mod simulate;
pub mod solution;
mod stream_utilisation;
mod streams;
pub mod sweep;
pub mod timelines;
pub mod verify;

use question::Diagnostic;
use question::sheet::Sheet;
use serde::Serialize;
use serde_json::Value;

/// The answer to a question of rows, in the forms that the command line, Python and the page give.
pub trait Tabular: Serialize {
    /// The rows as CSV, with the keys of the JSON as columns.
    fn csv(&self) -> Result<Vec<u8>, Diagnostic>;

    /// The tables for people.
    fn sheet(&self) -> Sheet;
}

/// `rows` as CSV, under the names of their fields.
pub fn csv<Row: Serialize>(rows: impl IntoIterator<Item = Row>) -> Result<Vec<u8>, Diagnostic> {
    let mut writer = csv::Writer::from_writer(Vec::new());
    for row in rows {
        writer.serialize(row).map_err(|error| Diagnostic::new(error.to_string()))?;
    }
    writer.into_inner().map_err(|error| Diagnostic::new(error.to_string()))
}

/// The figures of `rows` as CSV: each column with its place in the JSON of a row, the keys of objects with dots in
/// between. Items of a list are separated by blanks.
fn csv_of<Row: Serialize>(
    rows: impl IntoIterator<Item = Row>,
    columns: &[(&str, &str)],
) -> Result<Vec<u8>, Diagnostic> {
    let head = columns.iter().map(|(name, _)| (*name).to_owned()).collect();
    let mut lines: Vec<Vec<String>> = vec![head];
    for row in rows {
        let row = serde_json::to_value(row).map_err(|error| Diagnostic::new(error.to_string()))?;
        let cell = |(_, path): &(&str, &str)| {
            path.split('.').try_fold(&row, |at, key| at.get(key)).map_or_else(String::new, text_of)
        };
        lines.push(columns.iter().map(cell).collect());
    }
    csv(lines)
}

/// A JSON value in a cell of CSV.
fn text_of(value: &Value) -> String {
    match value {
        Value::Null => String::new(),
        Value::String(text) => text.clone(),
        Value::Array(all) => all.iter().map(text_of).collect::<Vec<_>>().join(" "),
        other => other.to_string(),
    }
}
