//! Answers as pictures, one file for each question.

pub mod advise;
pub mod compare;
pub mod encoder;
pub mod explain;
pub mod failures;
pub mod fsdp;
pub mod plan;
pub mod reproduce;
pub mod rl;
pub mod search;
pub mod simulate;
pub mod sweep;
pub mod validate;

use std::fmt::Display;

use pipeline::Timeline;
use question::Diagnostic;

use crate::gantt::{self, Chart, Style};

/// `titled` timelines one below the other, on one time axis, a row for each stage.
fn stages(titled: &[(String, Timeline)], style: &Style<'_>) -> Result<String, Diagnostic> {
    let charts = titled.iter();
    let charts: Vec<_> = charts
        .map(|(title, timeline)| Chart { title, timeline, row: "stage", copies: &[], costs: None })
        .collect();
    Ok(gantt::svg_with(&charts, style)?)
}

/// A title for pictures of questions that have none: stages and microbatches, where all `shapes` have the same.
fn shape<M: PartialEq + Display>(shapes: impl IntoIterator<Item = (usize, M)>) -> Option<String> {
    let mut shapes: Vec<_> = shapes.into_iter().collect();
    shapes.dedup();
    match &shapes[..] {
        [(stages, microbatches)] => Some(format!("{stages} stages, {microbatches} microbatches")),
        _ => None,
    }
}
