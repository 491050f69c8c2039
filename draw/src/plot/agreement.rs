//! Predicted against measured, both on logarithmic axes, with the line where they agree.

use plotters::element::DashedPathElement;
use plotters::prelude::*;
use plotters::style::text_anchor::HPos;

use super::panels::number;
use super::{FONT, Head, LINE, SAMPLE, check_finite, count, letters, marks, wrapped};
use crate::canvas::{self, About, Area, GRID, INK, Lettering, Point, Spot, extent, pixel};
use crate::{DrawError, Width, width};

/// Side of the plot, in pixels, and of that of points that stand apart.
const SIDE: i32 = 560;
const SIDE_APART: i32 = 340;
/// Room to its left for labels, and to its right.
const LEFT: i32 = 76;
const RIGHT: i32 = 20;
/// The least space between labels of an axis.
const GAP: i32 = 4;
/// The narrowest plots that stand side by side, in pixels.
const NARROWEST: i32 = 200;
/// The colour of the band around the line, and that of its edges.
const BAND: RGBColor = RGBColor(0xE3, 0xEC, 0xF5);
pub(super) const EDGE: RGBColor = RGBColor(0x5F, 0x80, 0xA3);

/// The colour of points that stand apart.
pub(super) const GREY: RGBColor = RGBColor(0x80, 0x80, 0x80);

/// Points with two values of one quantity.
pub struct Agreement {
    pub title: String,
    /// The label of the horizontal axis, with its unit.
    pub x_label: String,
    /// The label of the vertical axis, with its unit.
    pub y_label: String,
    /// The names of the series, in the order of their markers.
    pub series: Vec<String>,
    /// How wide the band around the line is, as a share of a value; in it, both agree well enough.
    pub band: f64,
    pub points: Vec<Pair>,
    /// The width of the picture; without one, as wide as its panels are.
    pub width: Option<Width>,
    /// The points that stand in a panel of their own, where there are some.
    pub apart: Option<Apart>,
}

/// Points that are not compared: in grey, on axes of their own.
pub struct Apart {
    /// Title of the group.
    pub title: String,
    /// Why they are not compared.
    pub reason: String,
    /// The points, of a series each, which is not in the legend.
    pub points: Vec<Pair>,
}

/// A point: two values of one thing.
#[derive(Clone, PartialEq, Debug)]
pub struct Pair {
    /// The number of its series.
    pub series: usize,
    /// Name of the point.
    pub name: String,
    /// The value across, more than zero.
    pub across: f64,
    /// The value up, more than zero.
    pub up: f64,
}

/// The range of both axes, and their position.
#[derive(Clone, Copy)]
struct Axes {
    /// Logarithms of the ends.
    low: f64,
    high: f64,
    left: i32,
    top: i32,
    side: i32,
}

/// The sides of the plot and of that of points that stand apart, and the width of the picture, in pixels.
#[derive(Clone, Copy)]
struct Sizes {
    side: i32,
    apart: i32,
    width: i32,
    /// Whether the plots stand side by side.
    beside: bool,
}

impl Sizes {
    fn of(chart: &Agreement) -> Self {
        let around = LEFT + RIGHT;
        let (plots, around_all) = match chart.apart {
            Some(_) => (SIDE + SIDE_APART, 2 * around),
            None => (SIDE, around),
        };
        let Some(width) = chart.width.map(Width::room) else {
            let width = plots + around_all;
            return Self { side: SIDE, apart: SIDE_APART, width, beside: true };
        };
        let share = |side: i32| (width - around_all) * side / plots;
        if chart.apart.is_some() && share(SIDE_APART) < NARROWEST {
            let side = width - around;
            return Self { side, apart: side, width, beside: false };
        }
        Self { side: share(SIDE), apart: share(SIDE_APART), width, beside: true }
    }
}

