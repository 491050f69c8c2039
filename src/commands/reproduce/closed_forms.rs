//! Table 2: bubble and peak memory of the hand-made schedules by formula, beside the simulation.

use pipeline::closed_form::Uniform;
use pipeline::{Bytes, Nanos};
use sim::{Replay, Wants};

use super::cell::{Cell, Check};
use super::sources::Sources;
use super::{Reproduced, Table};
use crate::error::Error;
use crate::format;
use crate::outcome::Outcome;
use crate::question::{self, Rule};
use crate::scenario::{Convention, Scenario, Setting};

pub(super) fn reproduce(sources: &Sources) -> Result<Reproduced, Error> {
    let scenario = sources.scenario("table2.toml")?;
    let mut cells = Vec::new();
    for setting in &scenario.settings {
        for rule in question::rules(&scenario, setting)? {
            cells.extend(cells_of(&scenario, setting, &rule)?);
        }
    }
    let title = scenario.title.clone().unwrap_or_else(|| Table::Table2.name().to_owned());
    let text = text(&scenario, &cells);
    Ok(Reproduced { table: Table::Table2, title, cells, text })
}

/// Bubble and peak memory of one schedule, as far as the setting lies in the formulas' domain.
fn cells_of(scenario: &Scenario, setting: &Setting, rule: &Rule) -> Result<Vec<Cell>, Error> {
    let case = question::case(scenario, setting, rule)?;
    let outcome = Outcome::of(case, Wants::default(), &mut Replay::new())?;
    let Some(formula) = Formula::of(&outcome) else { return Ok(Vec::new()) };
    let cost = match formula.convention {
        Convention::Span => outcome.metrics.span(),
        _ => outcome.metrics.makespan(),
    };
    let bubble = cost - outcome.metrics.work();
    let figures = [
        ("bubble ns", formula.convention.name(), formula.bubble.map(|bubble| bubble.0), bubble.0),
        ("peak bytes", "worst stage", formula.peak.map(|peak| peak.0), outcome.worst().1.0),
    ];
    let cell = |(what, convention, published, ours): (&str, _, Option<u64>, u64)| {
        let published = published?;
        Some(Cell {
            table: Table::Table2.name(),
            row: setting.name.clone().unwrap_or_default(),
            column: format!("{} {what}", rule.name()),
            convention,
            published: exact(published),
            regenerated: None,
            ours: exact(ours),
            check: Check::of(published == ours),
            corrected: None,
            digits: 0,
        })
    };
    Ok(figures.into_iter().filter_map(cell).collect())
}

/// A whole number for JSON; the table's are far below 2^53.
#[allow(clippy::cast_precision_loss)]
fn exact(number: u64) -> f64 {
    number as f64
}

/// What the formulas say about a case.
struct Formula {
    convention: Convention,
    bubble: Option<Nanos>,
    peak: Option<Bytes>,
}

impl Formula {
    fn of(outcome: &Outcome) -> Option<Self> {
        let case = &outcome.case;
        let (shape, costs) = (case.schedule.shape(), case.problem.costs());
        let chunks = u64::from(shape.chunks_per_stage());
        let [first, rest @ ..] = costs.chunks() else { return None };
        if rest.iter().any(|times| times != first) {
            return None;
        }
        let mut times = *first;
        for time in [&mut times.forward, &mut times.backward_input, &mut times.backward_weight] {
            *time = *time * chunks;
        }
        let (stages, microbatches) = (shape.stages() as u64, u64::from(shape.microbatches()));
        let uniform = Uniform { stages, microbatches, times, hop: costs.hop() };
        let unit = case.microbatch_bytes();
        let (convention, cost, peak) = match case.name.as_str() {
            "1f1b" => (Convention::Makespan, Some(uniform.one_f_one_b()), Some(unit * stages)),
            "1f1b-i" => (Convention::Makespan, uniform.interleaved(chunks), None),
            "zb-h1" => (Convention::Makespan, uniform.zb_h1(), Some(unit * stages)),
            "zb-h2" => (Convention::Span, uniform.zb_h2(), Some(unit * (2 * stages - 1))),
            _ => return None,
        };
        let peak = peak.filter(|_| microbatches >= 2 * stages);
        Some(Self { convention, bubble: cost.map(|cost| cost - uniform.work()), peak })
    }
}

fn text(scenario: &Scenario, cells: &[Cell]) -> String {
    let header = ["formula = ours", "schedule", "bubble", "measured on", "peak memory"];
    let names = scenario.settings.iter().filter_map(|setting| setting.name.as_deref());
    let schedules = ["1f1b", "1f1b-i", "zb-h1", "zb-h2"];
    let rows = names.flat_map(|name| schedules.map(|schedule| (name, schedule)));
    let rows = rows.map(|(name, schedule)| {
        let find = |what: &str| {
            let column = format!("{schedule} {what}");
            cells.iter().find(|cell| cell.row == name && cell.column == column)
        };
        let show = |what: &str, unit: &str| {
            find(what).map_or("-".to_owned(), |cell| {
                let sign = cell.check.sign();
                format!("{} {sign} {} {unit}", cell.published, cell.ours)
            })
        };
        let convention = find("bubble ns").map_or("-", |cell| cell.convention);
        vec![
            name.to_owned(),
            schedule.to_owned(),
            show("bubble ns", "ns"),
            convention.to_owned(),
            show("peak bytes", "B"),
        ]
    });
    format::table(&header, rows)
}
