//! The authors' profile of table 5: bubble rates of 1F1B, times of passes, and steps of at most as many
//! microbatches as stages by formula.

use std::collections::BTreeMap;

use cases::ScheduleSource;
use pipeline::{Metrics, Nanos};
use question::Diagnostic;
use question::scenario::{Scenario, Setting};
use question::sheet::Sheet;
use sim::Replay;

use super::super::cell::{self, Basis, Cell, Figure, whole};
use super::super::check::{Check, Evidence};
use super::super::picture::distinct;
use super::super::sources::Sources;

pub(in super::super) const PROFILE: &str = "table5.toml";

const FORMULA: Basis = Basis::new("formula", Evidence::ClosedForm, Check::Absolute(0.0));
/// Schedules without B and W apart, and with: the formula of the former is another.
const SCHEDULES: [&str; 4] = ["1f1b", "zb-h1", "zb-1p", "zb-2p"];

/// The published bubble rate of 1F1B in each setting.
pub(super) fn bubble_rates(sources: &Sources<'_>) -> Result<BTreeMap<String, f64>, Diagnostic> {
    let scenario = sources.scenario(PROFILE)?;
    let rate = |setting: &Setting| {
        let rate = cell::figure(setting.published.get("1f1b")?)?;
        Some((setting.name.clone()?, rate))
    };
    Ok(scenario.settings.iter().filter_map(rate).collect())
}

/// How long a step of `setting` takes along the order of `schedule`.
pub(super) fn metrics(
    sources: &Sources<'_>,
    scenario: &Scenario,
    setting: &Setting,
    schedule: &str,
) -> Result<Metrics, Diagnostic> {
    let source = ScheduleSource::named(sources.context(), schedule)?;
    let case = cases::case(sources.context(), scenario, setting, &source)?;
    let metrics = Replay::new().metrics(&case.schedule, case.problem.costs());
    metrics.map_err(|fault| scenario.error(setting, None, fault.to_string()))
}

/// For each model the lengths of steps of p/4, p/2 and p microbatches, without transfers.
pub(super) fn cells(sources: &Sources<'_>) -> Result<Vec<Cell>, Diagnostic> {
    let scenario = sources.scenario(PROFILE)?;
    let mut cells = Vec::new();
    let mut done = Vec::new();
    for setting in &scenario.settings {
        let name = setting.name.as_deref().unwrap_or_default();
        let model = name.split(" m=").next().unwrap_or_default();
        if done.contains(&model) {
            continue;
        }
        done.push(model);
        let Some(form) = Form::of(setting) else { continue };
        for microbatches in [form.stages.div_ceil(4), form.stages.div_ceil(2), form.stages] {
            let mut few = setting.clone();
            few.keys.microbatches = Some(microbatches);
            few.keys.hop = Some(vec![Nanos(0)]);
            for schedule in SCHEDULES {
                let ours = metrics(sources, &scenario, &few, schedule)?.makespan();
                let published = form.step(schedule == "1f1b", microbatches);
                let row = format!("{model} m={microbatches}: {schedule}");
                let figure =
                    Figure::new(row, "step of few microbatches, ns", FORMULA, whole(published));
                cells.push(figure.beside(whole(ours.0)));
            }
        }
    }
    Ok(cells)
}

/// The times of a stage, for the formulas of m <= p.
struct Form {
    stages: u64,
    forward: u64,
    backward: u64,
    weight: u64,
}

impl Form {
    fn of(setting: &Setting) -> Option<Self> {
        let keys = &setting.keys;
        let time = |times: &Option<Vec<Nanos>>| match times.as_deref() {
            Some([time]) => Some(time.0),
            _ => None,
        };
        Some(Self {
            stages: keys.stages?,
            forward: time(&keys.forward)?,
            backward: time(&keys.backward_input)?,
            weight: time(&keys.backward_weight)?,
        })
    }

    /// (m+p-1)(F+B+W) where backwards are whole, else (m+p-1)(F+B) + W.
    fn step(&self, is_whole: bool, microbatches: u64) -> u64 {
        let rounds = microbatches.saturating_add(self.stages).saturating_sub(1);
        let weights = if is_whole { rounds } else { 1 };
        let both = self.forward.saturating_add(self.backward);
        rounds.saturating_mul(both).saturating_add(weights.saturating_mul(self.weight))
    }
}

pub(super) fn sheet(cells: &[Cell]) -> Sheet {
    let of = |cell: &Cell| cell.row.split_once(": ").map(|(setting, _)| setting.to_owned());
    let settings: Vec<String> = cells.iter().filter_map(of).collect();
    let rows = distinct(settings.iter().map(String::as_str)).into_iter().map(|setting| {
        let own = cells.iter().filter(|cell| of(cell).as_ref() == Some(&setting));
        let pairs: Vec<String> = own.map(Cell::exact_pair).collect();
        std::iter::once(setting.clone()).chain(pairs).collect()
    });
    Sheet::table(std::iter::once("ns by formula = ours").chain(SCHEDULES), rows)
}
