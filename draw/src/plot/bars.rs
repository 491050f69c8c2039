//! Grouped bars, with published values as ticks across them.

use plotters::prelude::*;
use plotters::style::text_anchor::HPos;

use super::{
    FONT, Head, LINE, SAMPLE, Scale, axis_font, check_finite, count, letters, marks, percent,
    rates_from_zero, wrapped,
};
use crate::canvas;
use crate::canvas::{About, Area, GRID, INK, Lettering, Spot, extent};
use crate::{DrawError, Width, width};

/// Groups of bars, one bar per series in each.
pub struct BarChart {
    /// The title above it.
    pub title: String,
    /// The label of the horizontal axis: what the labels of groups say.
    pub x_label: String,
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
    /// The width of the picture, whose groups stand in as many rows as that needs; without one, all stand in one.
    pub width: Option<Width>,
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
/// The narrowest plot of a picture whose width is not given.
const MIN_PLOT: i32 = 480;
/// The most words of a label that get lines.
const LABEL_LINES: usize = 4;
/// Height of the axes where all groups stand in one row, and where they do not.
const HEIGHTS: [i32; 2] = [300, 220];
/// Room below everything, and above the label of the horizontal axis.
const MARGIN: i32 = 10;
const GAP: i32 = 6;
/// Room for the vertical axis.
const LEFT: i32 = 72;
/// Bars that are lower than so many pixels have their figure above them, in letters of that size.
const LOW: i32 = 7;
const FIGURE: f64 = 10.0;

/// Colours by series, with a contrast of 3 : 1 on white, and distinguishable in grey.
pub(super) const COLOURS: [RGBColor; 6] = [
    RGBColor(0x06, 0x12, 0x4A),
    RGBColor(0x97, 0x20, 0x0A),
    RGBColor(0x8A, 0x2B, 0xD6),
    RGBColor(0xBC, 0x7F, 0x00),
    RGBColor(0x38, 0x81, 0x99),
    RGBColor(0x58, 0x13, 0x2E),
];

pub fn svg(chart: &BarChart) -> Result<String, DrawError> {
    if chart.bars().next().is_none() {
        return Err(DrawError::Empty { what: "no group has a bar" });
    }
    for (index, name) in chart.series.iter().enumerate() {
        let bars = chart.groups.iter().filter_map(|group| group.bars.get(index).copied().flatten());
        check_finite(name, bars.flat_map(Bar::rates))?;
    }
    let layout = Layout::of(chart);
    let width = extent(layout.width);
    let tick = chart.bars().any(|bar| bar.tick.is_some()).then(|| chart.tick.clone());
    // One series is what the axis says.
    let mut names =
        if chart.series.len() + tick.iter().len() > 1 { chart.series.clone() } else { Vec::new() };
    names.extend(tick);
    let notes = Some(chart.note.clone()).filter(|note| !note.is_empty());
    let head = Head::of(&chart.title, &names, notes.as_slice(), width);
    let x_label = wrapped(&chart.x_label, FONT, f64::from(layout.width) - FONT);
    let rows = count(chart.groups.len().div_ceil(layout.across));
    let below = head.height() + layout.row() * rows;
    let size = (width, extent(below + LINE * count(x_label.len()) + MARGIN + GAP));
    let svg = canvas::picture(size, &chart.about(), |area| {
        head.draw(area, |index, at| chart.sample(area, index, at))?;
        for (line, text) in (0..).zip(&x_label) {
            let at = (layout.width / 2, below + GAP + LINE * line + LINE / 2);
            letters(HPos::Center).write(area, text, at)?;
        }
        draw_rows(area, chart, &layout, head.height())
    })?;
    Ok(width::printed(svg, size, chart.width))
}

/// Draws the rows of groups from `top` on, and returns the hints of the bars.
fn draw_rows(
    area: &Area<'_>,
    chart: &BarChart,
    layout: &Layout,
    mut top: i32,
) -> Result<Vec<Spot>, DrawError> {
    let mut spots = Vec::new();
    let rows = chart.groups.chunks(layout.across).zip(layout.labels.chunks(layout.across));
    for (groups, labels) in rows {
        let upright = Lettering { upright: true, ..letters(HPos::Center) };
        upright.write(area, &chart.y_label, (LINE / 2 + 2, top + layout.height / 2))?;
        let row = area.clone().shrink((0, top), (extent(layout.width), extent(layout.row())));
        spots.extend(draw_axes(&row, chart, layout, groups, labels)?);
        top += layout.row();
    }
    Ok(spots)
}

impl BarChart {
    fn bars(&self) -> impl Iterator<Item = Bar> {
        self.groups.iter().flat_map(|group| group.bars.iter().copied().flatten())
    }

