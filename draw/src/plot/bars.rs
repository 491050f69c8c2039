//! Grouped bars, with published values as ticks across them.

use plotters::prelude::*;
use plotters::style::text_anchor::HPos;

use super::{
    FONT, LINE, SAMPLE, Scale, TITLE, axis_font, check_finite, draw_legend, draw_title,
    legend_height, letters, marks, percent, rates_from_zero,
};
use crate::DrawError;
use crate::canvas;
use crate::canvas::{About, Area, GRID, INK, Lettering, Spot, extent};

/// Groups of bars, one bar per series in each.
pub struct BarChart {
    /// The title above it.
    pub title: String,
    /// The label of the vertical axis, which is in percent.
    pub y_label: String,
    /// The names of the series, in the order in which every group has them; six have colours of
    /// their own.
    pub series: Vec<String>,
    /// The name of the ticks across the bars, such as `published`; in the legend where there is
    /// one.
    pub tick: String,
    /// A line below the legend, such as why some bars have no tick, or nothing.
    pub note: String,
    /// The groups, left to right.
    pub groups: Vec<BarGroup>,
}

/// The bars of one set-up.
pub struct BarGroup {
    /// The label below it; where labels do not fit, each of their words gets a line.
    pub label: String,
    /// One entry per series; `None` leaves a gap.
    pub bars: Vec<Option<Bar>>,
}

/// One bar.
#[derive(Clone, Copy)]
pub struct Bar {
    /// Its height as a rate (1 is 100%).
    pub rate: f64,
    /// Where a tick stands across it, as a rate.
    pub tick: Option<f64>,
}

impl Bar {
    fn rates(self) -> impl Iterator<Item = f64> {
        std::iter::once(self.rate).chain(self.tick)
    }
}

/// The widest and narrowest bar, in pixels.
const BAR: (i32, i32) = (28, 8);
/// The narrowest plot.
const MIN_PLOT: i32 = 480;
/// The most words of a label that get lines.
const LABEL_LINES: usize = 4;
/// Height of the axes.
const HEIGHT: i32 = 300;
/// Room below everything.
const MARGIN: i32 = 10;
/// Room for the vertical axis.
const LEFT: i32 = 72;

/// Colours by series, from dark to light so that they can be distinguished in grey.
const COLOURS: [RGBColor; 6] = [
    RGBColor(0x1B, 0x3A, 0x6B),
    RGBColor(0xA8, 0x3C, 0x1E),
    RGBColor(0x3F, 0x88, 0xC5),
    RGBColor(0xE0, 0x93, 0x2C),
    RGBColor(0x7F, 0xCF, 0xB4),
    RGBColor(0xF2, 0xE0, 0x7A),
];

/// Draws `chart`.
///
/// # Errors
/// If there is no bar in it, or one is not finite.
pub fn svg(chart: &BarChart) -> Result<String, DrawError> {
    let all = || chart.groups.iter().flat_map(|group| group.bars.iter().copied().flatten());
    if all().next().is_none() {
        return Err(DrawError::Empty { what: "no group has a bar" });
    }
    for (index, name) in chart.series.iter().enumerate() {
        let bars = chart.groups.iter().filter_map(|group| group.bars.get(index).copied().flatten());
        check_finite(name, bars.flat_map(Bar::rates))?;
    }
    let layout = Layout::of(chart);
    let mut names = chart.series.clone();
    names.extend(all().any(|bar| bar.tick.is_some()).then(|| chart.tick.clone()));
    let width = extent(LEFT + layout.group * layout.groups + LINE);
    let below = 2 * LINE + legend_height(&names, width);
    let head = below + if chart.note.is_empty() { 0 } else { LINE };
    let height = extent(head + HEIGHT + layout.label_lines * LINE + MARGIN);
    canvas::picture((width, height), &chart.about(), |area| {
        draw_title(area, &chart.title)?;
        draw_legend(area, &names, 2 * LINE - 4, |index, (x, y)| {
            let middle = (x + SAMPLE / 2, y);
            if index == chart.series.len() {
                return marks::draw_tick(area, middle, 20);
            }
            canvas::fill(area, (middle.0 - 7, y - 7), (middle.0 + 7, y + 7), colour(index))
        })?;
        if !chart.note.is_empty() {
            letters(HPos::Left).write(area, &chart.note, (canvas::pixel(TITLE), below - 4))?;
        }
        let middle = head + HEIGHT / 2;
        let upright = Lettering { upright: true, ..letters(HPos::Center) };
        upright.write(area, &chart.y_label, (LINE / 2 + 2, middle))?;
        draw_axes(&area.margin(head, 0, 0, 0), chart, &layout)
    })
}

