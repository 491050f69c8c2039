//! Pictures of published tables, as data: the renderer decides on sizes and colours.

use serde::Serialize;

use super::cell::Cell;

/// Default meaning of marks and dots.
pub const PUBLISHED: &str = "published";

/// A picture of a table: published figures beside ours.
#[derive(Clone, PartialEq, Debug, Serialize)]
#[serde(rename_all = "snake_case")]
pub enum Picture {
    /// Groups of bars, with the published figure, or another, as a mark across each.
    Bars(Bars),
    /// Small multiples of curves, with the published figure as a mark at each point.
    Lines(Grid<Panel>),
    /// Small multiples of points that differ from the published ones along both axes, each with a line to it.
    Comparison(Grid<Places>),
}

/// Groups of bars, a bar for every series in each.
#[derive(Clone, PartialEq, Debug, Serialize)]
pub struct Bars {
    /// The title of the picture.
    pub title: String,
    /// The meaning of the labels of groups.
    pub x_label: &'static str,
    /// The quantity on the vertical axis, a rate.
    pub y_label: String,
    /// The names of the series, in the order in which every group has them.
    pub series: Vec<String>,
    /// Meaning of the mark across a bar, such as [`PUBLISHED`].
    pub mark: &'static str,
    /// Why some bars have no mark, or nothing.
    pub unmarked: &'static str,
    /// The groups from left to right.
    pub groups: Vec<Group>,
}

/// The bars of one setting.
#[derive(Clone, PartialEq, Debug, Serialize)]
pub struct Group {
    /// The name of the setting.
    pub label: String,
    /// A pair of rates for each series, or none where nothing was published.
    pub bars: Vec<Option<Pair>>,
}

/// A published rate, or another marked rate, beside ours; 1 is 100 %. NaN where it is not available.
#[derive(Clone, Copy, PartialEq, Debug, Serialize)]
pub struct Pair {
    /// Our rate.
    pub ours: f64,
    /// The published rate.
    pub published: f64,
}

/// A grid of panels with the same series and the same axes.
#[derive(Clone, PartialEq, Debug, Serialize)]
pub struct Grid<Panel> {
    /// The title of the picture.
    pub title: String,
    /// The quantity on the horizontal axes, with its unit.
    pub x_label: String,
    /// The quantity on the vertical axes; of curves a rate.
    pub y_label: String,
    /// The names of the series, in the order in which every panel has them.
    pub series: Vec<String>,
    /// The panels, row by row.
    pub panels: Vec<Panel>,
}

/// The curves of one setting.
#[derive(Clone, PartialEq, Debug, Serialize)]
pub struct Panel {
    /// The name of the setting.
    pub title: String,
    /// The points of each series, in the order of the published figures.
    pub series: Vec<Vec<Point>>,
}

/// A point of a curve.
#[derive(Clone, Copy, PartialEq, Debug, Serialize)]
pub struct Point {
    /// Its place on the horizontal axis.
    pub x: f64,
    /// The rates there.
    #[serde(flatten)]
    pub rates: Pair,
}

/// The points of one setting.
#[derive(Clone, PartialEq, Debug, Serialize)]
pub struct Places {
    /// The name of the setting.
    pub title: String,
    /// The number of a series with its point, by the order of the published figures.
    pub points: Vec<(usize, PlacePair)>,
}

/// A point beside the published one.
#[derive(Clone, Copy, PartialEq, Debug, Serialize)]
pub struct PlacePair {
    /// Our point.
    pub ours: Place,
    /// The published point.
    pub published: Place,
}

/// A point of a plane.
#[derive(Clone, Copy, PartialEq, Debug, Serialize)]
pub struct Place {
    /// Its place on the horizontal axis.
    pub x: f64,
    /// Its place on the vertical axis.
    pub y: f64,
}

impl Pair {
    /// The figures of `cell`.
    pub(super) fn of(cell: &Cell) -> Self {
        Self { ours: cell.ours, published: cell.published }
    }
}

/// A table of bubble rates: a group for every row, a series for every column.
pub(super) fn bars(title: &str, cells: &[Cell]) -> Picture {
    let series = distinct(cells.iter().map(|cell| cell.column.as_str()));
    let groups = distinct(cells.iter().map(|cell| cell.row.as_str())).into_iter().map(|row| {
        let bar = |column: &String| {
            let cell = cells.iter().find(|cell| cell.row == row && cell.column == *column);
            cell.map(Pair::of)
        };
        Group { bars: series.iter().map(bar).collect(), label: row }
    });
    Picture::Bars(Bars {
        title: title.to_owned(),
        x_label: "model, p stages, m microbatches",
        y_label: "bubble rate".to_owned(),
        groups: groups.collect(),
        mark: PUBLISHED,
        unmarked: "",
        series,
    })
}

/// Each name once, in order of appearance.
pub(super) fn distinct<'a>(names: impl Iterator<Item = &'a str>) -> Vec<String> {
    let mut distinct: Vec<String> = Vec::new();
    for name in names {
        if !distinct.iter().any(|known| known == name) {
            distinct.push(name.to_owned());
        }
    }
    distinct
}

#[cfg(test)]
mod tests {
    use super::super::cell::{Basis, Figure};
    use super::*;

    #[test]
    fn a_cell_that_was_not_published_leaves_a_gap() {
        let cell = |row: &str, column: &str, ours| {
            Figure::new(row, column, Basis::not_checked("span"), 0.25).beside(ours)
        };
        let cells = [cell("a", "1f1b", 0.5), cell("b", "zb-v", 0.125), cell("b", "1f1b", 0.25)];
        let Picture::Bars(picture) = bars("rates", &cells) else { panic!("it has groups of bars") };
        assert_eq!(picture.series, ["1f1b", "zb-v"]);
        let pair = |ours| Some(Pair { ours, published: 0.25 });
        let bars: Vec<_> = picture.groups.iter().map(|group| group.bars.clone()).collect();
        assert_eq!(bars, [vec![pair(0.5), None], vec![pair(0.25), pair(0.125)]]);
    }
}