pub fn svg(chart: &Agreement) -> Result<String, DrawError> {
    let sizes = Sizes::of(chart);
    let mut names = chart.series.clone();
    names.push(format!("within {:.0} %", 100.0 * chart.band));
    let head = Head::of(&chart.title, &names, &[], extent(sizes.width));
    let axes = Axes::of(&chart.title, &chart.points, (LEFT, head.height()), sizes.side)?;
    let apart = chart.apart.as_ref().map(|apart| Panel::of(apart, &axes, sizes)).transpose()?;
    let below = apart.as_ref().map_or(0, |panel| panel.axes.bottom()).max(axes.bottom());
    let size = (extent(sizes.width), extent(below + 3 * LINE));
    let svg = canvas::picture(size, &chart.about(), |area| {
        head.draw(area, |index, (x, y)| match index == chart.series.len() {
            true => draw_band(area, [-4, 4].map(|side| [(x, y + side), (x + SAMPLE, y + side)])),
            false => marks::draw_marker(area, index, (x + SAMPLE / 2, y)),
        })?;
        axes.draw(area, chart)?;
        let mut spots = Vec::with_capacity(chart.points.len());
        for pair in &chart.points {
            let at = axes.place(pair.across, pair.up);
            marks::draw_marker(area, pair.series, at)?;
            let series = chart.series.get(pair.series).map_or("", String::as_str);
            spots.push(spot(series, pair, at));
        }
        if let Some(panel) = &apart {
            spots.extend(panel.draw(area, chart)?);
        }
        Ok(spots)
    })?;
    Ok(width::printed(svg, size, chart.width))
}

/// Draws a band between two lines.
fn draw_band(area: &Area<'_>, [one, other]: [[Point; 2]; 2]) -> Result<(), DrawError> {
    let corners = vec![one[0], one[1], other[1], other[0]];
    area.draw(&Polygon::new(corners, BAND.filled()))?;
    for edge in [one, other] {
        area.draw(&DashedPathElement::new(edge, 5, 3, EDGE.stroke_width(1)))?;
    }
    Ok(())
}

/// The panel of points that are not compared.
struct Panel<'a> {
    apart: &'a Apart,
    axes: Axes,
    /// Why they are not compared, in lines.
    reason: Vec<String>,
}

impl<'a> Panel<'a> {
    /// The panel beside `axes` or below them.
    fn of(apart: &'a Apart, axes: &Axes, sizes: Sizes) -> Result<Self, DrawError> {
        let reason = wrapped(&apart.reason, FONT, f64::from(sizes.apart));
        let corner = match sizes.beside {
            true => (sizes.side + 2 * LEFT + RIGHT, axes.bottom() - sizes.apart),
            false => (LEFT, axes.bottom() + LINE * (6 + count(reason.len()))),
        };
        let axes = Axes::of(&apart.title, &apart.points, corner, sizes.apart)?;
        Ok(Self { apart, axes, reason })
    }

    /// Draws it, and returns the hints of its points.
    fn draw(&self, area: &Area<'_>, chart: &Agreement) -> Result<Vec<Spot>, DrawError> {
        let Self { apart, axes, reason } = self;
        axes.draw(area, chart)?;
        let mut y = axes.top - LINE * (1 + count(reason.len()));
        let bold = Lettering { bold: true, ..letters(HPos::Left) };
        bold.write(area, &apart.title, (axes.left, y))?;
        for line in reason {
            y += LINE;
            letters(HPos::Left).write(area, line, (axes.left, y))?;
        }
        let mut spots = Vec::with_capacity(apart.points.len());
        for pair in &apart.points {
            let at = axes.place(pair.across, pair.up);
            area.draw(&Circle::new(at, 4, GREY.filled()))?;
            spots.push(spot(&apart.title, pair, at));
        }
        Ok(spots)
    }
}

