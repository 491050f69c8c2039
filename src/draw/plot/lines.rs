//! Small multiples: a grid of panels with the same series and the same horizontal axis.

use std::ops::Range;

use super::{
    LINE, SAMPLE, Scale, check_finite, draw_legend, draw_title, legend_height, marks, panels,
    rates_from_zero,
};
use crate::draw::DrawError;
use crate::draw::canvas::{self, Area, Point};

/// A grid of panels.
pub(crate) struct LineChart {
    /// What stands above all panels.
    pub title: String,
    /// What the horizontal axes show, with its unit.
    pub x_label: String,
    /// What the vertical axes show; they are in percent.
    pub y_label: String,
    /// The names of the series, in the order in which every panel has them; six have colours
    /// and dashes of their own.
    pub series: Vec<String>,
    /// Panels per row, at least one.
    pub columns: usize,
    /// Whether all panels have the same vertical axis; if not, each is as high as its values.
    pub same_scale: bool,
    /// The panels, row by row.
    pub panels: Vec<Panel>,
}

/// One panel of a [`LineChart`].
pub(crate) struct Panel {
    /// What stands above it.
    pub title: String,
    /// The points of each series by ascending x, y as a rate (1 is 100%); a series may have none.
    pub series: Vec<Vec<(f64, f64)>>,
}

/// Draws `chart`.
///
/// # Errors
/// If there is no point in it, or one is not finite.
pub(crate) fn svg(chart: &LineChart) -> Result<String, DrawError> {
    for panel in &chart.panels {
        for (name, points) in chart.series.iter().zip(&panel.series) {
            check_finite(name, points.iter().flat_map(|&(x, y)| [x, y]))?;
        }
    }
    let all = || chart.panels.iter().flat_map(|panel| panel.series.iter().flatten().copied());
    let x = panels::fitted(all().map(|point| point.0))?;
    let shared = rates_from_zero(all().map(|point| point.1));
    let columns = chart.columns.clamp(1, chart.panels.len());
    let rows = chart.panels.len().div_ceil(columns);
    let width = panels::width(columns, panels::SMALL);
    let head = 2 * LINE + legend_height(&chart.series, width);
    canvas::picture((width, panels::height(rows, head, panels::SMALL)), |area| {
        draw_title(area, &chart.title)?;
        draw_legend(area, &chart.series, 2 * LINE - 4, |index, (x, y)| {
            marks::draw_line(area, index, &[(x, y), (x + SAMPLE, y)])?;
            marks::draw_marker(area, index, (x + SAMPLE / 2, y))
        })?;
        for (panel, cell) in chart.panels.iter().zip(panels::split(area, head, (rows, columns))) {
            let own = || rates_from_zero(panel.series.iter().flatten().map(|point| point.1));
            let y = if chart.same_scale { shared.clone() } else { own() };
            draw_panel(&cell, panel, x.clone(), y)?;
        }
        panels::draw_labels(area, (&chart.x_label, &chart.y_label), head)
    })
}

fn draw_panel(
    cell: &Area<'_>,
    panel: &Panel,
    x: Range<f64>,
    y: Range<f64>,
) -> Result<(), DrawError> {
    let axes = panels::draw_axes(cell, &panel.title, x, y, Scale::Rates)?;
    let place = |point: &(f64, f64)| panels::place(&axes, cell, point);
    let places: Vec<Vec<Point>> =
        panel.series.iter().map(|points| points.iter().map(place).collect()).collect();
    for (index, points) in places.iter().enumerate() {
        marks::draw_line(cell, index, points)?;
    }
    for (index, points) in places.iter().enumerate() {
        points.iter().try_for_each(|&at| marks::draw_marker(cell, index, at))?;
    }
    Ok(())
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::draw::samples::check_svg;

    fn chart(panels: usize, y: f64) -> LineChart {
        let points = |scale: f64| (0..17).map(|x| (f64::from(x), y / scale)).collect();
        let panel = |m| Panel { title: format!("m={m}"), series: vec![points(1.0), points(2.0)] };
        LineChart {
            title: "rates".to_owned(),
            x_label: "memory limit (p x M_B)".to_owned(),
            y_label: "bubble rate".to_owned(),
            series: vec!["zb-heuristic".to_owned(), "zb-auto".to_owned()],
            columns: 3,
            same_scale: false,
            panels: (0..panels).map(panel).collect(),
        }
    }

    #[test]
    fn every_point_has_a_marker() {
        let drawn = svg(&chart(9, 0.2)).unwrap();
        check_svg(&drawn);
        assert_eq!(drawn.matches("<circle").count(), 9 * 17 + 1);
        assert_eq!(drawn.matches("<polygon").count(), 9 * 17 + 1);
        check_svg(&svg(&chart(1, 0.0)).unwrap());
    }

    #[test]
    fn what_has_no_place_is_refused() {
        assert!(matches!(svg(&chart(0, 0.2)), Err(DrawError::Empty { .. })));
        let infinite = svg(&chart(2, f64::INFINITY));
        assert!(matches!(infinite, Err(DrawError::NotFinite { name }) if name == "zb-heuristic"));
    }
}
