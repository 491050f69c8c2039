//! Figure 9: bubble rate over the memory limit, for the heuristic on one chunk per stage and for
//! ZB-V, in the settings of table 8.

use std::path::{Path, PathBuf};

use pipeline::Limit;
use rayon::prelude::*;
use serde::Deserialize;
use sim::Replay;

use super::cell::{Cell, Check, Count};
use super::sources::Sources;
use super::{Reproduced, Table};
use question::Diagnostic;
use question::format;
use question::case;
use question::case::Rule;
use question::scenario::{Convention, Scenario};

/// How far ours may lie from the published figure of ten digits.
const TOLERANCE: f64 = 1e-9;
const FIGURES: &str = "fig9.csv";
pub(super) const METHODS: [&str; 2] = ["zb-heuristic", "zb-v"];

/// A line of the published figures.
#[derive(Deserialize)]
#[serde(rename_all = "kebab-case", deny_unknown_fields)]
struct Point {
    setting: String,
    memory_limit: String,
    zb_heuristic: String,
    zb_v: String,
}

pub(super) fn reproduce(sources: &Sources) -> Result<Reproduced, Diagnostic> {
    let scenario = sources.scenario("table8.toml")?;
    let (path, points) = points(sources)?;
    let cells = points
        .par_iter()
        .flat_map(|point| {
            let figures = [&point.zb_heuristic, &point.zb_v];
            METHODS.into_par_iter().zip(figures).map(move |pair| (point, pair))
        })
        .map(|(point, (method, figure))| cell(&scenario, &path, point, method, figure))
        .collect::<Result<Vec<_>, _>>()?;
    let title = "Figure 9: bubble rate over the memory limit".to_owned();
    let text = summary(&scenario, &cells);
    Ok(Reproduced { table: Table::Fig9, title, cells, text })
}

/// The published points, and the path to name in errors about them.
fn points(sources: &Sources) -> Result<(PathBuf, Vec<Point>), Diagnostic> {
    let (path, text) = sources.text(FIGURES)?;
    let mut reader = csv::Reader::from_reader(text.as_bytes());
    let unreadable = |error: csv::Error| error_in(&path, error.position(), &error.to_string());
    let points = reader.deserialize().collect::<Result<Vec<Point>, _>>().map_err(unreadable)?;
    Ok((path, points))
}

/// The memory limits of the figure, in order of appearance.
pub(super) fn limits(sources: &Sources) -> Result<Vec<Limit>, Diagnostic> {
    let (path, points) = points(sources)?;
    let mut limits: Vec<Limit> = Vec::new();
    for point in points {
        let limit = point.memory_limit.parse();
        let limit = limit.map_err(|error| error_in(&path, None, &format!("{error}")))?;
        if !limits.contains(&limit) {
            limits.push(limit);
        }
    }
    Ok(limits)
}

pub(super) fn error_in(path: &Path, position: Option<&csv::Position>, message: &str) -> Diagnostic {
    let line = position.map_or(String::new(), |position| format!(", line {}", position.line()));
    Diagnostic::new(format!("{}{line}: {message}", path.display()))
}

fn cell(
    scenario: &Scenario,
    path: &Path,
    point: &Point,
    method: &str,
    figure: &str,
) -> Result<Cell, Diagnostic> {
    let Point { setting: name, memory_limit, .. } = point;
    let wrong =
        |message: String| error_in(path, None, &format!("{name}, {memory_limit}: {message}"));
    let named = scenario.settings.iter().find(|setting| setting.name.as_ref() == Some(name));
    let Some(setting) = named else { return Err(wrong("table8.toml has no such setting".into())) };
    let limit: Limit = memory_limit.parse().map_err(|error| wrong(format!("{error}")))?;
    let published = figure.parse::<f64>().ok().filter(|figure| figure.is_finite());
    let published = published.ok_or_else(|| wrong(format!("`{figure}` is not a number")))?;
    let mut setting = setting.clone();
    setting.keys.memory_limit = Some(vec![limit]);
    let case = case::case(scenario, &setting, &Rule::named(method)?)?;
    let metrics = Replay::new().metrics(&case.schedule, case.problem.costs());
    let ours = metrics.map_err(|fault| wrong(fault.to_string()))?.bubble_rate();
    Ok(Cell {
        table: Table::Fig9.name(),
        row: format!("{name}, {limit}"),
        column: method.to_owned(),
        convention: Convention::Span.name(),
        published,
        regenerated: None,
        ours,
        check: Check::of((ours - published).abs() < TOLERANCE),
        corrected: None,
        digits: figure.split_once('.').map_or(0, |(_, decimals)| decimals.len()),
    })
}

/// The cells of one setting and method, in the order of the limits.
pub(super) fn series<'a>(cells: &'a [Cell], setting: &str, method: &str) -> Vec<(Limit, &'a Cell)> {
    let of_setting = cells.iter().filter(|cell| cell.column == method);
    let limit = |cell: &'a Cell| {
        let limit = cell.row.strip_prefix(setting)?.strip_prefix(", ")?;
        Some((limit.parse().ok()?, cell))
    };
    of_setting.filter_map(limit).collect()
}

/// The names of the settings, in order of appearance.
pub(super) fn settings(cells: &[Cell]) -> Vec<&str> {
    let mut settings: Vec<&str> = Vec::new();
    for cell in cells {
        let setting = cell.row.rsplit_once(", ").map_or(cell.row.as_str(), |(name, _)| name);
        if !settings.contains(&setting) {
            settings.push(setting);
        }
    }
    settings
}

/// One line per setting and method: a few of the points, and how many match.
fn summary(scenario: &Scenario, cells: &[Cell]) -> String {
    let shown: Vec<Limit> = [1, 2, 3].map(Limit::times_p).to_vec();
    let mut header = vec!["published = ours".to_owned(), "method".to_owned()];
    header.extend(shown.iter().map(Limit::to_string));
    header.push("match".to_owned());
    let names = scenario.settings.iter().filter_map(|setting| setting.name.as_deref());
    let rows = names.flat_map(|name| METHODS.map(|method| (name, method))).map(|(name, method)| {
        let points = series(cells, name, method);
        let mut row = vec![name.to_owned(), method.to_owned()];
        for limit in &shown {
            let point = points.iter().find(|(at, _)| at == limit);
            row.push(point.map_or(String::new(), |(_, cell)| {
                let sign = cell.check.sign();
                format!("{:.6} {sign} {:.6}", cell.published, cell.ours)
            }));
        }
        row.push(Count::of(points.iter().map(|(_, cell)| *cell)).to_string());
        row
    });
    let header: Vec<&str> = header.iter().map(String::as_str).collect();
    format::table(&header, rows)
}
