//! Small multiples of points, each with a line to a point that it is compared with.

use super::panels::{self, Horizontal};
use super::{Head, SAMPLE, Scale, check_finite, marks};
use crate::canvas::{self, About, Area, INK, Spot};
use crate::{DrawError, Width, width};

/// A grid of panels.
pub struct Comparison {
    /// The title above all panels.
    pub title: String,
    /// The label of the horizontal axes, with its unit.
    pub x_label: String,
    /// The label of the vertical axes.
    pub y_label: String,
    /// The names of the series, in the order of their markers.
    pub series: Vec<String>,
    /// The name of the dots that points are compared with.
    pub beside: String,
    /// Panels per row, at least one.
    pub columns: usize,
    /// The width of the picture; without one, as wide as its panels are.
    pub width: Option<Width>,
    /// The panels, row by row; each has axes of its own.
    pub panels: Vec<ComparisonPanel>,
}

/// One panel of a [`Comparison`].
pub struct ComparisonPanel {
    /// The title above it.
    pub title: String,
    pub points: Vec<Compared>,
}

/// One point of a panel.
#[derive(Clone, Copy, PartialEq, Debug)]
pub struct Compared {
    /// The number of its series.
    pub series: usize,
    /// Its position, across and up.
    pub at: (f64, f64),
    /// The position of the point that it is compared with.
    pub beside: (f64, f64),
}

pub fn svg(chart: &Comparison) -> Result<String, DrawError> {
    for panel in &chart.panels {
        let ends = |point: &Compared| [point.at.0, point.at.1, point.beside.0, point.beside.1];
        check_finite(&panel.title, panel.points.iter().flat_map(ends))?;
    }
    let (count, label) = (chart.panels.len(), &chart.x_label);
    let grid = panels::Grid::of(count, chart.columns, panels::SMALL, label, chart.width);
    let mut names = chart.series.clone();
    names.push(chart.beside.clone());
    let head = Head::of(&chart.title, &names, &[], grid.width);
    let size = grid.size(head.height());
    let axes: Vec<Horizontal> =
        chart.panels.iter().map(ComparisonPanel::horizontal).collect::<Result<_, _>>()?;
    if axes.is_empty() {
        return Err(DrawError::Empty { what: "no panel has a point" });
    }
    let svg = canvas::picture(size, &chart.about(), |area| {
        head.draw(area, |index, (x, y)| {
            let middle = (x + SAMPLE / 2, y);
            match index == chart.series.len() {
                true => marks::draw_dot(area, middle),
                false => marks::draw_marker(area, index, middle),
            }
        })?;
        let mut spots = Vec::new();
        let cells = grid.split(area, head.height());
        for ((panel, x), cell) in chart.panels.iter().zip(&axes).zip(&cells) {
            spots.extend(draw_panel(cell, chart, panel, x)?);
        }
        grid.draw_labels(area, &chart.y_label, head.height())?;
        Ok(spots)
    })?;
    Ok(width::printed(svg, size, chart.width))
}

impl Comparison {
    fn about(&self) -> About {
        let titles: Vec<&str> = self.panels.iter().map(|panel| panel.title.as_str()).collect();
        let (across, up, series) = (&self.x_label, &self.y_label, self.series.join(", "));
        let description =
            format!("Across: {across}. Up: {up}. For {}. Points: {series}.", titles.join("; "));
        About::new(self.title.clone(), description)
    }
}

impl ComparisonPanel {
    fn horizontal(&self) -> Result<Horizontal, DrawError> {
        Horizontal::of(self.points.iter().flat_map(|point| [point.at.0, point.beside.0]))
    }
}

/// Draws one panel, and returns the hints of its points.
fn draw_panel(
    cell: &Area<'_>,
    chart: &Comparison,
    panel: &ComparisonPanel,
    x: &Horizontal,
) -> Result<Vec<Spot>, DrawError> {
    let heights = panel.points.iter().flat_map(|point| [point.at.1, point.beside.1]);
    let axes = panels::draw_axes(cell, &panel.title, x, panels::fitted(heights)?, Scale::Amounts)?;
    let corner = cell.get_base_pixel();
    let mut spots = Vec::new();
    for point in &panel.points {
        let [at, beside] = [point.at, point.beside].map(|one| panels::place(&axes, cell, &one));
        canvas::line(cell, [at, beside], INK, 1)?;
        marks::draw_marker(cell, point.series, at)?;
        marks::draw_dot(cell, beside)?;
        spots.push(chart.spot(panel, point, (at.0 + corner.0, at.1 + corner.1)));
    }
    Ok(spots)
}

impl Comparison {
    /// The hint for `point`, which is drawn at `at`.
    fn spot(&self, panel: &ComparisonPanel, point: &Compared, at: canvas::Point) -> Spot {
        let series = self.series.get(point.series).cloned().unwrap_or_default();
        let both = |(x, y): (f64, f64)| format!("{x:.1}, {y:.3}");
        let text = format!("{series}: {}; {}: {}", both(point.at), self.beside, both(point.beside));
        let data = vec![
            ("panel", panel.title.clone()),
            ("series", series),
            ("x", point.at.0.to_string()),
            ("y", point.at.1.to_string()),
            ("beside-x", point.beside.0.to_string()),
            ("beside-y", point.beside.1.to_string()),
        ];
        Spot { at, text, data }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::samples::check_svg;

    fn chart(points: Vec<Compared>) -> Comparison {
        Comparison {
            title: "memory".to_owned(),
            x_label: "GB".to_owned(),
            y_label: "MFU".to_owned(),
            series: vec!["gis".to_owned(), "po-h".to_owned()],
            beside: "published".to_owned(),
            columns: 3,
            width: None,
            panels: vec![ComparisonPanel { title: "10.5B".to_owned(), points }],
        }
    }

    #[test]
    fn every_point_has_the_dot_it_is_compared_with() {
        let one = |series, x| Compared { series, at: (x, 1.0), beside: (x + 1.0, 0.9) };
        let drawn = svg(&chart(vec![one(0, 12.0), one(1, 3.0)])).unwrap();
        check_svg(&drawn);
        // Two dots and the one of the legend.
        assert_eq!(drawn.matches("fill=\"#000000\"").count(), 2 + 1);
        assert_eq!(drawn.matches("class=\"spot\"").count(), 2);
        assert!(drawn.contains("data-beside-x=\"13\"") && drawn.contains("\npublished\n"));
    }

    #[test]
    fn what_has_no_place_is_refused() {
        assert!(matches!(svg(&chart(Vec::new())), Err(DrawError::Empty { .. })));
        let point = Compared { series: 0, at: (f64::NAN, 1.0), beside: (1.0, 1.0) };
        assert!(
            matches!(svg(&chart(vec![point])), Err(DrawError::NotFinite { name }) if name == "10.5B")
        );
    }
}
