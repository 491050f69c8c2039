//! The bubble over an axis: a line per schedule.

use std::io::Read;

use super::{Rows, check_panels, panels, place, title};
use crate::Width;
use crate::plot::lines;
use crate::plot::lines::{Dot, LineChart, LinePanel};
use question::Diagnostic;
use question::sweep::axis;
use question::sweep::axis::Axis;
use question::sweep::columns::column_of;
use question::sweep::grid::Grid;

/// The axis `key`, or the last one whose values are numbers of one unit.
fn horizontal<'a>(grid: &'a Grid, key: Option<&str>) -> Result<(&'a Axis, String), Diagnostic> {
    let unit = |axis: &'a Axis| {
        let (_, unit) = axis::number(&axis.label(0))?;
        let numbers = (0..axis.count()).map(|index| axis::number(&axis.label(index)));
        numbers.into_iter().all(|n| n.is_some_and(|n| n.1 == unit)).then_some((axis, unit))
    };
    let named = |axis: &&Axis| key.is_none_or(|key| key == axis.key);
    grid.axes.iter().rev().filter(named).find_map(unit).ok_or_else(|| {
        let message = match key {
            Some(key) => format!("--plot-over {key}: there is no such axis of numbers of one unit"),
            None => "--plot: no axis has numbers of one unit".to_owned(),
        };
        Diagnostic::new(message)
    })
}

/// Checks that a picture of `grid` over the axis `key` can be drawn.
pub(super) fn check(grid: &Grid, key: Option<&str>) -> Result<(), Diagnostic> {
    let (x, _) = horizontal(grid, key)?;
    check_panels("--plot", panels(grid, |axis| is_other(axis, x)))
}

/// `rows` as a picture of that `width`: a panel for each setting and value of the other axes.
pub(super) fn svg(
    grid: &Grid,
    mut rows: Rows<impl Read>,
    key: Option<&str>,
    width: Option<Width>,
) -> Result<String, Diagnostic> {
    let (x, unit) = horizontal(grid, key)?;
    let (mut series, mut panels) = (Vec::<String>::new(), Vec::<LinePanel>::new());
    while rows.next()? {
        let title = rows.panel(grid, |axis| is_other(axis, x));
        let new = || LinePanel { title: title.clone(), series: Vec::new() };
        let panel = place(&mut panels, |panel| panel.title == title, new);
        let schedule = rows.field("schedule");
        let line = place(&mut series, |name| name == schedule, || schedule.to_owned());
        let lines = &mut panels[panel].series;
        lines.resize(lines.len().max(line + 1), Vec::new());
        let at = axis::number(rows.field(&column_of(x)));
        if let (Some((at, _)), Some(rate)) = (at, rows.number("bubble_rate")) {
            let fits = rows.fits() != Some(false);
            lines[line].push(Dot { fits, ..Dot::new(at, rate) });
        }
    }
    for points in panels.iter_mut().flat_map(|panel| &mut panel.series) {
        points.sort_by(|a, b| a.x.total_cmp(&b.x));
    }
    let unit = if unit.is_empty() { unit } else { format!(", in {unit}") };
    Ok(lines::svg(&LineChart {
        title: title(grid, "bubble rate"),
        x_label: format!("{}{unit}", x.key),
        y_label: "bubble rate".to_owned(),
        series,
        beside: String::new(),
        columns: 3,
        same_scale: true,
        width,
        panels,
    })?)
}

/// Whether `axis` has a panel for each of its values where `x` is the horizontal axis.
fn is_other(axis: &Axis, x: &Axis) -> bool {
    axis.key != x.key && axis.key != "schedule"
}
