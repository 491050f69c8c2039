//! One function for each question: a typed question in, a typed answer out.

pub mod compare;
pub mod explain;
pub mod front;
pub mod fsdp;
pub mod hardware;
pub mod noise;
pub mod outcome;
pub mod plan;
pub mod replay;
pub mod schedules;
pub mod search;
pub mod simulate;
pub mod sweep;
pub mod timelines;
pub mod verify;

use question::Diagnostic;
use serde::Serialize;

/// `rows` as CSV, under the names of their fields.
///
/// # Errors
/// If memory runs out.
pub fn csv<Row: Serialize>(rows: impl IntoIterator<Item = Row>) -> Result<Vec<u8>, Diagnostic> {
    let mut writer = csv::Writer::from_writer(Vec::new());
    for row in rows {
        writer.serialize(row).map_err(|error| Diagnostic::new(error.to_string()))?;
    }
    writer.into_inner().map_err(|error| Diagnostic::new(error.to_string()))
}
