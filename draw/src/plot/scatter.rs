//! Small multiples of points, the less the better along both axes, with the front of the best.

use std::collections::BTreeSet;

use plotters::element::DashedPathElement;
use plotters::prelude::*;

use super::names::Named;
use super::panels::{Grid, Horizontal};
use super::{FONT, Head, SAMPLE, Scale, TITLE, check_finite, marks, names, panels};
use crate::canvas;
use crate::canvas::{About, Area, INK, Point, Spot};
use crate::{DrawError, Width, width};
use answer::front::{DOES_NOT_FIT, Standing};

/// A grid of panels.
pub struct Scatter {
    /// The title above all panels.
    pub title: String,
    /// The label of the horizontal axes, with its unit.
    pub x_label: String,
    /// The label of the vertical axes, with its unit.
    pub y_label: String,
    /// Whether that is a rate.
    pub scale: Scale,
    /// The names of the series, in the order in which every panel has them.
    pub series: Vec<String>,
    /// Panels per row, at least one.
    pub columns: usize,
    /// Whether the name of its series stands beside every point, in larger panels, too.
    pub named: bool,
    /// The legend for points that are not compared, where there are some.
    pub not_compared: String,
    /// The width of the picture; without one, as wide as its panels are.
    pub width: Option<Width>,
    /// The panels, row by row; each has axes of its own.
    pub panels: Vec<ScatterPanel>,
}

/// One point of a panel.
#[derive(Clone, Copy, PartialEq, Debug)]
pub struct Mark {
    /// Its horizontal position.
    pub x: f64,
    /// Its vertical position (of rates, 1 is 100 %).
    pub y: f64,
    /// Its standing among the points of its panel.
    pub standing: Standing,
}

/// One panel of a [`Scatter`].
pub struct ScatterPanel {
    /// The title above it.
    pub title: String,
    /// The points of each series; a series may have none.
    pub series: Vec<Vec<Mark>>,
    /// The largest x that is allowed, if something is.
    pub limit: Option<f64>,
}

/// The details of the one panel of a [`Scatter`].
#[derive(Default)]
pub struct Details {
    /// The label beside each point, by series and point, in a larger panel.
    pub labels: Vec<Vec<String>>,
    /// Notes on all points, in lines below the legend.
    pub notes: Vec<String>,
}

impl Details {
    /// The label of a point, if it has one.
    fn label(&self, series: usize, point: usize) -> Option<&String> {
        self.labels.get(series)?.get(point)
    }
}

/// The legend for the staircase.
const FRONT: &str = "Pareto front: nothing that fits is better in both";
/// The legend for the largest x that is allowed.
const LIMIT: &str = "memory limit";
/// The legend for points that are dominated.
const BEATEN: &str = "off the front";
pub(super) const LIMIT_COLOUR: RGBColor = RGBColor(0x76, 0x76, 0x76);

/// An entry of the legend.
enum Key {
    Series(usize),
    Front,
    Limit,
    Standing(Standing),
}

pub fn svg(scatter: &Scatter) -> Result<String, DrawError> {
    svg_with(scatter, &Details::default())
}