impl Axes {
    /// Axes of `points`, whose corner at the top left is given.
    fn of(name: &str, points: &[Pair], (left, top): Point, side: i32) -> Result<Self, DrawError> {
        let logarithms = |pair: &Pair| [pair.across.ln(), pair.up.ln()];
        check_finite(name, points.iter().flat_map(logarithms))?;
        let (low, high) = points
            .iter()
            .flat_map(logarithms)
            .fold((f64::MAX, f64::MIN), |(low, high), one| (low.min(one), high.max(one)));
        if low > high {
            return Err(DrawError::Empty { what: "nothing was measured" });
        }
        Ok(Self { low: low - 0.2, high: high + 0.2, left, top, side })
    }

    /// Where the axis across lies.
    const fn bottom(self) -> i32 {
        self.top + self.side
    }

    /// The position of `value` along an axis, in pixels.
    fn along(self, value: f64) -> i32 {
        pixel((value.ln() - self.low) / (self.high - self.low) * f64::from(self.side))
    }

    fn place(self, across: f64, up: f64) -> Point {
        (self.left + self.along(across), self.top + self.side - self.along(up))
    }

    /// One, two and five of every power of ten between the ends.
    fn ticks(self) -> impl Iterator<Item = f64> {
        let all = (-9..=9).flat_map(|power| [1.0, 2.0, 5.0].map(|one| one * 10f64.powi(power)));
        all.filter(move |tick| (self.low..=self.high).contains(&tick.ln()))
    }

    fn draw(self, area: &Area<'_>, chart: &Agreement) -> Result<(), DrawError> {
        let [low, high] = [self.low, self.high].map(f64::exp);
        let mut free = i32::MIN;
        for tick in self.ticks() {
            let label = number(tick);
            let [from, to] = [self.place(tick, low), self.place(tick, high)];
            canvas::line(area, [from, to], GRID, 1)?;
            let half = pixel(canvas::width(&label, FONT) / 2.0);
            if from.0 - half > free {
                letters(HPos::Center).write(area, &label, (from.0, from.1 + LINE / 2 + 2))?;
                free = from.0 + half + GAP;
            }
            let [from, to] = [self.place(low, tick), self.place(high, tick)];
            canvas::line(area, [from, to], GRID, 1)?;
            letters(HPos::Right).write(area, &label, (from.0 - 6, from.1))?;
        }
        // Both edges of the band end where they leave the axes.
        let factors = [1.0 + chart.band, 1.0 / (1.0 - chart.band)];
        let [above, below] = factors.map(|factor| [(low, low * factor), (high / factor, high)]);
        let below = below.map(|(up, across)| (across, up));
        draw_band(area, [above, below].map(|ends| ends.map(|(x, y)| self.place(x, y))))?;
        canvas::line(area, [self.place(low, low), self.place(high, high)], INK, 1)?;
        for [from, to] in [[(low, low), (high, low)], [(low, low), (low, high)]] {
            canvas::line(area, [self.place(from.0, from.1), self.place(to.0, to.1)], INK, 1)?;
        }
        let bottom = (self.left + self.side / 2, self.top + self.side + 2 * LINE);
        letters(HPos::Center).write(area, &chart.x_label, bottom)?;
        let upright = Lettering { upright: true, ..letters(HPos::Center) };
        let beside = (self.left - LEFT + LINE / 2 + 2, self.top + self.side / 2);
        upright.write(area, &chart.y_label, beside)
    }
}

impl Agreement {
    fn about(&self) -> About {
        let Self { x_label, y_label, series, points, .. } = self;
        let apart = self.apart.as_ref().map(|apart| {
            let Apart { title, reason, points } = apart;
            let count = points.len();
            format!(" In a panel of its own, {title}, {count} points: {reason}.")
        });
        let description = format!(
            "Across: {x_label}. Up: {y_label}. Both axes are logarithmic; on the line both agree, in the \
             band within {:.0} %. {} points: {}.{}",
            100.0 * self.band,
            points.len(),
            series.join(", "),
            apart.unwrap_or_default()
        );
        About::new(self.title.clone(), description)
    }
}