impl BarChart {
    fn about(&self) -> About {
        let groups: Vec<&str> = self.groups.iter().map(|group| group.label.as_str()).collect();
        About::new(
            self.title.clone(),
            format!(
                "{} of {}, for {}.{}",
                self.y_label,
                self.series.join(", "),
                groups.join("; "),
                if self.note.is_empty() { String::new() } else { format!(" {}.", self.note) }
            ),
        )
    }
}

fn colour(series: usize) -> RGBColor {
    COLOURS[series % COLOURS.len()]
}

/// Sizes in pixels.
struct Layout {
    bar: i32,
    /// Width of a group with the space around it.
    group: i32,
    groups: i32,
    label_lines: i32,
    labels: Vec<Vec<String>>,
}

impl Layout {
    fn of(chart: &BarChart) -> Self {
        let count = |count: usize| i32::try_from(count).unwrap_or(i32::MAX).max(1);
        let (groups, series) = (count(chart.groups.len()), count(chart.series.len()));
        let bar = (1_100 / groups / (series + 2)).clamp(BAR.1, BAR.0);
        let group = (bar * (series + 2)).max(MIN_PLOT / groups);
        let room = f64::from(group) - FONT;
        let labels = chart.groups.iter().map(|one| one.label.as_str());
        let labels = break_labels(labels, room);
        let label_lines = count(labels.iter().map(Vec::len).max().unwrap_or(0));
        Self { bar, group, groups, label_lines, labels }
    }
}

/// The lines of each label: one if all labels fit into `room` pixels, else one per word, so that all
/// break in the same way. A word that is too long is shortened.
fn break_labels<'a>(labels: impl Iterator<Item = &'a str> + Clone, room: f64) -> Vec<Vec<String>> {
    let whole = labels.clone().all(|label| canvas::width(label, FONT) <= room);
    let lines = |label: &'a str| -> Vec<String> {
        if whole {
            return vec![label.to_owned()];
        }
        let words = label.split_whitespace().take(LABEL_LINES);
        words.map(|word| canvas::fit(word, FONT, room)).collect()
    };
    labels.map(lines).collect()
}

/// Draws everything below the legend, and returns the hints of the bars.
fn draw_axes(area: &Area<'_>, chart: &BarChart, layout: &Layout) -> Result<Vec<Spot>, DrawError> {
    let all = chart.groups.iter().flat_map(|group| group.bars.iter().copied().flatten());
    let range = rates_from_zero(all.flat_map(Bar::rates));
    let axis = f64::from(layout.groups);
    let mut axes = ChartBuilder::on(area)
        .margin_top(8)
        .margin_right(LINE)
        .margin_bottom(MARGIN)
        .x_label_area_size(layout.label_lines * LINE)
        .y_label_area_size(LEFT)
        .build_cartesian_2d(0.0..axis, range.clone())?;
    let mut mesh = axes.configure_mesh();
    mesh.disable_x_mesh().x_labels(0).y_labels(8).axis_style(INK);
    mesh.light_line_style(TRANSPARENT).bold_line_style(GRID).label_style(axis_font());
    let decimals = Scale::Rates.decimals(&range, 8);
    mesh.y_label_formatter(&|rate| percent(*rate, decimals)).draw()?;
    let corner = area.get_base_pixel();
    let place = |rate: f64| {
        let at = axes.plotting_area().map_coordinate(&(0.0, rate));
        (at.0 - corner.0, at.1 - corner.1)
    };
    let mut left = place(0.0).0;
    let bottom = place(range.start).1;
    let mut spots = Vec::new();
    for (group, label) in chart.groups.iter().zip(&layout.labels) {
        spots.extend(draw_group(area, chart, layout, group, left, |rate| place(rate).1)?);
        for (line, text) in (0..).zip(label) {
            let at = (left + layout.group / 2, bottom + LINE * line + LINE / 2 + 4);
            letters(HPos::Center).write(area, text, at)?;
        }
        left += layout.group;
    }
    Ok(spots)
}