/// The same with `details` of the points.
pub fn svg_with(scatter: &Scatter, details: &Details) -> Result<String, DrawError> {
    for panel in &scatter.panels {
        for (name, points) in scatter.series.iter().zip(&panel.series) {
            check_finite(name, points.iter().flat_map(|mark| [mark.x, mark.y]))?;
        }
    }
    let drawn: Vec<&ScatterPanel> =
        scatter.panels.iter().filter(|panel| !panel.is_empty()).collect();
    let (keys, legend): (Vec<Key>, Vec<String>) = legend(scatter, &drawn).into_iter().unzip();
    let grid = scatter.grid(drawn.len(), details, &legend);
    let head = Head::of(&scatter.title, &legend, &details.notes, grid.width);
    let axes: Vec<Horizontal> =
        drawn.iter().map(|panel| panel.horizontal()).collect::<Result<_, _>>()?;
    if axes.is_empty() {
        return Err(DrawError::Empty { what: "no row has an answer" });
    }
    let (about, size) = (scatter.about(&drawn, details), grid.size(head.height()));
    let svg = canvas::picture(size, &about, |area| {
        head.draw(area, |index, (x, y)| match keys[index] {
            Key::Front => canvas::line(area, [(x, y), (x + SAMPLE, y)], INK, 1),
            Key::Limit => draw_limit(area, [(x, y), (x + SAMPLE, y)]),
            Key::Series(series) => marks::draw_marker(area, series, (x + SAMPLE / 2, y)),
            Key::Standing(standing) => marks::draw_sample(area, standing, (x + SAMPLE / 2, y)),
        })?;
        let cells = grid.split(area, head.height());
        let mut spots = Vec::new();
        for ((panel, x), cell) in drawn.iter().zip(&axes).zip(&cells) {
            spots.extend(draw_panel(cell, scatter, details, panel, x)?);
        }
        grid.draw_labels(area, &scatter.y_label, head.height())?;
        Ok(spots)
    })?;
    Ok(width::printed(svg, size, scatter.width))
}

/// The series that have points, and the meaning of lines and other marks.
fn legend(scatter: &Scatter, drawn: &[&ScatterPanel]) -> Vec<(Key, String)> {
    let has =
        |standing| drawn.iter().any(|panel| panel.marks().any(|one| one.standing == standing));
    let is_drawn = |index: usize| {
        drawn.iter().any(|panel| panel.series.get(index).is_some_and(|own| !own.is_empty()))
    };
    // A name beside each point says what a legend would.
    let unnamed = scatter.series.iter().enumerate().filter(|_| !scatter.named);
    let series = unnamed.filter(|(index, _)| is_drawn(*index));
    let series = series.map(|(index, name)| (Key::Series(index), name.clone()));
    let limited = drawn.iter().any(|panel| panel.limit.is_some());
    let others = [
        (drawn.iter().any(|panel| panel.front().len() > 1), Key::Front, FRONT),
        (has(Standing::Beaten), Key::Standing(Standing::Beaten), BEATEN),
        (limited, Key::Limit, LIMIT),
        (has(Standing::OverLimit), Key::Standing(Standing::OverLimit), DOES_NOT_FIT),
        (
            has(Standing::NotCompared),
            Key::Standing(Standing::NotCompared),
            scatter.not_compared.as_str(),
        ),
    ];
    let others = others.into_iter().filter(|(there, ..)| *there);
    series.chain(others.map(|(_, key, text)| (key, text.to_owned()))).collect()
}

fn draw_limit(area: &Area<'_>, ends: [Point; 2]) -> Result<(), DrawError> {
    Ok(area.draw(&DashedPathElement::new(ends, 6, 4, LIMIT_COLOUR.stroke_width(1)))?)
}

impl Scatter {
    /// So many `panels`. Titles and the longest entry of the `legend` have room over a single panel of a picture whose
    /// width is not given.
    fn grid(&self, panels: usize, details: &Details, legend: &[String]) -> Grid {
        let is_large = self.named || !details.labels.is_empty();
        let panel = if is_large { panels::LARGE } else { panels::SMALL };
        let mut grid = Grid::of(panels, self.columns, panel, &self.x_label, self.width);
        if self.width.is_none() {
            let lines = legend.iter().map(|name| canvas::width(name, FONT) + 100.0);
            let notes = details.notes.iter().map(|note| canvas::width(note, FONT) + 2.0 * TITLE);
            let longest = lines.chain(notes).fold(500.0, f64::max);
            grid.width = grid.width.max(canvas::extent(canvas::pixel(longest)));
        }
        grid
    }

