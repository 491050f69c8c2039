//! Bounds on improvements over the published schedules: the best order that a search finds for each cell
//! of a table, its lower bound, and the gap between them.

use cases::{Aim, Search, Searched};
use pipeline::{Limit, Nanos, Placement};
use question::scenario::{Scenario, Setting};
use question::sheet::Sheet;
use question::{Context, Diagnostic, table};
use search::{Effort, Objective};
use serde::Serialize;
use sim::Replay;

use super::cell::unwritable;
use super::contender::Contender;
use super::sources::Sources;
use super::table::Table;

/// The searches of table 5. Their form is that of all lists of contenders.
#[allow(clippy::unnecessary_wraps)]
pub(super) fn zb_1p_and_zb_2p(_: &Sources<'_>) -> Result<Vec<Contender>, Diagnostic> {
    let [one, two] = [1, 2].map(Limit::times_p);
    Ok(vec![Contender::new("zb-1p", 1, one), Contender::new("zb-2p", 1, two)])
}

/// The search of table 8.
#[allow(clippy::unnecessary_wraps)]
pub(super) fn zb_v(_: &Sources<'_>) -> Result<Vec<Contender>, Diagnostic> {
    Ok(vec![Contender::new("zb-v", 2, Limit::times_p(1))])
}

/// A published bubble rate beside the best order found in the same memory and a lower bound. Rates are
/// of the longest span of a stage; 1 is 100 %.
#[derive(Clone, PartialEq, Debug, Serialize)]
pub struct SearchedCell {
    /// The setting.
    pub row: String,
    /// The published schedule whose memory the search may use.
    pub schedule: &'static str,
    /// That memory limit, as scenarios write it.
    pub memory_limit: String,
    /// The rate of the published schedule, if it can be made under the limit.
    pub published_rate: Option<f64>,
    /// The rate of the best order found.
    pub best_rate: f64,
    /// The lower bound on the rate of any order.
    pub bound_rate: f64,
    /// The span of the best order less the lower bound on spans, in nanoseconds; 0 if it is optimal.
    pub gap_ns: u64,
    /// The argument that proves the bound.
    pub argument: String,
}

/// A table whose cells were searched.
#[derive(Clone, PartialEq, Debug)]
pub struct Beyond {
    /// The name of the table.
    pub table: &'static str,
    /// Its cells: all of them, unless the search was stopped.
    pub cells: Vec<SearchedCell>,
}

impl Beyond {
    /// The cells as a person reads them, and how many orders are optimal.
    #[must_use]
    pub fn sheet(&self) -> Sheet {
        let optimal = self.cells.iter().filter(|cell| cell.gap_ns == 0).count();
        let all = self.cells.len();
        let six = |rate: f64| format!("{rate:.6}");
        let table = table!(
            cell = &self.cells,
            "setting" = cell.row,
            "schedule" = cell.schedule,
            "limit" = cell.memory_limit,
            "published" = cell.published_rate.map(six),
            "best" = six(cell.best_rate),
            "bound" = six(cell.bound_rate),
            "gap" = match cell.gap_ns {
                0 => "0".to_owned(),
                _ => six(cell.best_rate - cell.bound_rate),
            },
            "argument" = cell.argument,
        );
        table.and_text(format!("\n{optimal} of {all} are optimal: no order is better\n"))
    }

    /// The cells as CSV, one line each.
    pub fn csv(&self) -> Result<Vec<u8>, Diagnostic> {
        let mut writer = csv::Writer::from_writer(Vec::new());
        for cell in &self.cells {
            writer.serialize(cell).map_err(unwritable)?;
        }
        writer.into_inner().map_err(|error| unwritable(error.into_error().into()))
    }
}

/// Searches `contenders` for every setting of `table` with `times` the default effort. Once the host asks
/// to stop, no further cell is begun.
pub(super) fn beyond(
    table: &Table,
    contenders: &[Contender],
    sources: &Sources<'_>,
    times: u64,
) -> Result<Beyond, Diagnostic> {
    let scenario = sources.scenario(table.settings())?;
    let settings = scenario.settings.iter();
    let all: Vec<(&Setting, &Contender)> =
        settings.flat_map(|setting| contenders.iter().map(move |one| (setting, one))).collect();
    let context = sources.context();
    let work = context.host().begin(all.len() as u64, "cells");
    let mut cells = Vec::new();
    for (setting, contender) in all {
        if !cells.is_empty() && context.stopped() {
            break;
        }
        cells.push(cell(context, &scenario, setting, contender, times)?);
        work.inc(1);
    }
    Ok(Beyond { table: table.name, cells })
}

fn cell(
    context: &Context<'_>,
    scenario: &Scenario,
    setting: &Setting,
    contender: &Contender,
    times: u64,
) -> Result<SearchedCell, Diagnostic> {
    let setting = exact(setting, contender);
    let placement = if contender.chunks == 2 { Placement::Vee } else { Placement::Looped };
    let search = Search {
        placement: Some(placement),
        aim: Aim::Cost(Objective::Span),
        effort: Effort { times: Some(times), seed: 0 },
        known: &[],
        proved: None,
        solved: true,
        stop: &|| context.stopped(),
    };
    let Searched { case, found, .. } = cases::search(context, scenario, &setting, &search, |_| {})?;
    let metrics = Replay::new().metrics(&case.schedule, case.problem.costs());
    let metrics = metrics.map_err(|fault| Diagnostic::new(fault.to_string()))?;
    let rate = |cost: Nanos| metrics.bubble_rate_of(cost);
    let published = found.published.iter().find(|one| one.family.name() == contender.schedule);
    let of_limit = || found.published.iter().find(|one| one.family.name() == "zb-heuristic");
    let published = published.or_else(|| of_limit().filter(|_| contender.chunks == 1));
    Ok(SearchedCell {
        row: setting.name.clone().unwrap_or_default(),
        schedule: contender.schedule,
        memory_limit: contender.limit.to_string(),
        published_rate: published.map(|one| rate(one.cost)),
        best_rate: rate(found.cost),
        bound_rate: rate(found.bound.cost),
        gap_ns: (found.cost - found.bound.cost).0,
        argument: found.bound.argument.to_string(),
    })
}

/// The setting on a clock on which the share of every chunk is whole.
fn exact(setting: &Setting, contender: &Contender) -> Setting {
    let mut setting = setting.clone();
    super::rates::tick(&mut setting, contender.chunks);
    setting.keys.chunks = Some(contender.chunks);
    setting.keys.memory_limit = Some(vec![contender.limit]);
    setting
}
