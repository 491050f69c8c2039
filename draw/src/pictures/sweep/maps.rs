//! The bubble over two axes: heat maps.

use std::io::Read;

use super::{Rows, check_panels, place, title};
use crate::Width;
use crate::plot::heat;
use crate::plot::heat::{Cell, HeatMap};
use question::sweep::axis::Axis;
use question::sweep::grid::{Grid, GridQuestion};
use question::{Context, Diagnostic};

/// The two axes of a heat map.
fn axes<'a>(grid: &'a Grid, keys: &[String]) -> Result<[&'a Axis; 2], Diagnostic> {
    let named = |key: &String| grid.axes.iter().find(|axis| axis.key == *key);
    let found: Vec<&Axis> = keys.iter().filter_map(named).collect();
    match found[..] {
        [x, y] if keys.len() == 2 && x.key != y.key && x.count().max(y.count()) <= 100 => {
            Ok([x, y])
        }
        _ => Err(Diagnostic::new(
            "--plot-map takes two axes of at most 100 values, as in stages,hop",
        )),
    }
}

/// Checks that a heat map of `grid` over the axes `keys` can be drawn.
pub(super) fn check(grid: &Grid, keys: &[String]) -> Result<(), Diagnostic> {
    let axes = axes(grid, keys)?;
    let cells = axes.iter().map(|axis| axis.count()).product::<u64>().max(1);
    check_panels("--plot-map", grid.questions / cells)
}

/// `rows` as heat maps over the axes `keys`, in a picture of that `width`: one for each schedule, setting and value of the other axes.
pub(super) fn svg(
    context: &Context<'_>,
    grid: &Grid,
    mut rows: Rows<impl Read>,
    (keys, width): (&[String], Option<Width>),
) -> Result<String, Diagnostic> {
    let axes = axes(grid, keys)?;
    let labels = |axis: &Axis| (0..axis.count()).map(|i| axis.label(i).into_owned()).collect();
    let [x, y]: [Vec<String>; 2] = axes.map(labels);
    let mut panels = Vec::<(String, Vec<Vec<Cell>>)>::new();
    let mut index = 0;
    while rows.next()? {
        let (title, [column, row]) = cell(grid, &grid.question(context, index)?, axes);
        let new = || (title.clone(), vec![vec![Cell::None; x.len()]; y.len()]);
        let panel = place(&mut panels, |panel| panel.0 == title, new);
        panels[panel].1[row][column] = match (rows.number("bubble_rate"), rows.fits()) {
            (None, _) => Cell::None,
            (Some(rate), Some(false)) => Cell::OverLimit(rate),
            (Some(rate), _) => Cell::Rate(rate),
        };
        index += 1;
    }
    let [x, y] = [(axes[0].key.clone(), x), (axes[1].key.clone(), y)];
    Ok(heat::svg(&HeatMap { title: title(grid, "bubble rate"), x, y, width, panels })?)
}

/// The title of the panel of `question`, and its place along the two `axes`.
fn cell(grid: &Grid, question: &GridQuestion<'_>, axes: [&Axis; 2]) -> (String, [usize; 2]) {
    let mut at = [0, 0];
    let mut title = vec![question.rule.name().to_owned()];
    title.extend(question.setting.name.clone());
    for (axis, &place) in grid.axes.iter().zip(&question.places) {
        match axes.iter().position(|one| one.key == axis.key) {
            Some(one) => at[one] = usize::try_from(place).unwrap_or(0),
            None if axis.key == "schedule" => {}
            None => title.push(format!("{}={}", axis.key, axis.label(place))),
        }
    }
    (title.join(", "), at)
}