    fn about(&self, drawn: &[&ScatterPanel], details: &Details) -> About {
        let panels = drawn.iter().map(|panel| {
            let mut front: Vec<&str> = Vec::new();
            for (name, marks) in self.series.iter().zip(&panel.series) {
                if marks.iter().any(|mark| mark.standing.is_on_front()) {
                    front.push(name);
                }
            }
            let named = Some(&panel.title).filter(|title| !title.is_empty());
            let named = named.map_or(String::new(), |title| format!("{title}: "));
            let all = panel.marks().count();
            format!("{named}{all} points, on the front: {}.", front.join(", "))
        });
        let panels: Vec<String> = panels.collect();
        About::new(
            self.title.clone(),
            format!(
                "Across: {}. Up: {}. {}{}",
                self.x_label,
                self.y_label,
                panels.join(" "),
                details.notes.iter().map(|note| format!(" {note}.")).collect::<String>()
            ),
        )
    }
}

impl ScatterPanel {
    fn marks(&self) -> impl Iterator<Item = &Mark> + Clone {
        self.series.iter().flatten()
    }

    fn is_empty(&self) -> bool {
        self.marks().next().is_none()
    }

    fn horizontal(&self) -> Result<Horizontal, DrawError> {
        Horizontal::of(self.marks().map(|mark| mark.x).chain(self.limit))
    }

    /// The points of the front by ascending x, each once.
    fn front(&self) -> Vec<(f64, f64)> {
        let on_front = self.marks().filter(|mark| mark.standing.is_on_front());
        let mut front: Vec<(f64, f64)> = on_front.map(|mark| (mark.x, mark.y)).collect();
        front.sort_by(|a, b| a.0.total_cmp(&b.0).then(b.1.total_cmp(&a.1)));
        front.dedup();
        front
    }
}

/// Draws one panel, and returns the hints of its points.
fn draw_panel(
    cell: &Area<'_>,
    scatter: &Scatter,
    details: &Details,
    panel: &ScatterPanel,
    x: &Horizontal,
) -> Result<Vec<Spot>, DrawError> {
    let y = scatter.scale.range(panel.marks().map(|mark| mark.y))?;
    let axes = panels::draw_axes(cell, &panel.title, x, y.clone(), scatter.scale)?;
    let at = |mark: &Mark| panels::place(&axes, cell, &(mark.x, mark.y));
    let [left, right] = x.ends();
    // What no point keeps is not a part of the front.
    let front_end = panel.limit.map_or(right, |limit| limit.min(right));
    let steps = staircase(&panel.front(), (front_end, y.end));
    let steps: Vec<Point> = steps.iter().map(|point| panels::place(&axes, cell, point)).collect();
    let bounds = [(left, y.end), (right, y.start)];
    let bounds = bounds.map(|corner| panels::place(&axes, cell, &corner));
    if let Some(limit) = panel.limit {
        let at = panels::place(&axes, cell, &(limit, y.start)).0;
        draw_limit(cell, [(at, bounds[0].1), (at, bounds[1].1)])?;
    }
    // Where many are at the same pixels, one is drawn; the best on top.
    let (mut drawn, mut spots) = (BTreeSet::new(), Vec::new());
    for is_front in [false, true] {
        if is_front && !steps.is_empty() {
            cell.draw(&PathElement::new(steps.clone(), INK.stroke_width(1)))?;
        }
        for (index, marks) in panel.series.iter().enumerate() {
            for mark in marks.iter().filter(|mark| mark.standing.is_on_front() == is_front) {
                if drawn.insert((mark.standing, index, at(mark))) {
                    marks::draw_standing(cell, index, mark.standing, at(mark))?;
                    spots.push(spot(cell, scatter, panel, index, mark, at(mark)));
                }
            }
        }
    }
    let named = panel.series.iter().enumerate().flat_map(|(series, marks)| {
        let name = scatter.series.get(series).filter(|_| scatter.named);
        marks.iter().enumerate().filter_map(move |(point, mark)| {
            let name = details.label(series, point).or(name)?;
            Some(Named { at: at(mark), name: name.clone(), bold: mark.standing.is_on_front() })
        })
    });
    names::draw(cell, named.collect(), bounds, &steps)?;
    Ok(spots)
}

