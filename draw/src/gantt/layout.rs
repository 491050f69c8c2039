//! Where everything of a picture of timelines stands.

use pipeline::{Nanos, Slot, Span};
use plotters::style::text_anchor::HPos;
use question::format;

use super::chart::Chart;
use super::style::Style;
use crate::canvas::{self, Area, Lettering, pixel};
use crate::width::FONT;
use crate::{DrawError, Width};

/// The widest the time axis may be, in pixels.
const MAX_PLOT: f64 = 2_400.0;
/// The narrowest.
const MIN_PLOT: f64 = 960.0;
/// The width of a short pass if the axis allows.
const PASS: f64 = 26.0;
/// Charts that are taller, in pixels, have the axis above them, too.
const TALL: i32 = 480;
/// The most pixels that a picture of a given width is high: 240 mm, the text of a page, where rows can be low enough.
const PAGE: f64 = 240.0 / 25.4 * 96.0;
/// Boxes that are narrower than this have no edges of their own.
const EDGED: i32 = 5;

/// Extra height of a row with communication, in pixels at most.
const LANE: i32 = 12;

/// Where things stand, in pixels; `plot` pixels show `time` nanoseconds.
pub(super) struct Layout {
    /// Width of the picture.
    pub(super) width: i32,
    /// Height of the title of the picture.
    pub(super) room: i32,
    pub(super) plot: f64,
    pub(super) time: f64,
    pub(super) left: i32,
    pub(super) row: i32,
    pub(super) font: f64,
    /// Whether boxes are separate shapes, with edges.
    pub(super) edged: bool,
    /// Whether most passes are narrower than a pixel.
    pub(super) dense: bool,
    /// The note about passes that are too narrow to be seen, if there are any.
    pub(super) note: Option<String>,
    /// How much of a row is that of the communication stream; 0 where no segments are drawn.
    pub(super) lane: i32,
}

