//! Small multiples: a grid of panels with the same series and the same horizontal axis.

use std::ops::Range;

use plotters::element::DashedPathElement;
use plotters::prelude::*;
use plotters::style::text_anchor::HPos;

use super::{
    Axes, FONT, LINE, SAMPLE, axis_font, check_finite, draw_legend, draw_title, legend_height,
    letters, percent, rates_from_zero,
};
use crate::draw::DrawError;
use crate::draw::canvas::{self, Area, GRID, INK, Lettering, Point, extent};

/// A grid of panels.
pub(crate) struct LineChart {
    /// What stands above all panels.
    pub title: String,
    /// What the horizontal axes show, with its unit.
    pub x_label: String,
    /// What the vertical axes show; they are in percent.
    pub y_label: String,
    /// The names of the series, in the order in which every panel has them; six have colours,
    /// markers and dashes of their own.
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

/// Width and height of a panel with its axes, in pixels.
const PANEL: (i32, i32) = (340, 240);
/// Distance of the markers in a series from their centre, in pixels.
const MARKER: i32 = 4;

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
    let x = x_range(all().map(|point| point.0))?;
    let shared = rates_from_zero(all().map(|point| point.1));
    let columns = chart.columns.clamp(1, chart.panels.len());
    let rows = chart.panels.len().div_ceil(columns);
    let cells = |count: usize| i32::try_from(count).unwrap_or(i32::MAX);
    let width = extent(PANEL.0.saturating_mul(cells(columns)) + LINE + 10);
    let head = 2 * LINE + legend_height(&chart.series, width);
    let height = extent(PANEL.1.saturating_mul(cells(rows)) + head + LINE + 6);
    canvas::picture((width, height), |area| {
        draw_title(area, &chart.title)?;
        draw_legend(area, &chart.series, 2 * LINE - 4, |index, (x, y)| {
            draw_series(area, index, &[(x, y), (x + SAMPLE, y)])?;
            draw_marker(area, index, (x + SAMPLE / 2, y))
        })?;
        let grid = area.margin(head, LINE + 6, LINE, 10);
        for (panel, cell) in chart.panels.iter().zip(grid.split_evenly((rows, columns))) {
            let own = || rates_from_zero(panel.series.iter().flatten().map(|point| point.1));
            let y = if chart.same_scale { shared.clone() } else { own() };
            draw_panel(&cell, panel, x.clone(), y)?;
        }
        draw_labels(area, chart, head)
    })
}

/// The range of all x, with room at both ends.
fn x_range(values: impl Iterator<Item = f64>) -> Result<Range<f64>, DrawError> {
    let ends = (f64::INFINITY, f64::NEG_INFINITY);
    let (low, high) = values.fold(ends, |(low, high), x| (low.min(x), high.max(x)));
    if low > high {
        return Err(DrawError::Empty { what: "no series has a point" });
    }
    let room = if high > low { (high - low) * 0.04 } else { 0.5 };
    Ok(low - room..high + room)
}

/// What the axes show, once for all panels.
fn draw_labels(area: &Area<'_>, chart: &LineChart, head: i32) -> Result<(), DrawError> {
    let (width, height) = area.dim_in_pixel();
    let middle = |from: i32, to: u32| i32::midpoint(from, i32::try_from(to).unwrap_or(from));
    let bottom = i32::try_from(height).unwrap_or(i32::MAX) - LINE / 2 - 4;
    letters(HPos::Center).write(area, &chart.x_label, (middle(LINE, width), bottom))?;
    let upright = Lettering { upright: true, ..letters(HPos::Center) };
    upright.write(area, &chart.y_label, (LINE / 2 + 2, middle(head, height)))
}