/// The hint for the point `mark` of series number `index`, at `at` in `cell`.
fn spot(
    cell: &Area<'_>,
    scatter: &Scatter,
    panel: &ScatterPanel,
    index: usize,
    mark: &Mark,
    at: Point,
) -> Spot {
    let corner = cell.get_base_pixel();
    let series = scatter.series.get(index).cloned().unwrap_or_default();
    let standing = match mark.standing {
        Standing::OnFront => "on the Pareto front",
        Standing::Beaten => BEATEN,
        Standing::OverLimit => DOES_NOT_FIT,
        Standing::NotCompared => &scatter.not_compared,
    };
    let y = match scatter.scale {
        Scale::Rates => format!("{:.2}%", mark.y * 100.0),
        Scale::Amounts => panels::number(mark.y),
        Scale::Dollars(unit) => format!("${}{unit}", panels::number(mark.y)),
    };
    let x = format!("{:.3}", mark.x);
    Spot {
        at: (at.0 + corner.0, at.1 + corner.1),
        text: format!("{series}: {} {x}, {} {y}, {standing}", scatter.x_label, scatter.y_label),
        data: vec![
            ("panel", panel.title.clone()),
            ("series", series),
            ("x", mark.x.to_string()),
            ("y", mark.y.to_string()),
            ("standing", mark.standing.name().to_owned()),
        ],
    }
}