impl Layout {
    pub(super) fn of(charts: &[Chart<'_>], style: &Style<'_>) -> Result<Self, DrawError> {
        let spans = || charts.iter().flat_map(|chart| chart.timeline.stages.iter().flatten());
        let end = spans().map(|span| span.end.0).max().unwrap_or(0);
        let durations = spans().map(|span| (span.end - span.start).0).filter(|&time| time > 0);
        let durations: Vec<u64> = durations.collect();
        let passes = end as f64 / short_pass(spans())? as f64;
        let stages = charts.iter().map(|chart| chart.timeline.stages.len()).max().unwrap_or(1);
        let name = charts.iter().map(|chart| chart.row).max_by_key(|row| row.len()).unwrap_or("");
        let left = |font| pixel(canvas::width(&format!("{name} {}", stages - 1), font) + 12.0);
        let (pass, font) = match style.width {
            None => of_passes(passes),
            Some(width) => of_width(width, passes, left),
        };
        let plot = if pass < 1.0 && style.width.is_none() { MAX_PLOT } else { pass * passes };
        let paired = spans().any(|span| matches!(span.slot, Slot::Pair(..)));
        let segments = charts.iter().any(Chart::has_segments);
        let tallest = if paired { 34 } else { 24 } + if segments { LANE } else { 0 };
        let tallest = pixel(f64::from(tallest) * (font / FONT).min(1.0));
        let room = match style.width {
            None => 720 / i32::try_from(stages).unwrap_or(i32::MAX),
            Some(_) => room_of_a_row(charts, font),
        };
        let row = room.clamp(3, tallest);
        let (edged, dense) = (pass >= f64::from(EDGED), pass < 1.0);
        let note = too_narrow(&durations, end as f64 / plot, dense);
        let (time, left) = (end as f64, left(font));
        let room = if style.title.is_some() { pixel(font * 2.0) } else { 0 };
        let width = match style.width {
            None => left + pixel(plot) + pixel(2.0 * font),
            Some(width) => i32::try_from(width.pixels()).unwrap_or(i32::MAX),
        };
        Ok(Self { width, room, plot, time, left, row, font, edged, dense, note, lane: 0 })
    }

    /// Adds `note` to that below the charts.
    pub(super) fn add_note(&mut self, note: &str) {
        self.note = Some(self.note.take().map_or_else(|| note.to_owned(), |one| one + "; " + note));
    }

    /// Says what a bound is that is drawn and whose figures, which say so, have no room behind the title.
    pub(super) fn explain_bounds(&mut self, charts: &[Chart<'_>], style: &Style<'_>) {
        let mut bounds = charts.iter().zip(style.bounds).zip(style.figures);
        let is_cut = bounds.any(|((chart, bound), figures)| {
            bound.is_some() && self.figures(chart, figures).1 != figures
        });
        if is_cut {
            self.add_note("dashed: lower bound of the span of a stage, or of the end");
        }
    }

    /// Where the figures of `chart` begin behind its title, and as many of their parts, which commas and semicolons
    /// part, as have room there.
    pub(super) fn figures<'a>(&self, chart: &Chart<'_>, figures: &'a str) -> (i32, &'a str) {
        let title = self.title(chart);
        // Bold letters are wider by a tenth.
        let taken = title.last().map_or(0.0, |last| canvas::width(last, self.font) * 1.1);
        let taken = taken + self.font;
        let mut rest = figures;
        while canvas::width(rest, self.font) > self.plot - taken {
            rest = rest.rfind([',', ';']).map_or("", |at| &rest[..at]);
        }
        (self.left + pixel(taken), rest)
    }

    pub(super) fn x(&self, time: Nanos) -> i32 {
        self.left + pixel(time.0 as f64 / self.time * self.plot)
    }

    /// Height of a line of text.
    pub(super) fn line(&self) -> i32 {
        pixel(self.font * 1.7)
    }

    /// Height of the time axis with its labels.
    pub(super) fn axis(&self) -> i32 {
        2 * self.line() + 6
    }

    /// The note in lines as wide as the plot.
    pub(super) fn notes(&self) -> Vec<String> {
        self.lines(self.note.as_deref().unwrap_or_default(), 1.0)
    }

    /// The title of a chart in lines as wide as the plot, of bold letters, which are wider by a tenth.
    pub(super) fn title(&self, chart: &Chart<'_>) -> Vec<String> {
        match canvas::width(chart.title, self.font) <= self.plot {
            true => vec![chart.title.to_owned()],
            false => self.lines(chart.title, 1.1),
        }
    }

    /// `text` in lines as wide as the plot, of letters wider than others by a `factor`.
    fn lines(&self, text: &str, factor: f64) -> Vec<String> {
        let letters = canvas::width("m", self.font) * factor;
        #[allow(clippy::cast_possible_truncation, clippy::cast_sign_loss)] // Saturates.
        let columns = (self.plot / letters) as usize;
        format::wrapped(text, columns, "").lines().map(str::to_owned).collect()
    }

    /// Height of the title of `chart`.
    pub(super) fn head(&self, chart: &Chart<'_>) -> i32 {
        self.line() * i32::try_from(self.title(chart).len()).unwrap_or(i32::MAX)
    }

    /// Whether `charts` are so tall that the axis stands above them, too.
    pub(super) fn is_tall(&self, charts: &[Chart<'_>]) -> bool {
        charts.iter().map(|chart| self.chart(chart)).fold(0, i32::saturating_add) > TALL
    }

    /// Writes the title of the picture, if there is one, and returns where the legend begins.
    pub(super) fn draw_title(&self, area: &Area<'_>, style: &Style<'_>) -> Result<i32, DrawError> {
        let Some(title) = style.title else { return Ok(0) };
        let size = self.font * 1.2;
        let title = canvas::fit(title, size * 1.1, f64::from(self.width) - 2.0 * self.font);
        let lettering = Lettering { bold: true, ..Lettering::new(size, HPos::Left) };
        lettering.write(area, &title, (pixel(self.font), pixel(self.font * 1.2)))?;
        Ok(self.room)
    }

    pub(super) fn chart(&self, chart: &Chart<'_>) -> i32 {
        let stages = i32::try_from(chart.timeline.stages.len()).unwrap_or(i32::MAX);
        self.head(chart) + self.row.saturating_mul(stages) + 8
    }

    pub(super) fn height(&self, charts: &[Chart<'_>], legend: i32) -> i32 {
        let above = if self.is_tall(charts) { self.axis() + 4 } else { 0 };
        let charts = charts.iter().map(|chart| self.chart(chart));
        let notes = i32::try_from(self.notes().len()).unwrap_or(i32::MAX);
        let below = self.axis().saturating_add(notes.saturating_mul(self.line()));
        let rest = self.room + legend + above + below;
        charts.fold(rest, i32::saturating_add)
    }

    /// Space between rows.
    pub(super) const fn gap(&self) -> i32 {
        if self.row >= 14 { 2 } else { (self.row >= 6) as i32 }
    }

    pub(super) fn letters(&self, anchor: HPos) -> Lettering {
        Lettering::new(self.font, anchor)
    }
}

/// The height of a row with which `charts` are no higher than a page, titles, legend and axis included.
fn room_of_a_row(charts: &[Chart<'_>], font: f64) -> i32 {
    let heads = charts.len() as f64 * (1.7 * font + 8.0) + 20.0 * font;
    let rows: usize = charts.iter().map(|chart| chart.timeline.stages.len()).sum();
    pixel((PAGE - heads) / rows.max(1) as f64 - 0.5)
}

/// The pixels of a short pass and the font size where a step is as long as so many short passes.
fn of_passes(passes: f64) -> (f64, f64) {
    // A whole number of pixels for a short pass keeps equal passes equally wide.
    let narrowest = (MIN_PLOT / passes).ceil();
    let pass = (MAX_PLOT / passes).floor().min(narrowest.max(PASS));
    let plot = if pass < 1.0 { MAX_PLOT } else { pass * passes };
    // A wide picture is shown smaller than it is, so its text is larger.
    (pass, FONT * (plot / 1_200.0).clamp(1.0, 1.5))
}

/// The same of a picture of that `width`, where `left` is the width left of the plot.
fn of_width(width: Width, passes: f64, left: impl Fn(f64) -> i32) -> (f64, f64) {
    let font = width.font();
    let plot = f64::from(width.pixels()) - f64::from(left(font)) - f64::from(pixel(2.0 * font));
    let pass = plot / passes;
    // Equal passes are equally wide where that costs little of the width.
    (if pass >= 8.0 { pass.floor() } else { pass }, font)
}

/// The time that a quarter of all passes of layers stay below: a few stragglers do not change it.
fn short_pass<'a>(spans: impl Iterator<Item = &'a Span>) -> Result<u64, DrawError> {
    let all = spans.filter(|span| span.end > span.start);
    let is_of_layers = |span: &&Span| !span.slot.passes().all(|pass| pass.kind.is_of_vocabulary());
    let mut durations: Vec<u64> =
        all.filter(is_of_layers).map(|span| (span.end - span.start).0).collect();
    if durations.is_empty() {
        return Err(DrawError::Empty { what: "no pass takes any time" });
    }
    let quarter = durations.len() / 4;
    Ok(*durations.select_nth_unstable(quarter).1)
}

/// The note where some of the passes that take so long are narrower than a pixel of that time.
pub(super) fn too_narrow(durations: &[u64], a_pixel: f64, dense: bool) -> Option<String> {
    let narrow = durations.iter().filter(|&&time| (time as f64) < a_pixel).count();
    let what = match dense {
        true => "not drawn one by one: each pixel shows what runs in the middle of its time",
        false => "may not be seen",
    };
    let (unit, nanos) = unit(a_pixel);
    let of = durations.len();
    (narrow > 0).then(|| {
        format!(
            "{narrow} of {of} passes are narrower than a pixel, {:.3} {unit}, and {what}",
            a_pixel / nanos
        )
    })
}

/// The largest unit of which `time` nanoseconds is at least one, and its nanoseconds.
pub(super) fn unit(time: f64) -> (&'static str, f64) {
    let units = [("s", 1e9), ("ms", 1e6), ("us", 1e3)];
    units.into_iter().find(|(_, nanos)| time >= *nanos).unwrap_or(("ns", 1.0))
}

/// The smallest of 1, 2, 5, 10, 20, ... nanoseconds that is not below `least`.
pub(super) fn step(least: f64) -> f64 {
    let decade = 10f64.powf(least.max(1.0).log10().floor());
    let steps = [decade, 2.0 * decade, 5.0 * decade];
    steps.into_iter().find(|step| *step >= least).unwrap_or(10.0 * decade)
}
