//! Small multiples: a grid of panels with the same series and the same horizontal axis.

use std::ops::Range;

use super::panels::Horizontal;
use super::{Head, SAMPLE, Scale, check_finite, marks, panels, rates_from_zero};
use crate::canvas;
use crate::canvas::{About, Area, Point, Spot};
use crate::{DrawError, Width, width};
use answer::front::{DOES_NOT_FIT, Standing};

/// A grid of panels.
pub struct LineChart {
    /// The title above all panels.
    pub title: String,
    /// The label of the horizontal axes, with its unit.
    pub x_label: String,
    /// The label of the vertical axes, which are in percent.
    pub y_label: String,
    /// The names of the series, in the order in which every panel has them; six have colours
    /// and dashes of their own.
    pub series: Vec<String>,
    /// The name of the dots beside the points, such as `published`; in the legend where there is
    /// one.
    pub beside: String,
    /// Panels per row, at least one.
    pub columns: usize,
    /// Whether all panels have the same vertical axis; if not, each is as high as its values.
    pub same_scale: bool,
    /// The width of the picture; without one, as wide as its panels are.
    pub width: Option<Width>,
    /// The panels, row by row.
    pub panels: Vec<LinePanel>,
}

/// One panel of a [`LineChart`].
pub struct LinePanel {
    /// The title above it.
    pub title: String,
    /// The points of each series by ascending x; a series may have none.
    pub series: Vec<Vec<Dot>>,
}

/// One point of a panel.
#[derive(Clone, Copy, PartialEq, Debug)]
pub struct Dot {
    /// Its horizontal position.
    pub x: f64,
    /// Its rate (1 is 100 %).
    pub y: f64,
    /// Where a ring stands around it or beside it, as a rate.
    pub beside: Option<f64>,
    /// Whether it keeps its memory limit: no line leads through one that does not.
    pub fits: bool,
}

impl Dot {
    /// One with nothing beside it, that fits.
    pub const fn new(x: f64, y: f64) -> Self {
        Self { x, y, beside: None, fits: true }
    }

    fn rates(self) -> impl Iterator<Item = f64> + Clone {
        std::iter::once(self.y).chain(self.beside)
    }
}

pub fn svg(chart: &LineChart) -> Result<String, DrawError> {
    for panel in &chart.panels {
        for (name, points) in chart.series.iter().zip(&panel.series) {
            check_finite(name, points.iter().flat_map(|dot| dot.rates().chain([dot.x])))?;
        }
    }
    let all = || chart.panels.iter().flat_map(|panel| panel.series.iter().flatten());
    let x = Horizontal::of(all().map(|dot| dot.x))?;
    let shared = rates_from_zero(all().flat_map(|dot| dot.rates()));
    let (count, label) = (chart.panels.len(), &chart.x_label);
    let grid = panels::Grid::of(count, chart.columns, panels::SMALL, label, chart.width);
    let mut names = chart.series.clone();
    names.extend(all().any(|dot| dot.beside.is_some()).then(|| chart.beside.clone()));
    let ticked = names.len();
    names.extend(all().any(|dot| !dot.fits).then(|| DOES_NOT_FIT.to_owned()));
    let head = Head::of(&chart.title, &names, &[], grid.width);
    let size = grid.size(head.height());
    let svg = canvas::picture(size, &chart.about(), |area| {
        head.draw(area, |index, (x, y)| {
            let middle = (x + SAMPLE / 2, y);
            if index >= ticked {
                return marks::draw_sample(area, Standing::OverLimit, middle);
            }
            if index >= chart.series.len() {
                return marks::draw_ring(area, middle);
            }
            marks::draw_line(area, index, &[(x, y), (x + SAMPLE, y)])?;
            marks::draw_marker(area, index, middle)
        })?;
        let mut spots = Vec::new();
        for (panel, cell) in chart.panels.iter().zip(grid.split(area, head.height())) {
            let own = || rates_from_zero(panel.series.iter().flatten().flat_map(|dot| dot.rates()));
            let y = if chart.same_scale { shared.clone() } else { own() };
            spots.extend(draw_panel(&cell, chart, panel, &x, y)?);
        }
        grid.draw_labels(area, &chart.y_label, head.height())?;
        Ok(spots)
    })?;
    Ok(width::printed(svg, size, chart.width))
}

impl LineChart {
    fn about(&self) -> About {
        let titles = self.panels.iter().map(|panel| panel.title.as_str());
        let titles: Vec<&str> = titles.filter(|title| !title.is_empty()).collect();
        let of =
            if titles.is_empty() { String::new() } else { format!(" for {}", titles.join("; ")) };
        About::new(
            self.title.clone(),
            format!(
                "{} over {}{of}. Lines: {}.",
                self.y_label,
                self.x_label,
                self.series.join(", ")
            ),
        )
    }
}