/// The border of the region that `front` beats, up to the corner `end`.
fn staircase(front: &[(f64, f64)], end: (f64, f64)) -> Vec<(f64, f64)> {
    if front.len() < 2 {
        return Vec::new();
    }
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
    use super::*;
    use crate::samples::check_svg;
    use answer::front::{Candidate, standings};

    #[test]
    fn stairs_go_down_to_each_point_and_then_across() {
        assert_eq!(staircase(&[(1.0, 5.0)], (4.0, 9.0)), [], "a point is not a line");
        let steps = staircase(&[(1.0, 5.0), (3.0, 2.0)], (4.0, 9.0));
        assert_eq!(steps, [(1.0, 9.0), (1.0, 5.0), (3.0, 5.0), (3.0, 2.0), (4.0, 2.0)]);
    }

    /// The points of the series of a panel, as they stand to each other.
    fn stood(series: &[Vec<(f64, f64)>]) -> Vec<Vec<Mark>> {
        let all: Vec<Candidate> =
            series.iter().flatten().map(|&at| Candidate::new(at, None)).collect();
        let mut standings = standings(&all).into_iter();
        let mut mark = |&(x, y): &(f64, f64)| Mark { x, y, standing: standings.next().unwrap() };
        series.iter().map(|points| points.iter().map(&mut mark).collect()).collect()
    }

    fn scatter(panels: Vec<Vec<Vec<(f64, f64)>>>) -> Scatter {
        let panel = |series: Vec<Vec<(f64, f64)>>| ScatterPanel {
            title: "6.2B".to_owned(),
            series: stood(&series),
            limit: None,
        };
        Scatter {
            title: "memory".to_owned(),
            x_label: "peak memory".to_owned(),
            y_label: "bubble rate".to_owned(),
            scale: Scale::Rates,
            series: vec!["1f1b".to_owned(), "zb-h1".to_owned(), "zb-2p".to_owned()],
            columns: 3,
            named: false,
            not_compared: "asynchronous".to_owned(),
            width: None,
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
        assert_eq!(drawn.matches("#0072B2").count(), 4);
        let last = drawn.rfind("<circle").unwrap();
        assert!(drawn[last..].contains("#0072B2"));
        assert_eq!(drawn.matches("class=\"spot\"").count(), 4);
        assert_eq!(drawn.matches("data-standing=\"front\"").count(), 2);
        check_svg(&svg(&scatter(vec![vec![vec![(1.0, 0.0)]]; 7])).unwrap());
    }

    #[test]
    fn the_front_goes_through_no_point_that_is_not_on_it() {
        let mut one = scatter(vec![vec![vec![(1.0, 0.2)], vec![(2.0, 0.1)], vec![(3.0, 0.3)]]]);
        let plain = svg(&one).unwrap();
        let stairs = |svg: &str| {
            let lines = svg.lines().filter(|line| line.starts_with("<polyline"));
            lines.map(|line| line.matches(',').count()).max().unwrap()
        };
        assert_eq!(stairs(&plain), 5);
        assert!(!plain.contains(DOES_NOT_FIT) && plain.contains(BEATEN));
        one.panels[0].series[1][0].standing = Standing::OverLimit;
        one.panels[0].series[2][0].standing = Standing::NotCompared;
        let drawn = svg(&one).unwrap();
        assert!(stairs(&drawn) < 3 && !drawn.contains(FRONT), "one point is left");
        for text in [DOES_NOT_FIT, "asynchronous"] {
            assert_eq!(drawn.matches(&format!("\n{text}\n")).count(), 1, "{text}");
        }
        assert!(!drawn.contains(BEATEN) && drawn.contains("on the front: 1f1b."));
    }

    #[test]
    fn every_point_is_named_and_the_limit_drawn() {
        let mut one = scatter(vec![vec![vec![(1.0, 0.2)], vec![(2.0, 0.3)], vec![(3.0, 0.1)]]]);
        assert!(!svg(&one).unwrap().contains(LIMIT));
        (one.named, one.panels[0].limit) = (true, Some(5.0));
        let drawn = svg(&one).unwrap();
        check_svg(&drawn);
        for text in [FRONT, LIMIT, BEATEN] {
            assert_eq!(drawn.matches(&format!("\n{text}\n")).count(), 1, "{text}");
        }
        // Each name stands at its point, and not in the legend.
        for text in ["1f1b", "zb-h1", "zb-2p"] {
            assert_eq!(drawn.matches(&format!("\n{text}\n")).count(), 1, "{text}");
        }
        assert_eq!(drawn.matches("<circle").count(), 1);
        // The front ends at the limit: to the right of it nothing is a choice.
        let front = |svg: &str| {
            let lines = svg.lines().filter(|line| line.starts_with("<polyline"));
            lines.max_by_key(|line| line.matches(',').count()).unwrap().to_owned()
        };
        one.panels[0].limit = Some(3.5);
        assert_ne!(front(&svg(&one).unwrap()), front(&drawn));
    }

    #[test]
    fn points_have_labels_and_notes_stand_below_the_legend() {
        let one = scatter(vec![vec![vec![(1.0, 0.2), (2.0, 0.1)], vec![(3.0, 0.3)]]]);
        let labels = vec![vec!["first".to_owned(), "second".to_owned()], vec!["third".to_owned()]];
        let notes = vec!["all within 5 %".to_owned()];
        let drawn = svg_with(&one, &Details { labels, notes }).unwrap();
        check_svg(&drawn);
        for text in ["first", "second", "third", "all within 5 %"] {
            assert_eq!(drawn.matches(&format!("\n{text}\n")).count(), 1, "{text}");
        }
        assert!(drawn.contains("all within 5 %.</desc>"));
    }

    #[test]
    fn a_picture_is_as_wide_as_it_is_asked_to_be() {
        let mut one = scatter(vec![vec![vec![(1.0, 0.2)], vec![(2.0, 0.1)]]; 3]);
        for width in [317, 900] {
            one.width = Some(format!("{width}px").parse().unwrap());
            let drawn = svg(&one).unwrap();
            check_svg(&drawn);
            assert!(drawn.contains(&format!(" width=\"{width}\" ")), "{width}");
        }
    }

    #[test]
    fn dollars_say_so() {
        let points = vec![(1.0, 510.0), (2.0, 1057.0)];
        let dollars = Scatter { scale: Scale::Dollars("k"), ..scatter(vec![vec![points]]) };
        assert!(svg(&dollars).unwrap().contains("\n$1000k\n"));
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
