//! The gains of changes of a run.

use answer::advise::{Advice, Change};
use question::Diagnostic;

use crate::Width;
use crate::plot::bars::{self, Bar, BarChart, BarGroup};

/// A bar per change: the share of a step that it saves, with the error of 95 % of published pairs of such set-ups.
pub fn svg(advice: &Advice, width: Option<Width>) -> Result<String, Diagnostic> {
    let group = |change: &Change| BarGroup {
        label: format!("{}: {}", change.area.name(), change.name),
        bars: vec![Some(Bar { rate: change.gain, tick: Some(change.error) })],
    };
    let chart = BarChart {
        title: format!(
            "{}: gains of changes without other hardware",
            advice.current.question.title
        ),
        x_label: "change".to_owned(),
        y_label: "share of the step that is saved".to_owned(),
        series: vec!["predicted gain".to_owned()],
        tick: "error of 95 % of published pairs of set-ups".to_owned(),
        note: String::new(),
        width,
        groups: advice.changes.iter().map(group).collect(),
    };
    Ok(bars::svg(&chart)?)
}