/// Draws one panel, and returns the hints of its points.
fn draw_panel(
    cell: &Area<'_>,
    chart: &LineChart,
    panel: &LinePanel,
    x: &Horizontal,
    y: Range<f64>,
) -> Result<Vec<Spot>, DrawError> {
    let axes = panels::draw_axes(cell, &panel.title, x, y, Scale::Rates)?;
    let place = |x: f64, y: f64| panels::place(&axes, cell, &(x, y));
    let at = |dot: &Dot| place(dot.x, dot.y);
    for (index, dots) in panel.series.iter().enumerate() {
        for run in dots.split(|dot| !dot.fits).filter(|run| run.len() > 1) {
            marks::draw_line(cell, index, &run.iter().map(at).collect::<Vec<Point>>())?;
        }
    }
    let corner = cell.get_base_pixel();
    let mut spots = Vec::new();
    for (index, dots) in panel.series.iter().enumerate() {
        for dot in dots {
            match dot.fits {
                true => marks::draw_marker(cell, index, at(dot))?,
                false => marks::draw_standing(cell, index, Standing::OverLimit, at(dot))?,
            }
            if let Some(beside) = dot.beside {
                marks::draw_ring(cell, place(dot.x, beside))?;
            }
            let at = (at(dot).0 + corner.0, at(dot).1 + corner.1);
            spots.push(spot(chart, panel, index, dot, at));
        }
    }
    Ok(spots)
}

/// The hint for the point `dot` of series number `index`.
fn spot(chart: &LineChart, panel: &LinePanel, index: usize, dot: &Dot, at: Point) -> Spot {
    let series = chart.series.get(index).cloned().unwrap_or_default();
    let percent = |rate: f64| format!("{:.2}%", rate * 100.0);
    let beside = dot.beside.map(|rate| format!(", {} {}", chart.beside, percent(rate)));
    let over = if dot.fits { String::new() } else { format!(", {DOES_NOT_FIT}") };
    let mut data = vec![
        ("panel", panel.title.clone()),
        ("series", series.clone()),
        ("x", dot.x.to_string()),
        ("y", dot.y.to_string()),
        ("fits", dot.fits.to_string()),
    ];
    data.extend(dot.beside.map(|beside| ("beside", beside.to_string())));
    let text = format!(
        "{series}: {} at {} {}{}{over}",
        percent(dot.y),
        chart.x_label,
        panels::number(dot.x),
        beside.unwrap_or_default()
    );
    Spot { at, text, data }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::samples::check_svg;

    fn chart(panels: usize, y: f64) -> LineChart {
        let points = |scale: f64| (0..17).map(|x| Dot::new(f64::from(x), y / scale)).collect();
        let panel =
            |m| LinePanel { title: format!("m={m}"), series: vec![points(1.0), points(2.0)] };
        LineChart {
            title: "rates".to_owned(),
            x_label: "memory limit (p x M_B)".to_owned(),
            y_label: "bubble rate".to_owned(),
            series: vec!["zb-heuristic".to_owned(), "zb-auto".to_owned()],
            beside: "published".to_owned(),
            columns: 3,
            same_scale: false,
            width: None,
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
    fn published_figures_are_rings_and_no_line_leads_through_what_does_not_fit() {
        let mut one = chart(1, 0.2);
        let plain = svg(&one).unwrap();
        assert!(!plain.contains("published") && !plain.contains(DOES_NOT_FIT));
        assert!(plain.contains("\n10\n") && !plain.contains(".0\n"), "{plain}");
        for dot in &mut one.panels[0].series[0] {
            dot.beside = Some(dot.y * 0.9);
        }
        one.panels[0].series[0][8].fits = false;
        let drawn = svg(&one).unwrap();
        check_svg(&drawn);
        // A ring for each point of a series, and the legend's.
        let rings = drawn.lines().filter(|line| line.starts_with("<circle"));
        let rings = rings.filter(|line| line.contains("stroke=\"#000000\"")).count();
        assert_eq!(rings, 17 + 1);
        let lines = |svg: &str| svg.matches("stroke=\"#0072B2\" stroke-width=\"2\"").count();
        assert_eq!((lines(&plain), lines(&drawn)), (2, 3));
        assert_eq!(drawn.matches("data-fits=\"false\"").count(), 1);
        assert_eq!(drawn.matches(&format!("\n{DOES_NOT_FIT}\n")).count(), 1);
    }

    #[test]
    fn what_has_no_place_is_refused() {
        assert!(matches!(svg(&chart(0, 0.2)), Err(DrawError::Empty { .. })));
        let infinite = svg(&chart(2, f64::INFINITY));
        assert!(matches!(infinite, Err(DrawError::NotFinite { name }) if name == "zb-heuristic"));
    }
}