    /// Draws the sample of the legend's entry `index` at `at`.
    fn sample(
        &self,
        area: &Area<'_>,
        index: usize,
        (x, y): canvas::Point,
    ) -> Result<(), DrawError> {
        let middle = x + SAMPLE / 2;
        if index == self.series.len() {
            return marks::draw_tick(area, (middle, y), 20);
        }
        canvas::fill(area, (middle - 7, y - 7), (middle + 7, y + 7), colour(index))
    }

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
    /// Width of the picture.
    width: i32,
    bar: i32,
    /// Width of a group with the space around it.
    group: i32,
    /// Groups in a row.
    across: usize,
    /// Height of a row without its labels.
    height: i32,
    label_lines: i32,
    labels: Vec<Vec<String>>,
}

impl Layout {
    fn of(chart: &BarChart) -> Self {
        let groups = chart.groups.len().max(1);
        let places = count(chart.series.len().max(1) + 2);
        let across = chart.width.map_or(groups, |width| across(chart, width.room()));
        let (bar, group) = match chart.width {
            None => {
                let bar = (1_100 / count(groups) / places).clamp(BAR.1, BAR.0);
                (bar, (bar * places).max(MIN_PLOT / count(groups)).max(longest_word(chart)))
            }
            Some(width) => {
                let group = (width.room() - LEFT - LINE) / count(across);
                ((group / places).clamp(1, BAR.0), group)
            }
        };
        let width = chart.width.map_or(LEFT + group * count(across) + LINE, Width::room);
        let labels = chart.groups.iter().map(|one| one.label.as_str());
        let labels = break_labels(labels, f64::from(group) - FONT);
        let label_lines = count(labels.iter().map(Vec::len).max().unwrap_or(0));
        let height = HEIGHTS[usize::from(across < groups)];
        Self { width, bar, group, across, height, label_lines, labels }
    }

