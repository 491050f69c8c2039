//! Small multiples of points, the less the better along both axes, with the front of the best.

use std::collections::BTreeSet;
use std::ops::Range;

use plotters::element::DashedPathElement;
use plotters::prelude::*;

use super::names::Named;
use super::{
    FONT, LINE, SAMPLE, Scale, check_finite, draw_legend, draw_title, legend_height, marks, names,
    panels,
};
use crate::draw::DrawError;
use crate::draw::canvas::{self, Area, INK, Point};

/// A grid of panels.
pub(crate) struct Scatter {
    /// What stands above all panels.
    pub title: String,
    /// What the horizontal axes show, with its unit.
    pub x_label: String,
    /// What the vertical axes show, with its unit.
    pub y_label: String,
    /// Whether that is a rate.
    pub scale: Scale,
    /// The names of the series, in the order in which every panel has them.
    pub series: Vec<String>,
    /// Panels per row, at least one.
    pub columns: usize,
    /// Whether the name of its series stands beside every point, in larger panels, rather than in a
    /// legend.
    pub named: bool,
    /// The panels, row by row; each has axes of its own.
    pub panels: Vec<Panel>,
}

/// One panel of a [`Scatter`].
pub(crate) struct Panel {
    /// What stands above it.
    pub title: String,
    /// The points of each series, x and y (of rates, 1 is 100%); a series may have none.
    pub series: Vec<Vec<(f64, f64)>>,
    /// The largest x that is allowed, if something is.
    pub limit: Option<f64>,
}

/// What is drawn with single points of the one panel of a [`Scatter`]; by series and point.
#[derive(Default)]
pub(crate) struct Details {
    /// What stands beside each point, in a larger panel.
    pub labels: Vec<Vec<String>>,
    /// By what share of its x and y at once a point may be off; `None` where nobody knows.
    pub errors: Vec<Vec<Option<f64>>>,
}

impl Details {
    /// The error of a point, if it has one.
    fn error(&self, series: usize, point: usize) -> Option<f64> {
        self.errors.get(series)?.get(point).copied().flatten()
    }

    fn has_errors(&self) -> bool {
        self.errors.iter().flatten().any(Option::is_some)
    }

    /// Whether some points have an error and others none.
    fn lacks_errors(&self) -> bool {
        self.has_errors() && self.errors.iter().flatten().any(Option::is_none)
    }

    /// The ends of the error bar of a point: both coordinates grow and shrink together.
    fn ends(&self, series: usize, point: usize, (x, y): (f64, f64)) -> Option<[(f64, f64); 2]> {
        let error = self.error(series, point)?;
        Some([1.0 - error, 1.0 + error].map(|factor| (x * factor, y * factor)))
    }

    /// `points` of all series with the ends of their bars.
    fn with_ends(&self, panel: &Panel) -> Vec<(f64, f64)> {
        let mut all: Vec<(f64, f64)> = panel.points().collect();
        for (series, points) in panel.series.iter().enumerate() {
            let ends = |(at, &point)| self.ends(series, at, point).into_iter().flatten();
            all.extend(points.iter().enumerate().flat_map(ends));
        }
        all
    }
}

/// What the legend calls the bar of a point, and its absence.
const BAR: &str = "error bar: both change together";
const NO_BAR: &str = "without a bar: nothing measured of this kind";
/// What the legend calls the staircase.
const FRONT: &str = "Pareto front: nothing is better in both";

/// What the legend calls the largest x that is allowed.
const LIMIT: &str = "memory limit";
const LIMIT_COLOUR: RGBColor = RGBColor(0x99, 0x99, 0x99);
const BAR_COLOUR: RGBColor = RGBColor(0x77, 0x77, 0x77);

/// Draws `scatter`.
///
/// # Errors
/// If there is no point in it, or one is not finite.
pub(crate) fn svg(scatter: &Scatter) -> Result<String, DrawError> {
    svg_with(scatter, &Details::default())
}