/// The hint for `pair` of a `series`, which is drawn at `at`.
fn spot(series: &str, pair: &Pair, at: Point) -> Spot {
    let Pair { name, across, up, .. } = pair;
    let off = 100.0 * (up / across - 1.0);
    let text =
        format!("{series}: {name}: {across:.3} s measured, {up:.3} s predicted, {off:+.1} %");
    let data = vec![
        ("series", series.to_owned()),
        ("name", name.clone()),
        ("x", across.to_string()),
        ("y", up.to_string()),
    ];
    Spot { at, text, data }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::samples::check_svg;

    fn chart(points: Vec<Pair>) -> Agreement {
        Agreement {
            title: "Steps".to_owned(),
            x_label: "measured, s".to_owned(),
            y_label: "predicted, s".to_owned(),
            series: vec!["a".to_owned(), "b".to_owned()],
            band: 0.1,
            points,
            width: None,
            apart: None,
        }
    }

    fn pair(series: usize, across: f64, up: f64) -> Pair {
        Pair { series, name: "run & more".to_owned(), across, up }
    }

    #[test]
    fn equal_values_lie_on_the_line() {
        let (low, high) = (0.1f64.ln(), 100f64.ln());
        let axes = Axes { low, high, left: LEFT, top: 50, side: SIDE };
        for value in [0.2, 1.0, 7.0, 80.0] {
            let (x, y) = axes.place(value, value);
            assert!(((x - LEFT) - (axes.top + SIDE - y)).abs() <= 1, "{x} {y}");
        }
        let ticks: Vec<f64> = axes.ticks().collect();
        assert_eq!(ticks.len(), 10);
        assert!(ticks.first().is_some_and(|tick| (tick - 0.1).abs() < 1e-12));
    }

    #[test]
    fn every_point_says_what_it_is() {
        let svg = svg(&chart(vec![pair(0, 1.0, 1.1), pair(1, 20.0, 18.0)])).unwrap();
        assert_eq!(svg.matches("class=\"spot\"").count(), 2);
        assert!(svg.contains("run &amp; more") && svg.contains("-10.0 %"), "{svg}");
    }

    #[test]
    fn points_apart_have_a_panel_and_the_reason() {
        let mut one = chart(vec![pair(0, 1.0, 1.1)]);
        let alone = svg(&one).unwrap();
        one.apart = Some(Apart {
            title: "far off".to_owned(),
            reason: "another network".to_owned(),
            points: vec![pair(0, 1.0, 40.0), pair(0, 2.0, 3.0)],
        });
        let drawn = svg(&one).unwrap();
        check_svg(&drawn);
        assert_eq!(drawn.matches("fill=\"#808080\"").count(), 2);
        assert_eq!(drawn.matches("class=\"spot\"").count(), 3);
        assert!(drawn.contains("\nanother network\n") && !alone.contains("far off"));
        // They do not stretch the axes of compared points.
        let first =
            |svg: &str| svg.lines().find(|line| line.starts_with("<circle")).map(str::to_owned);
        assert_eq!(first(&drawn), first(&alone));
    }

    #[test]
    fn panels_stand_below_each_other_where_the_picture_is_narrow() {
        let mut one = chart(vec![pair(0, 1.0, 1.1), pair(1, 20.0, 18.0)]);
        let (title, reason) = ("far off".to_owned(), "another network".to_owned());
        one.apart = Some(Apart { title, reason, points: vec![pair(0, 1.0, 40.0)] });
        for (width, beside) in [("1col", false), ("2col", true), ("1200px", true)] {
            one.width = Some(width.parse().unwrap());
            let drawn = svg(&one).unwrap();
            check_svg(&drawn);
            assert_eq!(Sizes::of(&one).beside, beside, "{width}");
        }
    }

    #[test]
    fn what_cannot_be_drawn_is_an_error() {
        assert!(svg(&chart(vec![])).is_err());
        assert!(svg(&chart(vec![pair(0, 0.0, 1.0)])).is_err());
        assert!(svg(&chart(vec![pair(0, 1.0, f64::NAN)])).is_err());
    }
}
