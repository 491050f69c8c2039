//! Tables of bubble rates: schedules beside each other, one setting per row.

use cases::{Case, ScheduleSource};
use pipeline::{Metrics, Nanos};
use question::scenario::{Convention, Scenario, Setting};
use question::sheet::Sheet;
use question::{Context, Diagnostic};
use rayon::prelude::*;
use sim::Replay;

use super::cell::{self, Basis, Cell, Figure};
use super::check::{Check, Evidence};
use super::sources::Sources;
use super::table::{Contents, Table};

const PRINTED: Check = Check::Printed;

/// All cells of a table of bubble rates.
pub(super) fn cells(table: &Table, sources: &Sources<'_>) -> Result<Contents, Diagnostic> {
    let scenario = sources.scenario(table.settings())?;
    let cells = scenario
        .settings
        .par_iter()
        .map(|setting| cells_of(sources.context(), &scenario, setting))
        .collect::<Result<Vec<_>, _>>()?
        .concat();
    let title = table.title(&scenario);
    Contents::of(table, sources, title, cells, |cells| sheet(&scenario, cells))
}

fn cells_of(
    context: &Context<'_>,
    scenario: &Scenario,
    setting: &Setting,
) -> Result<Vec<Cell>, Diagnostic> {
    let rules = cases::rules(context, scenario, setting)?;
    let cells = rules.into_par_iter().map(|rule| cell(context, scenario, setting, &rule));
    Ok(cells.collect::<Result<Vec<_>, _>>()?.into_iter().flatten().collect())
}

/// The cell of one schedule, if a figure was published for it.
fn cell(
    context: &Context<'_>,
    scenario: &Scenario,
    setting: &Setting,
    rule: &ScheduleSource,
) -> Result<Option<Cell>, Diagnostic> {
    let column = rule.name();
    let Some(printed) = setting.published.get(column) else { return Ok(None) };
    let convention = scenario.convention.get(column).copied().unwrap_or(Convention::Span);
    let number = |key: &str, text: &str| {
        cell::figure(text).ok_or_else(|| {
            let message = format!("the {key} figure of {column}, `{text}`, is not a number");
            scenario.error(setting, Some(key), message)
        })
    };
    let published = number("published", printed)?;
    let digits = cell::decimals(printed);
    let regenerated = setting.regenerated.get(column);
    let regenerated = regenerated.map(|text| number("regenerated", text)).transpose()?;
    let (ours, corrected) = rates(&exact_case(context, scenario, setting, rule)?, convention)?;
    let row = setting.name.clone().unwrap_or_default();
    let basis = Basis::new(convention.name(), Evidence::Computed, PRINTED);
    let figure = Figure::new(row, column, basis, published);
    Ok(Some(figure.digits(digits).regenerated(regenerated).beside(ours).corrected(corrected)))
}

/// The case on a clock on which every chunk's share of the stage's times is whole.
fn exact_case(
    context: &Context<'_>,
    scenario: &Scenario,
    setting: &Setting,
    rule: &ScheduleSource,
) -> Result<Case, Diagnostic> {
    let mut setting = setting.clone();
    let chunks = setting.keys.chunks.unwrap_or(1);
    tick(&mut setting, chunks);
    cases::case(context, scenario, &setting, rule)
}

/// Puts `setting` on a clock that ticks `chunks` times as often. Rates do not depend on the clock.
pub(super) fn tick(setting: &mut Setting, chunks: u64) {
    let keys = &mut setting.keys;
    let times = [&mut keys.forward, &mut keys.backward_input, &mut keys.backward_weight];
    let times = times.into_iter().flatten().flatten().chain(keys.hop.iter_mut().flatten());
    for time in times {
        *time = Nanos(time.0.saturating_mul(chunks));
    }
}

/// The bubble rate under `convention`, and the true one where that omits something.
fn rates(case: &Case, convention: Convention) -> Result<(f64, Option<f64>), Diagnostic> {
    let costs = case.problem.costs();
    let metrics = Replay::new().metrics(&case.schedule, costs);
    let metrics: Metrics = metrics.map_err(|fault| Diagnostic::new(fault.to_string()))?;
    Ok(match convention {
        Convention::Span => (metrics.bubble_rate(), None),
        Convention::Makespan => (metrics.bubble_rate_makespan(), None),
        Convention::MakespanFirstWrap => {
            let omitted =
                costs.hops().longest().0.saturating_mul(case.schedule.shape().stages() as u64);
            let published = Nanos(metrics.makespan().0.saturating_sub(omitted));
            (metrics.bubble_rate_of(published), Some(metrics.bubble_rate_makespan()))
        }
    })
}

/// A column of the printed table.
struct Column<'a> {
    schedule: &'a str,
    /// Shows the corrected rate rather than published and ours.
    corrected: bool,
    convention: &'static str,
}

impl Column<'_> {
    fn header(&self) -> String {
        let corrected = if self.corrected { " corrected" } else { "" };
        format!("{}{corrected}", self.schedule)
    }

    /// `published = ours`, or `!` between them where they differ.
    fn show(&self, cell: &Cell) -> String {
        if self.corrected {
            return cell.corrected.map_or(String::new(), |rate| cell.print(rate));
        }
        cell.pair()
    }
}

/// The columns of `cells` in their order, each followed by its correction if there is one.
fn columns(cells: &[Cell]) -> Vec<Column<'_>> {
    let mut columns: Vec<Column<'_>> = Vec::new();
    for cell in cells {
        let schedule = cell.column.as_str();
        if columns.iter().any(|column| column.schedule == schedule) {
            continue;
        }
        columns.push(Column { schedule, corrected: false, convention: cell.convention });
        if cell.corrected.is_some() {
            let convention = Convention::Makespan.name();
            columns.push(Column { schedule, corrected: true, convention });
        }
    }
    columns
}

fn sheet(scenario: &Scenario, cells: &[Cell]) -> Sheet {
    let columns = columns(cells);
    let line = |first: &str, show: &dyn Fn(&Column<'_>) -> String| -> Vec<String> {
        std::iter::once(first.to_owned()).chain(columns.iter().map(show)).collect()
    };
    let header = line("published = ours", &|column| column.header());
    let conventions = line("measured on", &|column| column.convention.to_owned());
    let rows = scenario.settings.iter().map(|setting| {
        let name = setting.name.as_deref().unwrap_or_default();
        line(name, &|column| {
            let mut of_row = cells.iter().filter(|cell| cell.row == name);
            let cell = of_row.find(|cell| cell.column == column.schedule);
            cell.map_or(String::new(), |cell| column.show(cell))
        })
    });
    Sheet::table(header, std::iter::once(conventions).chain(rows))
}