/// The same with `details` of the points.
///
/// # Errors
/// The same.
pub(crate) fn svg_with(scatter: &Scatter, details: &Details) -> Result<String, DrawError> {
    for panel in &scatter.panels {
        for (name, points) in scatter.series.iter().zip(&panel.series) {
            check_finite(name, points.iter().flat_map(|&(x, y)| [x, y]))?;
        }
    }
    let drawn: Vec<&Panel> = scatter.panels.iter().filter(|panel| !panel.is_empty()).collect();
    let columns = scatter.columns.clamp(1, drawn.len().max(1));
    let rows = drawn.len().div_ceil(columns);
    let legend = legend(scatter, &drawn, details);
    // Titles and the longest entry of the legend have room, also over a single panel.
    let longest = legend.iter().map(|name| canvas::width(name, FONT)).fold(400.0, f64::max);
    let is_large = scatter.named || !details.labels.is_empty();
    let size = if is_large { panels::LARGE } else { panels::SMALL };
    let width = panels::width(columns, size).max(canvas::extent(canvas::pixel(longest) + 100));
    let head = 2 * LINE + legend_height(&legend, width);
    let ranges: Vec<Range<f64>> =
        drawn.iter().map(|panel| panel.x_range(details)).collect::<Result<_, _>>()?;
    if ranges.is_empty() {
        return Err(DrawError::Empty { what: "no row has an answer" });
    }
    canvas::picture((width, panels::height(rows, head, size)), |area| {
        draw_title(area, &scatter.title)?;
        draw_legend(area, &legend, 2 * LINE - 4, |index, (x, y)| match &legend[index][..] {
            FRONT => canvas::line(area, [(x, y), (x + SAMPLE, y)], INK, 1),
            LIMIT => draw_limit(area, [(x, y), (x + SAMPLE, y)]),
            BAR => draw_bar(area, [(x + 4, y + 6), (x + SAMPLE - 4, y - 6)]),
            NO_BAR => Ok(()),
            _ => marks::draw_marker(area, index, (x + SAMPLE / 2, y)),
        })?;
        let cells = panels::split(area, head, (rows, columns));
        for ((panel, x), cell) in drawn.iter().zip(ranges).zip(&cells) {
            let names = if scatter.named { &scatter.series[..] } else { &[] };
            draw_panel(cell, panel, (x, scatter.scale), (names, details))?;
        }
        panels::draw_labels(area, (&scatter.x_label, &scatter.y_label), head)
    })
}

/// The series, unless their names stand at the points, and what lines mean.
fn legend(scatter: &Scatter, drawn: &[&Panel], details: &Details) -> Vec<String> {
    let limited = drawn.iter().any(|panel| panel.limit.is_some());
    let series = scatter.series.iter().filter(|_| !scatter.named).cloned();
    let limit = limited.then(|| LIMIT.to_owned());
    let bar = details.has_errors().then(|| BAR.to_owned());
    let without = details.lacks_errors().then(|| NO_BAR.to_owned());
    series.chain([FRONT.to_owned()]).chain(limit).chain(bar).chain(without).collect()
}

fn draw_limit(area: &Area<'_>, ends: [Point; 2]) -> Result<(), DrawError> {
    Ok(area.draw(&DashedPathElement::new(ends, 6, 4, LIMIT_COLOUR.stroke_width(1)))?)
}

/// A line with a cap at each of its `ends`.
fn draw_bar(area: &Area<'_>, ends: [Point; 2]) -> Result<(), DrawError> {
    canvas::line(area, ends, BAR_COLOUR, 1)?;
    ends.into_iter()
        .try_for_each(|(x, y)| canvas::line(area, [(x - 3, y), (x + 3, y)], BAR_COLOUR, 1))
}

impl Panel {
    fn points(&self) -> impl Iterator<Item = (f64, f64)> {
        self.series.iter().flatten().copied()
    }

    fn is_empty(&self) -> bool {
        self.points().next().is_none()
    }

    fn x_range(&self, details: &Details) -> Result<Range<f64>, DrawError> {
        panels::fitted(details.with_ends(self).into_iter().map(|point| point.0).chain(self.limit))
    }
}

