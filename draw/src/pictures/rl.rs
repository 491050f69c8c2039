//! The phases of a step of reinforcement learning.

use answer::rl::{PhaseRow, RlAnswer};
use pipeline::Nanos;
use question::{Diagnostic, format};

use crate::Width;
use crate::plot::bars::{self, Bar, BarChart, BarGroup};

/// A bar per phase: its share of the step, in a picture of that `width`.
pub fn phases(answer: &RlAnswer, width: Option<Width>) -> Result<String, Diagnostic> {
    let group = |row: &PhaseRow| BarGroup {
        label: row.phase.to_owned(),
        bars: vec![Some(Bar { rate: row.share, tick: None })],
    };
    let chart = BarChart {
        title: format!("Phases of a step of {}", format::rounded_time(Nanos(answer.step_ns))),
        x_label: format!("{}, {} steps simulated", answer.placement, answer.steps),
        y_label: "share of the step".to_owned(),
        series: vec![answer.placement.to_owned()],
        tick: String::new(),
        note: String::new(),
        width,
        groups: answer.phases.iter().map(group).collect(),
    };
    Ok(bars::svg(&chart)?)
}
