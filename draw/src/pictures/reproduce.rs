//! The tables as pictures.

use pipeline::Limit;

use super::cell::Cell;
use super::{Reproduced, Table, fig9};
use crate::plot::bars;
use crate::plot::bars::{Bar, BarChart, BarGroup};
use crate::plot::lines;
use crate::plot::lines::{Dot, LineChart, Panel};
use question::Diagnostic;

/// The picture of a table, if it is one that makes a picture.
pub fn of(reproduced: &Reproduced) -> Result<Option<String>, Diagnostic> {
    let Reproduced { table, title, cells, .. } = reproduced;
    if cells.is_empty() {
        return Ok(None);
    }
    Ok(match table {
        Table::Table2 | Table::Vocabulary | Table::Odc | Table::Controllable | Table::Offload => {
            None
        }
        Table::Fig9 => Some(lines::svg(&curves(title, cells))?),
        Table::Table5 | Table::Table8 | Table::Interleave => Some(bars::svg(&bars(title, cells))?),
    })
}

/// A group of bars per setting, the published rate as a tick over ours.
fn bars(title: &str, cells: &[Cell]) -> BarChart {
    let series = distinct(cells.iter().map(|cell| cell.column.as_str()));
    let groups = distinct(cells.iter().map(|cell| cell.row.as_str())).into_iter().map(|row| {
        let bar = |column: &String| {
            let cell = cells.iter().find(|cell| cell.row == row && cell.column == *column)?;
            Some(Bar { rate: cell.ours, tick: Some(cell.published) })
        };
        BarGroup { bars: series.iter().map(bar).collect(), label: row }
    });
    BarChart {
        title: title.to_owned(),
        y_label: "bubble rate".to_owned(),
        groups: groups.collect(),
        series,
        tick: "published".to_owned(),
    }
}

/// A panel per setting, a curve per method, the published rate as a dot at each point.
fn curves(title: &str, cells: &[Cell]) -> LineChart {
    let panel = |setting: &str| {
        let curve = |method: &str| {
            let points = fig9::series(cells, setting, method).into_iter();
            let dot = |(limit, cell): (Limit, &Cell)| Dot {
                beside: Some(cell.published),
                ..Dot::new(multiple(limit), cell.ours)
            };
            points.map(dot).collect()
        };
        Panel { title: setting.to_owned(), series: fig9::METHODS.map(curve).into() }
    };
    LineChart {
        title: title.to_owned(),
        x_label: "memory limit, in p M_B".to_owned(),
        y_label: "bubble rate".to_owned(),
        series: fig9::METHODS.map(str::to_owned).into(),
        beside: "published".to_owned(),
        columns: 3,
        same_scale: true,
        panels: fig9::settings(cells).into_iter().map(panel).collect(),
    }
}

/// A limit on the axis of multiples of p; a limit in bytes has no place there.
#[allow(clippy::cast_precision_loss)]
fn multiple(limit: Limit) -> f64 {
    match limit {
        Limit::TimesP { millionths } => millionths as f64 / 1e6,
        Limit::Bytes(_) => f64::NAN,
    }
}

/// Each name once, in order of appearance.
fn distinct<'a>(names: impl Iterator<Item = &'a str>) -> Vec<String> {
    let mut distinct: Vec<String> = Vec::new();
    for name in names {
        if !distinct.iter().any(|known| known == name) {
            distinct.push(name.to_owned());
        }
    }
    distinct
}