/// Draws one panel; with the names of its series if there are `names`, and with `details`.
fn draw_panel(
    cell: &Area<'_>,
    panel: &Panel,
    (x, scale): (Range<f64>, Scale),
    (names, details): (&[String], &Details),
) -> Result<(), DrawError> {
    let y = scale.range(details.with_ends(panel).into_iter().map(|point| point.1))?;
    let axes = panels::draw_axes(cell, &panel.title, x.clone(), y.clone(), scale)?;
    let front = front(panel.points());
    let steps = staircase(&front, (x.end, y.end));
    let steps: Vec<Point> = steps.iter().map(|point| panels::place(&axes, cell, point)).collect();
    let best = |point: &(f64, f64)| front.contains(point);
    let bounds = [(x.start, y.end), (x.end, y.start)];
    let bounds = bounds.map(|corner| panels::place(&axes, cell, &corner));
    if let Some(limit) = panel.limit {
        let at = panels::place(&axes, cell, &(limit, y.start)).0;
        draw_limit(cell, [(at, bounds[0].1), (at, bounds[1].1)])?;
    }
    for (index, points) in panel.series.iter().enumerate() {
        for (at, &point) in points.iter().enumerate() {
            if let Some(ends) = details.ends(index, at, point) {
                draw_bar(cell, ends.map(|end| panels::place(&axes, cell, &end)))?;
            }
        }
    }
    // Where many lie on the same pixels, one is drawn; the best above all others.
    let mut drawn = BTreeSet::new();
    for is_front in [false, true] {
        if is_front {
            cell.draw(&PathElement::new(steps.clone(), INK.stroke_width(1)))?;
        }
        for (index, points) in panel.series.iter().enumerate() {
            for point in points.iter().filter(|point| best(point) == is_front) {
                let at = panels::place(&axes, cell, point);
                if drawn.insert((is_front, index, at)) {
                    match is_front {
                        true => marks::draw_marker(cell, index, at)?,
                        false => marks::draw_faint(cell, index, at)?,
                    }
                }
            }
        }
    }
    let named = |name: &String, point: &(f64, f64)| Named {
        at: panels::place(&axes, cell, point),
        name: name.clone(),
        bold: best(point),
    };
    let of_series = names.iter().zip(&panel.series);
    let of_series = of_series.flat_map(|(name, all)| all.iter().map(move |point| (name, point)));
    let of_points = details.labels.iter().flatten().zip(panel.series.iter().flatten());
    let all = of_series.chain(of_points).map(|(name, point)| named(name, point)).collect();
    names::draw(cell, all, bounds, &steps)
}

/// The points that no other one beats: none is as small in both, and smaller in one. By ascending
/// x, each once.
pub(crate) fn front(points: impl Iterator<Item = (f64, f64)>) -> Vec<(f64, f64)> {
    let mut points: Vec<(f64, f64)> = points.collect();
    points.sort_by(|a, b| a.0.total_cmp(&b.0).then(a.1.total_cmp(&b.1)));
    let mut front: Vec<(f64, f64)> = Vec::new();
    for point in points {
        if front.last().is_none_or(|last| point.1 < last.1) {
            front.push(point);
        }
    }
    front
}

