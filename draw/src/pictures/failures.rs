//! Steps with dead workers.

use answer::failures::{FailureRow, FailuresAnswer};
use question::Diagnostic;

use crate::Width;
use crate::plot::bars::{self, Bar, BarChart, BarGroup};

/// Bars of each schedule: its healthy step, the step with passes rerouted, its lower bound as a tick, and that with the
/// pipeline dropped, each over the shortest healthy step that fits; steps that break the memory limit have no bar.
#[allow(clippy::cast_precision_loss)]
pub fn steps(answer: &FailuresAnswer, width: Option<Width>) -> Result<String, Diagnostic> {
    let fitting = || answer.results.iter().filter(|row| row.healthy_fits != Some(false));
    let shortest = fitting().map(|row| row.healthy.step_ns).min().unwrap_or(1).max(1);
    let rate = |nanos: u64| nanos as f64 / shortest as f64;
    let group = |row: &FailureRow| {
        let setting = row.setting.iter().map(|name| format!("{name}: ")).collect::<String>();
        let rerouted = &row.rerouted;
        let tick = Some(rate(rerouted.bound_ns));
        BarGroup {
            label: format!("{setting}{} {}", row.schedule, row.backward),
            bars: vec![
                Some(Bar { rate: rate(row.healthy.step_ns), tick: None }),
                Some(Bar { rate: rate(rerouted.step.step_ns), tick }),
                row.dropped_that_fits().map(|one| Bar { rate: rate(one.step.step_ns), tick: None }),
            ],
        }
    };
    let chart = BarChart {
        title: "Steps with dead workers".to_owned(),
        x_label: "schedule and backward".to_owned(),
        y_label: "step, of the shortest healthy one".to_owned(),
        series: ["healthy", "passes rerouted", "pipeline dropped"].map(str::to_owned).to_vec(),
        tick: "lower bound of rerouted orders".to_owned(),
        note: String::new(),
        width,
        groups: fitting().map(group).collect(),
    };
    Ok(bars::svg(&chart)?)
}