fn draw_panel(
    cell: &Area<'_>,
    panel: &Panel,
    x: Range<f64>,
    y: Range<f64>,
) -> Result<(), DrawError> {
    let mut axes = ChartBuilder::on(cell)
        .margin_top(LINE + 4)
        .margin_right(8)
        .x_label_area_size(26)
        .y_label_area_size(46)
        .build_cartesian_2d(x, y.clone())?;
    let mut mesh = axes.configure_mesh();
    mesh.light_line_style(TRANSPARENT).bold_line_style(GRID).axis_style(INK);
    mesh.label_style(axis_font()).x_labels(7).y_labels(6);
    mesh.y_label_formatter(&|rate| percent(*rate, &y)).draw()?;
    draw_points(&mut axes, cell, panel)?;
    let (width, _) = cell.dim_in_pixel();
    let title = canvas::fit(&panel.title, FONT, f64::from(width) - 54.0);
    let bold = Lettering { bold: true, ..letters(HPos::Left) };
    bold.write(cell, &title, (46, LINE / 2 + 2))
}

fn draw_points(axes: &mut Axes<'_, '_>, cell: &Area<'_>, panel: &Panel) -> Result<(), DrawError> {
    let corner = cell.get_base_pixel();
    let place = |point: &(f64, f64)| {
        let at = axes.plotting_area().map_coordinate(point);
        (at.0 - corner.0, at.1 - corner.1)
    };
    let places: Vec<Vec<Point>> =
        panel.series.iter().map(|points| points.iter().map(place).collect()).collect();
    for (index, points) in places.iter().enumerate() {
        draw_series(cell, index, points)?;
    }
    for (index, points) in places.iter().enumerate() {
        points.iter().try_for_each(|&at| draw_marker(cell, index, at))?;
    }
    Ok(())
}

/// Colours that colour-blind readers keep apart (Okabe and Ito), the dark ones first.
const COLOURS: [RGBColor; 6] = [
    RGBColor(0x00, 0x72, 0xB2),
    RGBColor(0xD5, 0x5E, 0x00),
    RGBColor(0x00, 0x9E, 0x73),
    RGBColor(0xB5, 0x5A, 0x94),
    RGBColor(0x33, 0x33, 0x33),
    RGBColor(0x56, 0xB4, 0xE9),
];
/// Lengths of dash and gap by series; a gap of zero is an unbroken line.
const DASHES: [(i32, i32); 6] = [(1, 0), (7, 4), (2, 3), (12, 4), (1, 0), (4, 4)];

/// The line of series number `index` through `points`.
fn draw_series(area: &Area<'_>, index: usize, points: &[Point]) -> Result<(), DrawError> {
    let style = COLOURS[index % COLOURS.len()].stroke_width(2);
    let (dash, gap) = DASHES[index % DASHES.len()];
    let points = points.to_vec();
    if gap == 0 {
        return Ok(area.draw(&PathElement::new(points, style))?);
    }
    Ok(area.draw(&DashedPathElement::new(points, dash, gap, style))?)
}

/// The marker of series number `index` at `at`.
fn draw_marker(area: &Area<'_>, index: usize, at: Point) -> Result<(), DrawError> {
    let colour = COLOURS[index % COLOURS.len()];
    let (x, y) = at;
    let diamond = || vec![(x - 5, y), (x, y - 5), (x + 5, y), (x, y + 5)];
    let square = [(x - 3, y - 3), (x + 4, y + 4)];
    match index % COLOURS.len() {
        0 => area.draw(&Circle::new(at, MARKER, colour.filled()))?,
        1 => area.draw(&TriangleMarker::new(at, MARKER + 1, colour.filled()))?,
        2 => area.draw(&Rectangle::new(square, colour.filled()))?,
        3 => area.draw(&Polygon::new(diamond(), colour.filled()))?,
        4 => area.draw(&Cross::new(at, MARKER, colour.stroke_width(2)))?,
        _ => {
            area.draw(&Circle::new(at, MARKER, WHITE.filled()))?;
            area.draw(&Circle::new(at, MARKER, colour.stroke_width(2)))?;
        }
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