/// The border of what `front` beats, up to the corner `end`.
fn staircase(front: &[(f64, f64)], end: (f64, f64)) -> Vec<(f64, f64)> {
    let mut level = end.1;
    let mut steps = Vec::with_capacity(2 * front.len() + 1);
    for &(x, y) in front {
        steps.extend([(x, level), (x, y)]);
        level = y;
    }
    steps.push((end.0, level));
    steps
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;
    use crate::draw::samples::check_svg;

    fn beats(one: (f64, f64), other: (f64, f64)) -> bool {
        one.0 <= other.0 && one.1 <= other.1 && one != other
    }

    proptest! {
        #[test]
        fn the_front_is_what_nothing_beats(
            points in prop::collection::vec((0u8..12, 0u8..12), 1..40)
        ) {
            let points: Vec<(f64, f64)> =
                points.into_iter().map(|(x, y)| (f64::from(x), f64::from(y))).collect();
            let front = front(points.iter().copied());
            for &point in &points {
                let beaten = points.iter().any(|&other| beats(other, point));
                prop_assert_eq!(front.contains(&point), !beaten);
            }
            prop_assert!(front.windows(2).all(|pair| pair[0].0 < pair[1].0));
        }
    }

    #[test]
    fn stairs_go_down_to_each_point_and_then_across() {
        let steps = staircase(&[(1.0, 5.0), (3.0, 2.0)], (4.0, 9.0));
        assert_eq!(steps, [(1.0, 9.0), (1.0, 5.0), (3.0, 5.0), (3.0, 2.0), (4.0, 2.0)]);
    }

    fn scatter(panels: Vec<Vec<Vec<(f64, f64)>>>) -> Scatter {
        let panel = |series| Panel { title: "6.2B".to_owned(), series, limit: None };
        Scatter {
            title: "memory".to_owned(),
            x_label: "peak memory".to_owned(),
            y_label: "bubble rate".to_owned(),
            scale: Scale::Rates,
            series: vec!["1f1b".to_owned(), "zb-h1".to_owned(), "zb-2p".to_owned()],
            columns: 3,
            named: false,
            panels: panels.into_iter().map(panel).collect(),
        }
    }

    #[test]
    fn a_point_is_drawn_once_and_the_front_above() {
        let points = vec![(1.0, 0.2), (1.0, 0.2), (2.0, 0.3), (2.0, 0.1)];
        let drawn = svg(&scatter(vec![vec![points, vec![(2.0, 0.3)]]])).unwrap();
        check_svg(&drawn);
        // Two of the front, one beaten, and the legend.
        assert_eq!(drawn.matches("<circle").count(), 4);
        assert_eq!(drawn.matches("#0072B2").count(), 3);
        let last = drawn.rfind("<circle").unwrap();
        assert!(drawn[last..].contains("#0072B2"));
        check_svg(&svg(&scatter(vec![vec![vec![(1.0, 0.0)]]; 7])).unwrap());
    }

    #[test]
    fn every_point_is_named_and_the_limit_drawn() {
        let mut one = scatter(vec![vec![vec![(1.0, 0.2)], vec![(2.0, 0.3)], vec![(3.0, 0.1)]]]);
        assert!(!svg(&one).unwrap().contains(LIMIT));
        (one.named, one.panels[0].limit) = (true, Some(5.0));
        let drawn = svg(&one).unwrap();
        check_svg(&drawn);
        for text in ["1f1b", "zb-h1", "zb-2p", FRONT, LIMIT] {
            assert_eq!(drawn.matches(&format!("\n{text}\n")).count(), 1, "{text}");
        }
        // One marker each, and none in the legend.
        assert_eq!(drawn.matches("<circle").count(), 1);
    }

    #[test]
    fn points_have_labels_and_bars_of_their_own() {
        let one = scatter(vec![vec![vec![(1.0, 0.2), (2.0, 0.1)], vec![(3.0, 0.3)]]]);
        let labels = vec![vec!["first".to_owned(), "second".to_owned()], vec!["third".to_owned()]];
        let plain = svg(&one).unwrap();
        assert!(!plain.contains(BAR));
        let mut details = Details { labels, errors: vec![vec![Some(0.1), Some(0.2)], vec![None]] };
        let drawn = svg_with(&one, &details).unwrap();
        check_svg(&drawn);
        for text in ["first", "second", "third", BAR, NO_BAR] {
            assert_eq!(drawn.matches(&format!("\n{text}\n")).count(), 1, "{text}");
        }
        // Two bars with their caps, and the sample of the legend.
        assert_eq!(drawn.matches("#777777").count(), 3 * 3);
        details.errors[1][0] = Some(0.5);
        let drawn = svg_with(&one, &details).unwrap();
        assert!(!drawn.contains(NO_BAR) && drawn.matches("#777777").count() == 3 * 4);
    }

    #[test]
    fn amounts_stand_on_their_axis_as_they_are() {
        let points = vec![(1.0, 510.0), (2.0, 1057.0)];
        let amounts = Scatter { scale: Scale::Amounts, ..scatter(vec![vec![points]]) };
        let drawn = svg(&amounts).unwrap();
        check_svg(&drawn);
        assert!(drawn.contains("\n1000\n") && !drawn.contains('%'), "{drawn}");
        assert!(!drawn.contains("\n0\n"), "the axis begins where the points do");
    }

    #[test]
    fn what_has_no_place_is_refused() {
        assert!(matches!(svg(&scatter(Vec::new())), Err(DrawError::Empty { .. })));
        assert!(matches!(svg(&scatter(vec![vec![Vec::new()]])), Err(DrawError::Empty { .. })));
        let infinite = svg(&scatter(vec![vec![vec![(f64::NAN, 0.1)]]]));
        assert!(matches!(infinite, Err(DrawError::NotFinite { name }) if name == "1f1b"));
    }
}