/// Draws the bars of `group` in the middle of its place, which begins at `left`, and returns their
/// hints.
fn draw_group(
    area: &Area<'_>,
    chart: &BarChart,
    layout: &Layout,
    group: &BarGroup,
    left: i32,
    height: impl Fn(f64) -> i32,
) -> Result<Vec<Spot>, DrawError> {
    let (corner, mut spots) = (area.get_base_pixel(), Vec::new());
    let count = i32::try_from(group.bars.len()).unwrap_or(i32::MAX);
    let start = left + (layout.group - layout.bar.saturating_mul(count)) / 2;
    for (index, (bar, number)) in group.bars.iter().zip(0..).enumerate() {
        let Some(bar) = bar else { continue };
        let x = start + layout.bar * number;
        let (zero, end) = (height(0.0), height(bar.rate));
        let corners = [(x, zero.min(end)), (x + layout.bar - 1, zero.max(end))];
        canvas::fill(area, corners[0], corners[1], colour(index))?;
        if let Some(tick) = bar.tick {
            marks::draw_tick(area, (x + (layout.bar - 1) / 2, height(tick)), layout.bar + 1)?;
        }
        let at = (x + layout.bar / 2 + corner.0, end + corner.1);
        spots.push(spot(chart, group, index, *bar, at));
    }
    Ok(spots)
}

/// The hint for the bar of series number `index`, whose end is `at`.
fn spot(chart: &BarChart, group: &BarGroup, index: usize, bar: Bar, at: canvas::Point) -> Spot {
    let series = chart.series.get(index).cloned().unwrap_or_default();
    let rate = |rate: f64| format!("{:.2}%", rate * 100.0);
    let tick = bar.tick.map(|tick| format!(", {} {}", chart.tick, rate(tick)));
    let mut data = vec![
        ("panel", group.label.clone()),
        ("series", series.clone()),
        ("y", bar.rate.to_string()),
    ];
    data.extend(bar.tick.map(|tick| ("tick", tick.to_string())));
    let text = format!("{series}, {}: {}{}", group.label, rate(bar.rate), tick.unwrap_or_default());
    Spot { at, text, data }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::samples::{check_svg, rectangles};

    fn chart(rates: &[Option<f64>]) -> BarChart {
        let bar = |rate: &Option<f64>| rate.map(|rate| Bar { rate, tick: Some(rate * 0.9) });
        let group = |p: u32| BarGroup {
            label: format!("28.3B p={p} m={}", 3 * p),
            bars: rates.iter().map(bar).collect(),
        };
        BarChart {
            title: "rates".to_owned(),
            y_label: "bubble rate".to_owned(),
            series: (0..rates.len()).map(|series| format!("series {series}")).collect(),
            tick: "published".to_owned(),
            note: "a note".to_owned(),
            groups: (1..=12).map(group).collect(),
        }
    }

    #[test]
    fn every_bar_and_tick_is_drawn_inside_the_picture() {
        let drawn = svg(&chart(&[Some(0.25), None, Some(0.0), Some(0.12), Some(0.1)])).unwrap();
        check_svg(&drawn);
        let published = drawn.matches("fill=\"#000000\"").count();
        assert_eq!(published, 12 * 4 + 1);
        assert!(drawn.contains("\na note\n") && drawn.contains("a note.</desc>"));
        let dark = rectangles(&drawn).into_iter().filter(|one| one.fill == "#1B3A6B");
        let heights: Vec<i32> = dark.map(|one| one.size.1).collect();
        assert!(heights.len() == 13 && heights[1..].iter().all(|&height| height > 200));
    }

    #[test]
    fn labels_stay_within_their_group() {
        let labels = ["1.5B m=8", "28.3B p=32 m=256"].into_iter();
        let lines = break_labels(labels.clone(), 100.0);
        assert_eq!(lines, [vec!["1.5B", "m=8"], vec!["28.3B", "p=32", "m=256"]]);
        assert_eq!(break_labels(labels, 200.0)[1], ["28.3B p=32 m=256"]);
        assert!(break_labels(["averyverylongword x"].into_iter(), 60.0)[0][0].ends_with('…'));
    }

    #[test]
    fn what_has_no_place_is_refused() {
        assert!(matches!(svg(&chart(&[None])), Err(DrawError::Empty { .. })));
        let nan = svg(&chart(&[Some(0.1), Some(f64::NAN)]));
        assert!(matches!(nan, Err(DrawError::NotFinite { name }) if name == "series 1"));
    }
}
