//! The rows of a sweep as a picture: the bubble over an axis, a line per schedule.

use std::path::Path;

use csv::StringRecord;

use crate::draw::plot::heat::{self, HeatMap};
use crate::draw::plot::lines::{self, LineChart, Panel};
use crate::error::Error;
use crate::sweep::axis::{self, Axis};
use crate::sweep::grid::Grid;
use crate::sweep::row;

/// The most panels and points of a picture: more cannot be read.
const MOST: (usize, u64) = (36, 100_000);

/// The axis `key`, or the last one whose values are numbers of one unit.
fn horizontal<'a>(grid: &'a Grid, key: Option<&str>) -> Result<(&'a Axis, String), Error> {
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
        Error::question(message)
    })
}

/// Checks that a picture of `grid` over the axis `key` can be drawn.
pub(super) fn check(grid: &Grid, key: Option<&str>) -> Result<(), Error> {
    if grid.questions > MOST.1 {
        return Err(Error::question(format!("--plot: more than {} points", MOST.1)));
    }
    horizontal(grid, key).map(|_| ())
}

/// The rows in `file` as a picture: a panel for each setting and value of the other axes.
pub(super) fn svg(grid: &Grid, file: &Path, key: Option<&str>) -> Result<String, Error> {
    let (x, unit) = horizontal(grid, key)?;
    let unreadable =
        |error: csv::Error| Error::Read { path: file.to_owned(), cause: error.to_string() };
    let mut reader = csv::Reader::from_path(file).map_err(unreadable)?;
    let names = reader.headers().map_err(unreadable)?.clone();
    let column = |name: &str| names.iter().position(|one| one == name).unwrap_or(usize::MAX);
    let field = |row: &StringRecord, name: &str| row.get(column(name)).unwrap_or("").to_owned();
    let (mut series, mut panels) = (Vec::<String>::new(), Vec::<Panel>::new());
    for row in reader.records() {
        let row = row.map_err(unreadable)?;
        let others = grid.axes.iter().filter(|a| a.key != x.key && a.key != "schedule");
        let others =
            others.map(|axis| format!("{}={}", axis.key, field(&row, &row::column_of(axis))));
        let setting = Some(field(&row, "setting")).filter(|name| !name.is_empty());
        let title = setting.into_iter().chain(others).collect::<Vec<_>>().join(", ");
        let panel = place(
            &mut panels,
            |panel| panel.title == title,
            || Panel { title: title.clone(), series: Vec::new() },
        );
        let schedule = field(&row, "schedule");
        let line = place(&mut series, |name| *name == schedule, || schedule.clone());
        let lines = &mut panels[panel].series;
        lines.resize(lines.len().max(line + 1), Vec::new());
        let at = axis::number(&field(&row, &row::column_of(x)));
        if let (Some((at, _)), Ok(rate)) = (at, field(&row, "bubble_rate").parse()) {
            lines[line].push((at, rate));
        }
        if panels.len() > MOST.0 {
            let message = format!(
                "--plot: more than {} panels, one for each setting and value of the other axes",
                MOST.0
            );
            return Err(Error::question(message));
        }
    }
    for points in panels.iter_mut().flat_map(|panel| &mut panel.series) {
        points.sort_by(|a, b| a.0.total_cmp(&b.0));
    }
    let unit = if unit.is_empty() { unit } else { format!(", in {unit}") };
    Ok(lines::svg(&LineChart {
        title: grid.scenario.title.clone().unwrap_or_else(|| "Sweep: bubble rate".to_owned()),
        x_label: format!("{}{unit}", x.key),
        y_label: "bubble rate".to_owned(),
        series,
        columns: 3,
        same_scale: true,
        panels,
    })?)
}

/// Where what is `wanted` stands among `all`, after adding it if need be.
fn place<T>(all: &mut Vec<T>, wanted: impl Fn(&T) -> bool, new: impl FnOnce() -> T) -> usize {
    all.iter().position(wanted).unwrap_or_else(|| {
        all.push(new());
        all.len() - 1
    })
}

/// The two axes of a heat map.
fn map_axes<'a>(grid: &'a Grid, keys: &[String]) -> Result<[&'a Axis; 2], Error> {
    let named = |key: &String| grid.axes.iter().find(|axis| axis.key == *key);
    let found: Vec<&Axis> = keys.iter().filter_map(named).collect();
    match found[..] {
        [x, y] if keys.len() == 2 && x.key != y.key && x.count().max(y.count()) <= 100 => {
            Ok([x, y])
        }
        _ => Err(Error::question(
            "--plot-map takes two axes of at most 100 values, as in stages,hop",
        )),
    }
}

/// Checks that a heat map of `grid` over the axes `keys` can be drawn.
pub(super) fn check_map(grid: &Grid, keys: &[String]) -> Result<(), Error> {
    if grid.questions > MOST.1 {
        return Err(Error::question(format!("--plot: more than {} points", MOST.1)));
    }
    map_axes(grid, keys).map(|_| ())
}

/// The rows in `file` as heat maps: one for each schedule, setting and value of the other axes.
pub(super) fn map(grid: &Grid, file: &Path, keys: &[String]) -> Result<String, Error> {
    let axes = map_axes(grid, keys)?;
    let unreadable =
        |error: csv::Error| Error::Read { path: file.to_owned(), cause: error.to_string() };
    let mut reader = csv::Reader::from_path(file).map_err(unreadable)?;
    let names = reader.headers().map_err(unreadable)?.clone();
    let rate = names.iter().position(|name| name == "bubble_rate").unwrap_or(usize::MAX);
    let labels = |axis: &Axis| (0..axis.count()).map(|i| axis.label(i).into_owned()).collect();
    let [x, y]: [Vec<String>; 2] = axes.map(labels);
    let mut panels = Vec::<(String, Vec<Vec<Option<f64>>>)>::new();
    for (index, row) in (0..).zip(reader.records()) {
        let row = row.map_err(unreadable)?;
        let question = grid.question(index)?;
        let mut at = [0, 0];
        let mut title: Vec<String> = vec![question.rule.name().to_owned()];
        title.extend(question.setting.name.clone());
        for (axis, &place) in grid.axes.iter().zip(&question.places) {
            match axes.iter().position(|one| one.key == axis.key) {
                Some(one) => at[one] = usize::try_from(place).unwrap_or(0),
                None if axis.key == "schedule" => {}
                None => title.push(format!("{}={}", axis.key, axis.label(place))),
            }
        }
        let title = title.join(", ");
        let panel = place(
            &mut panels,
            |panel| panel.0 == title,
            || (title.clone(), vec![vec![None; x.len()]; y.len()]),
        );
        panels[panel].1[at[1]][at[0]] = row.get(rate).and_then(|rate| rate.parse().ok());
        if panels.len() > MOST.0 {
            return Err(Error::question(format!("--plot: more than {} panels", MOST.0)));
        }
    }
    let title = grid.scenario.title.clone().unwrap_or_else(|| "Sweep: bubble rate".to_owned());
    let [x, y] = [(axes[0].key.clone(), x), (axes[1].key.clone(), y)];
    Ok(heat::svg(&HeatMap { title, x, y, panels })?)
}
