//! Figure 9: bubble rate over the memory limit, for the heuristic on one chunk per stage and for
//! ZB-V, in the settings of table 8.

use std::path::Path;

use cases::ScheduleSource;
use pipeline::Limit;
use question::scenario::{Convention, Scenario};
use question::sheet::Sheet;
use question::{Context, Diagnostic};
use rayon::prelude::*;
use serde::Deserialize;
use sim::Replay;

use super::cell::{self, Basis, Cell, Figure};
use super::check::{Check, Evidence};
use super::contender::Contender;
use super::picture::{Grid, Pair, Panel, Picture, Point, distinct};
use super::sources::{Sources, error_in};
use super::table::{Contents, Table};
use super::totals::Count;

const BASIS: Basis = Basis::new(Convention::Span.name(), Evidence::Computed, Check::Absolute(1e-9));
/// The file of its settings, those of table 8.
pub(super) const SETTINGS: &str = "table8.toml";
pub(super) const FIGURES: &str = "fig9.csv";
/// The schedules in the order of the columns of its figures.
const METHODS: [&str; 2] = ["zb-heuristic", "zb-v"];

/// A line of the published figures.
#[derive(Deserialize)]
#[serde(rename_all = "kebab-case", deny_unknown_fields)]
struct Line {
    setting: String,
    memory_limit: String,
    zb_heuristic: String,
    zb_v: String,
}

/// All cells: two at each memory limit of each setting.
pub(super) fn cells(table: &Table, sources: &Sources<'_>) -> Result<Contents, Diagnostic> {
    let scenario = sources.scenario(SETTINGS)?;
    let (path, lines) = sources.records::<Line>(FIGURES)?;
    let cells = lines
        .par_iter()
        .flat_map(|line| {
            let figures = [&line.zb_heuristic, &line.zb_v];
            METHODS.into_par_iter().zip(figures).map(move |pair| (line, pair))
        })
        .map(|(line, (method, figure))| {
            cell(sources.context(), &scenario, &path, line, method, figure)
        })
        .collect::<Result<Vec<_>, _>>()?;
    let title = "Figure 9: bubble rate over the memory limit";
    Contents::of(table, sources, title, cells, |cells| summary(&scenario, cells))
}

/// Both methods at each memory limit of the figure, in order of appearance.
pub(super) fn contenders(sources: &Sources<'_>) -> Result<Vec<Contender>, Diagnostic> {
    let (path, lines) = sources.records::<Line>(FIGURES)?;
    let mut limits: Vec<Limit> = Vec::new();
    for line in lines {
        let limit = line.memory_limit.parse();
        let limit = limit.map_err(|error| error_in(&path, None, &format!("{error}")))?;
        if !limits.contains(&limit) {
            limits.push(limit);
        }
    }
    let [one, two] = METHODS;
    let both = |limit| [Contender::new(one, 1, limit), Contender::new(two, 2, limit)];
    Ok(limits.into_iter().flat_map(both).collect())
}

fn cell(
    context: &Context<'_>,
    scenario: &Scenario,
    path: &Path,
    line: &Line,
    method: &str,
    figure: &str,
) -> Result<Cell, Diagnostic> {
    let Line { setting: name, memory_limit, .. } = line;
    let wrong =
        |message: String| error_in(path, None, &format!("{name}, {memory_limit}: {message}"));
    let named = scenario.settings.iter().find(|setting| setting.name.as_ref() == Some(name));
    let Some(setting) = named else { return Err(wrong("table8.toml has no such setting".into())) };
    let limit: Limit = memory_limit.parse().map_err(|error| wrong(format!("{error}")))?;
    let published = cell::figure(figure);
    let published = published.ok_or_else(|| wrong(format!("`{figure}` is not a number")))?;
    let mut setting = setting.clone();
    setting.keys.memory_limit = Some(vec![limit]);
    let case = cases::case(context, scenario, &setting, &ScheduleSource::named(context, method)?)?;
    let metrics = Replay::new().metrics(&case.schedule, case.problem.costs());
    let ours = metrics.map_err(|fault| wrong(fault.to_string()))?.bubble_rate();
    let row = format!("{name}, {limit}");
    let printed = Figure::new(row, method, BASIS, published).digits(cell::decimals(figure));
    Ok(printed.beside(ours))
}

/// The cells of one setting and method, in the order of the limits.
fn series<'a>(cells: &'a [Cell], setting: &str, method: &str) -> Vec<(Limit, &'a Cell)> {
    let of_setting = cells.iter().filter(|cell| cell.column == method);
    let limit = |cell: &'a Cell| {
        let limit = cell.row.strip_prefix(setting)?.strip_prefix(", ")?;
        Some((limit.parse().ok()?, cell))
    };
    of_setting.filter_map(limit).collect()
}

/// The name of the setting that `cell` is of.
fn setting(cell: &Cell) -> &str {
    cell.row.rsplit_once(", ").map_or(&cell.row, |(name, _)| name)
}

/// A panel per setting, and in it a curve per method over the memory limit.
pub(super) fn curves(title: &str, cells: &[Cell]) -> Picture {
    let panel = |setting: String| {
        let curve = |method| {
            let points = series(cells, &setting, method).into_iter();
            points
                .map(|(limit, cell)| Point { x: multiple(limit), rates: Pair::of(cell) })
                .collect()
        };
        Panel { series: METHODS.map(curve).into(), title: setting }
    };
    Picture::Lines(Grid {
        title: title.to_owned(),
        x_label:
            "memory limit, in p M_B (p stages, m microbatches; M_B: activations of one microbatch on one stage)"
                .to_owned(),
        y_label: "bubble rate".to_owned(),
        series: METHODS.map(str::to_owned).into(),
        panels: distinct(cells.iter().map(setting)).into_iter().map(panel).collect(),
    })
}

/// A limit on the axis of multiples of p; a limit in bytes has no place there.
#[allow(clippy::cast_precision_loss)]
fn multiple(limit: Limit) -> f64 {
    match limit {
        Limit::TimesP { millionths } => millionths as f64 / 1e6,
        Limit::Bytes(_) => f64::NAN,
    }
}

/// One line per setting and method: a few of the points, and how many match.
fn summary(scenario: &Scenario, cells: &[Cell]) -> Sheet {
    let shown: Vec<Limit> = [1, 2, 3].map(Limit::times_p).to_vec();
    let header = ["published = ours", "method"].map(str::to_owned).into_iter();
    let header = header.chain(shown.iter().map(Limit::to_string)).chain(["match".to_owned()]);
    let names = scenario.settings.iter().filter_map(|setting| setting.name.as_deref());
    let rows = names.flat_map(|name| METHODS.map(|method| (name, method))).map(|(name, method)| {
        let points = series(cells, name, method);
        let mut row = vec![name.to_owned(), method.to_owned()];
        for limit in &shown {
            let point = points.iter().find(|(at, _)| at == limit);
            row.push(point.map_or(String::new(), |(_, cell)| {
                let sign = cell.verdict().sign();
                format!("{:.6} {sign} {:.6}", cell.published, cell.ours)
            }));
        }
        row.push(Count::of(points.iter().map(|(_, cell)| *cell)).to_string());
        row
    });
    Sheet::table(header, rows)
}
