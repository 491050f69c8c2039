//! Predicted against measured, both on logarithmic axes, with the line where they agree.

use plotters::prelude::*;
use plotters::style::text_anchor::HPos;
use question::format;

use super::panels::number;
use super::{
    FONT, LINE, SAMPLE, check_finite, draw_legend, draw_title, legend_height, letters, marks,
};
use crate::DrawError;
use crate::canvas::{self, About, Area, GRID, INK, Lettering, Point, Spot, extent, pixel};

/// Side of the plot, in pixels, and of that of points that stand apart.
const SIDE: i32 = 560;
const SIDE_APART: i32 = 340;
/// Room to its left for labels, and to its right.
const LEFT: i32 = 76;
const RIGHT: i32 = 20;
/// The colour of the band around the line.
const BAND: RGBColor = RGBColor(0xEC, 0xF1, 0xF6);

/// The colour of points that stand apart.
const GREY: RGBColor = RGBColor(0x80, 0x80, 0x80);

/// Points with two values of one quantity.
pub struct Agreement {
    /// The title.
    pub title: String,
    /// The label of the horizontal axis, with its unit.
    pub x_label: String,
    /// The label of the vertical axis, with its unit.
    pub y_label: String,
    /// The names of the series, in the order of their markers.
    pub series: Vec<String>,
    /// How wide the band around the line is, as a share of a value; in it, both agree well enough.
    pub band: f64,
    /// The points.
    pub points: Vec<Pair>,
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

/// Draws `chart`.
///
/// # Errors
/// If there is no point, or one is not finite or not more than zero.
pub fn svg(chart: &Agreement) -> Result<String, DrawError> {
    let own = LEFT + SIDE + RIGHT;
    let beside = chart.apart.as_ref().map_or(0, |_| LEFT + SIDE_APART + RIGHT);
    let width = extent(own + beside);
    let top = 2 * LINE + legend_height(&chart.series, width);
    let axes = Axes::of(&chart.title, &chart.points, (LEFT, top), SIDE)?;
    let height = extent(top + SIDE + 3 * LINE);
    canvas::picture((width, height), &chart.about(), |area| {
        draw_title(area, &chart.title)?;
        draw_legend(area, &chart.series, 2 * LINE - 4, |index, (x, y)| {
            marks::draw_marker(area, index, (x + SAMPLE / 2, y))
        })?;
        axes.draw(area, chart)?;
        let mut spots = Vec::with_capacity(chart.points.len());
        for pair in &chart.points {
            let at = axes.place(pair.across, pair.up);
            marks::draw_marker(area, pair.series, at)?;
            let series = chart.series.get(pair.series).map_or("", String::as_str);
            spots.push(spot(series, pair, at));
        }
        if let Some(apart) = &chart.apart {
            spots.extend(draw_apart(area, chart, apart, (own, top + SIDE))?);
        }
        Ok(spots)
    })
}

/// Draws the panel of points that are not compared, from `left` on and with its axis at `bottom`, and
/// returns their hints.
fn draw_apart(
    area: &Area<'_>,
    chart: &Agreement,
    apart: &Apart,
    (left, bottom): Point,
) -> Result<Vec<Spot>, DrawError> {
    let corner = (left + LEFT, bottom - SIDE_APART);
    let axes = Axes::of(&apart.title, &apart.points, corner, SIDE_APART)?;
    axes.draw(area, chart)?;
    #[allow(clippy::cast_possible_truncation, clippy::cast_sign_loss)] // A few dozen.
    let columns = (f64::from(SIDE_APART) / canvas::width("m", FONT)) as usize;
    let reason = format::wrapped(&apart.reason, columns, "");
    let mut y = corner.1 - LINE * (1 + i32::try_from(reason.lines().count()).unwrap_or(0));
    let bold = Lettering { bold: true, ..letters(HPos::Left) };
    bold.write(area, &apart.title, (corner.0, y))?;
    for line in reason.lines() {
        y += LINE;
        letters(HPos::Left).write(area, line, (corner.0, y))?;
    }
    let mut spots = Vec::with_capacity(apart.points.len());
    for pair in &apart.points {
        let at = axes.place(pair.across, pair.up);
        area.draw(&Circle::new(at, 4, GREY.filled()))?;
        spots.push(spot(&apart.title, pair, at));
    }
    Ok(spots)
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
        let edge = |share: f64| [(low, low * share), (high, high * share)];
        let inside = |(x, y): (f64, f64)| self.place(x, y.clamp(low, high));
        let [a, b] = edge(1.0 + chart.band).map(inside);
        let [c, d] = edge(1.0 - chart.band).map(inside);
        area.draw(&Polygon::new(vec![a, b, d, c], BAND.filled()))?;
        for tick in self.ticks() {
            let label = number(tick);
            let [from, to] = [self.place(tick, low), self.place(tick, high)];
            canvas::line(area, [from, to], GRID, 1)?;
            letters(HPos::Center).write(area, &label, (from.0, from.1 + LINE / 2 + 2))?;
            let [from, to] = [self.place(low, tick), self.place(high, tick)];
            canvas::line(area, [from, to], GRID, 1)?;
            letters(HPos::Right).write(area, &label, (from.0 - 6, from.1))?;
        }
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

    fn chart(points: Vec<Pair>) -> Agreement {
        Agreement {
            title: "Steps".to_owned(),
            x_label: "measured, s".to_owned(),
            y_label: "predicted, s".to_owned(),
            series: vec!["a".to_owned(), "b".to_owned()],
            band: 0.1,
            points,
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
        crate::samples::check_svg(&drawn);
        assert_eq!(drawn.matches("fill=\"#808080\"").count(), 2);
        assert_eq!(drawn.matches("class=\"spot\"").count(), 3);
        assert!(drawn.contains("\nanother network\n") && !alone.contains("far off"));
        // They do not stretch the axes of compared points.
        let first =
            |svg: &str| svg.lines().find(|line| line.starts_with("<circle")).map(str::to_owned);
        assert_eq!(first(&drawn), first(&alone));
    }

    #[test]
    fn what_cannot_be_drawn_is_an_error() {
        assert!(svg(&chart(vec![])).is_err());
        assert!(svg(&chart(vec![pair(0, 0.0, 1.0)])).is_err());
        assert!(svg(&chart(vec![pair(0, 1.0, f64::NAN)])).is_err());
    }
}