    /// Height of a row of groups with its labels.
    fn row(&self) -> i32 {
        self.height + self.label_lines * LINE
    }
}

/// As many groups of `chart` as stand in a row of a picture `width` pixels wide with bars and words that can be read,
/// in each row as many.
fn across(chart: &BarChart, width: i32) -> usize {
    let least = longest_word(chart).max(BAR.1 * count(chart.series.len() + 2));
    let most = usize::try_from((width - LEFT - LINE) / least).unwrap_or(1).max(1);
    let groups = chart.groups.len().max(1);
    groups.div_ceil(groups.div_ceil(most))
}

/// The room for the longest word of a label.
fn longest_word(chart: &BarChart) -> i32 {
    let words = chart.groups.iter().flat_map(|group| group.label.split_whitespace());
    let longest = words.map(|word| canvas::width(word, FONT) + FONT).fold(0.0, f64::max);
    canvas::pixel(longest) + 1
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

/// Draws a row of `groups` with their `labels`, and returns the hints of the bars.
fn draw_axes(
    area: &Area<'_>,
    chart: &BarChart,
    layout: &Layout,
    groups: &[BarGroup],
    labels: &[Vec<String>],
) -> Result<Vec<Spot>, DrawError> {
    let range = rates_from_zero(chart.bars().flat_map(Bar::rates));
    let mut axes = ChartBuilder::on(area)
        .margin_top(8)
        .margin_right(LINE)
        .x_label_area_size(layout.label_lines * LINE)
        .y_label_area_size(LEFT)
        .build_cartesian_2d(0.0..1.0, range.clone())?;
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
    for (group, label) in groups.iter().zip(labels) {
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
    let start = left + (layout.group - layout.bar * count(group.bars.len())) / 2;
    for (index, (bar, number)) in group.bars.iter().zip(0..).enumerate() {
        let Some(bar) = bar else { continue };
        let x = start + layout.bar * number;
        let (zero, end) = (height(0.0), height(bar.rate));
        let corners = [(x, zero.min(end)), (x + layout.bar - 1, zero.max(end))];
        canvas::fill(area, corners[0], corners[1], colour(index))?;
        let mut top = end;
        if let Some(tick) = bar.tick {
            let at = (x + (layout.bar - 1) / 2, height(tick));
            marks::draw_tick(area, at, layout.bar + 1)?;
            top = top.min(at.1);
        }
        if (zero - end).abs() < LOW {
            draw_figure(area, bar.rate, (x + layout.bar / 2, top - 4), layout.bar)?;
        }
        let at = (x + layout.bar / 2 + corner.0, end + corner.1);
        spots.push(spot(chart, group, index, *bar, at));
    }
    Ok(spots)
}

/// Writes `rate` above `at`, upright where a bar of so many pixels is too narrow for it.
fn draw_figure(
    area: &Area<'_>,
    rate: f64,
    (x, y): canvas::Point,
    bar: i32,
) -> Result<(), DrawError> {
    let text = if rate == 0.0 { "0".to_owned() } else { percent(rate, 1) };
    let plain = Lettering::new(FIGURE, HPos::Center);
    match canvas::width(&text, FIGURE) <= f64::from(bar) {
        true => plain.write(area, &text, (x, y - canvas::pixel(FIGURE / 2.0))),
        false => {
            let upright = Lettering { upright: true, anchor: HPos::Left, ..plain };
            upright.write(area, &text, (x, y))
        }
    }
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
            x_label: "stages".to_owned(),
            y_label: "bubble rate".to_owned(),
            series: (0..rates.len()).map(|series| format!("series {series}")).collect(),
            tick: "published".to_owned(),
            note: "a note".to_owned(),
            width: None,
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
        let dark = rectangles(&drawn).into_iter().filter(|one| one.fill == "#06124A");
        let heights: Vec<i32> = dark.map(|one| one.size.1).collect();
        assert!(heights.len() == 13 && heights[1..].iter().all(|&height| height > 200));
    }

    #[test]
    fn a_bar_that_cannot_be_seen_has_its_figure() {
        let drawn = svg(&chart(&[Some(0.25), Some(0.0), Some(0.003)])).unwrap();
        for (figure, count) in [("0", 12), ("0.3%", 12), ("25.0%", 0)] {
            assert_eq!(drawn.matches(&format!("\n{figure}\n")).count(), count, "{figure}");
        }
    }

    #[test]
    fn groups_of_a_narrow_picture_stand_in_rows() {
        let mut one = chart(&[Some(0.25), Some(0.2), Some(0.1), Some(0.12), Some(0.1)]);
        let wide = svg(&one).unwrap();
        one.width = Some("1col".parse().unwrap());
        let narrow = svg(&one).unwrap();
        check_svg(&narrow);
        let labels = |svg: &str| svg.matches("\nbubble rate\n").count();
        assert_eq!((labels(&wide), labels(&narrow)), (1, 3));
        assert!(narrow.contains(" width=\"317\" ") && !narrow.contains('…'));
        let bars = |svg: &str| svg.matches("class=\"spot\"").count();
        assert_eq!(bars(&wide), bars(&narrow));
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
