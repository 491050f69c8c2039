//! What no published schedule reaches: the best order that is found for each cell of a table, what
//! no order undercuts, and how far they lie apart.

use pipeline::{Limit, Nanos, Placement};
use search::{Effort, Objective};
use serde::Serialize;
use sim::Replay;

use super::sources::Sources;
use super::{Table, fig9};
use question::Diagnostic;
use question::format;
use crate::interrupt;
use crate::progress;
use question::case;
use question::case::{Search, Searched};
use question::scenario::{Scenario, Setting};

/// A cell that is searched.
struct Asked<'a> {
    setting: &'a Setting,
    /// The published schedule whose memory it may use.
    schedule: &'static str,
    chunks: u64,
    limit: Limit,
}

/// A cell beside the best that is found for it.
#[derive(Serialize)]
pub(super) struct Cell {
    row: String,
    schedule: &'static str,
    memory_limit: String,
    published_rate: Option<f64>,
    best_rate: f64,
    bound_rate: f64,
    gap_ns: u64,
    argument: String,
}

/// A table with all its cells.
pub(super) struct Beyond {
    pub(super) table: Table,
    pub(super) cells: Vec<Cell>,
}

/// The tables whose cells can be searched.
pub(super) const TABLES: [Table; 3] = [Table::Table5, Table::Table8, Table::Fig9];

/// Searches every cell of `table` with `times` the default effort; after a Ctrl-C no more.
pub(super) fn beyond(table: Table, sources: &Sources, times: u64) -> Result<Beyond, Diagnostic> {
    let name = if table == Table::Table5 { "table5.toml" } else { "table8.toml" };
    let scenario = sources.scenario(name)?;
    let limits = match table {
        Table::Fig9 => fig9::limits(sources)?,
        _ => Vec::new(),
    };
    let mut asked = Vec::new();
    for setting in &scenario.settings {
        asked.extend(asked_of(table, setting, &limits));
    }
    let bar = progress::bar(asked.len(), "cells");
    let mut cells = Vec::new();
    for asked in &asked {
        if !cells.is_empty() && interrupt::asked() {
            break;
        }
        cells.push(cell(&scenario, asked, times)?);
        bar.inc(1);
    }
    bar.finish_and_clear();
    Ok(Beyond { table, cells })
}

/// What is searched for a setting of `table`.
fn asked_of<'a>(table: Table, setting: &'a Setting, limits: &[Limit]) -> Vec<Asked<'a>> {
    let ask = |schedule, chunks, limit| Asked { setting, schedule, chunks, limit };
    match table {
        Table::Table5 => {
            let [one, two] = [1, 2].map(Limit::times_p);
            vec![ask("zb-1p", 1, one), ask("zb-2p", 1, two)]
        }
        Table::Table8 => vec![ask("zb-v", 2, Limit::times_p(1))],
        _ => {
            let each = |&limit: &Limit| {
                let [one, two] = fig9::METHODS;
                [ask(one, 1, limit), ask(two, 2, limit)]
            };
            limits.iter().flat_map(each).collect()
        }
    }
}

fn cell(scenario: &Scenario, asked: &Asked<'_>, times: u64) -> Result<Cell, Diagnostic> {
    let setting = exact(asked);
    let placement = if asked.chunks == 2 { Placement::Vee } else { Placement::Looped };
    let search = Search {
        placement: Some(placement),
        objective: Objective::Span,
        effort: Effort { times: Some(times), seed: 0 },
        stop: &interrupt::asked,
    };
    let Searched { case, found, .. } = case::search(scenario, &setting, &search, |_| {})?;
    let metrics = Replay::new().metrics(&case.schedule, case.problem.costs());
    let metrics = metrics.map_err(|fault| Diagnostic::new(fault.to_string()))?;
    let rate = |cost: Nanos| metrics.bubble_rate_of(cost);
    let published = found.published.iter().find(|one| one.family.name() == asked.schedule);
    let of_limit = || found.published.iter().find(|one| one.family.name() == "zb-heuristic");
    let published = published.or_else(|| of_limit().filter(|_| asked.chunks == 1));
    Ok(Cell {
        row: setting.name.clone().unwrap_or_default(),
        schedule: asked.schedule,
        memory_limit: asked.limit.to_string(),
        published_rate: published.map(|one| rate(one.cost)),
        best_rate: rate(found.cost),
        bound_rate: rate(found.bound.cost),
        gap_ns: (found.cost - found.bound.cost).0,
        argument: found.bound.argument.to_string(),
    })
}

/// The setting on a clock on which the share of every chunk is whole.
fn exact(asked: &Asked<'_>) -> Setting {
    let mut setting = asked.setting.clone();
    super::rates::tick(&mut setting, asked.chunks);
    setting.keys.chunks = Some(asked.chunks);
    setting.keys.memory_limit = Some(vec![asked.limit]);
    setting
}

/// One line per cell.
pub(super) fn text(cells: &[Cell]) -> String {
    let header = ["setting", "schedule", "limit", "published", "best", "bound", "gap", "argument"];
    let rows = cells.iter().map(|cell| {
        let six = |rate: f64| format!("{rate:.6}");
        vec![
            cell.row.clone(),
            cell.schedule.to_owned(),
            cell.memory_limit.clone(),
            cell.published_rate.map_or("-".to_owned(), six),
            six(cell.best_rate),
            six(cell.bound_rate),
            match cell.gap_ns {
                0 => "0".to_owned(),
                _ => six(cell.best_rate - cell.bound_rate),
            },
            cell.argument.clone(),
        ]
    });
    let optimal = cells.iter().filter(|cell| cell.gap_ns == 0).count();
    let table = format::table(&header, rows);
    format!("{table}\n{optimal} of {} are optimal: no order is better\n", cells.len())
}

/// The cells as CSV, one line each.
pub(super) fn csv(cells: &[Cell]) -> Result<Vec<u8>, Diagnostic> {
    let mut writer = csv::Writer::from_writer(Vec::new());
    for cell in cells {
        writer.serialize(cell).map_err(|error| Error::Output(error.into()))?;
    }
    writer.into_inner().map_err(|error| Error::Output(error.into_error()))
}
