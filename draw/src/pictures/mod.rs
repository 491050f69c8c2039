//! Answers as pictures, one file for each question.

pub mod compare;
pub mod explain;
pub mod fsdp;
pub mod plan;
pub mod reproduce;
pub mod search;
pub mod simulate;
pub mod sweep;
pub mod validate;

use pipeline::Timeline;
use question::Diagnostic;

use crate::gantt::{self, Chart};

/// `titled` timelines one below the other, on one time axis, a row for each stage.
fn stages(titled: &[(String, Timeline)]) -> Result<String, Diagnostic> {
    let charts = titled.iter();
    let charts: Vec<_> = charts
        .map(|(title, timeline)| Chart { title, timeline, row: "stage", copies: &[], costs: None })
        .collect();
    Ok(gantt::svg(&charts)?)
}
