//! Where everything of a picture of timelines stands.

use pipeline::{Nanos, Slot};
use plotters::style::text_anchor::HPos;

use super::{Chart, lane};
use crate::DrawError;
use crate::canvas;
use crate::canvas::{Lettering, pixel};

/// The widest the time axis may be, in pixels.
const MAX_PLOT: f64 = 2_400.0;
/// The narrowest.
const MIN_PLOT: f64 = 960.0;
/// The width of a short pass if the axis allows.
const PASS: f64 = 26.0;
/// Boxes that are narrower than this have no edges of their own.
const EDGED: i32 = 5;

/// Where things stand, in pixels; `plot` pixels show `time` nanoseconds.
pub(super) struct Layout {
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
    pub(super) fn of(charts: &[Chart<'_>]) -> Result<Self, DrawError> {
        let spans = || charts.iter().flat_map(|chart| chart.timeline.stages.iter().flatten());
        let end = spans().map(|span| span.end.0).max().unwrap_or(0);
        let durations = spans().map(|span| (span.end - span.start).0).filter(|&time| time > 0);
        let durations: Vec<u64> = durations.collect();
        let passes = end as f64 / short_pass(durations.clone())? as f64;
        // A whole number of pixels for a short pass keeps equal passes equally wide.
        let narrowest = (MIN_PLOT / passes).ceil();
        let pass = (MAX_PLOT / passes).floor().min(narrowest.max(PASS));
        let plot = if pass < 1.0 { MAX_PLOT } else { pass * passes };
        let stages = charts.iter().map(|chart| chart.timeline.stages.len()).max().unwrap_or(1);
        let paired = spans().any(|span| matches!(span.slot, Slot::Pair(..)));
        let segments = charts.iter().any(|chart| lane::is_wanted(chart));
        let tallest = if paired { 34 } else { 24 } + if segments { lane::TALLEST } else { 0 };
        let row = (720 / i32::try_from(stages).unwrap_or(i32::MAX)).clamp(3, tallest);
        // A wide picture is shown smaller than it is, so its text is larger.
        let font = 13.0 * (plot / 1_200.0).clamp(1.0, 1.5);
        let name = charts.iter().map(|chart| chart.row).max_by_key(|row| row.len()).unwrap_or("");
        let left = pixel(canvas::width(&format!("{name} {}", stages - 1), font) + 12.0);
        let (edged, dense) = (pass >= f64::from(EDGED), pass < 1.0);
        let note = too_narrow(&durations, end as f64 / plot, dense);
        let mut layout =
            Self { plot, time: end as f64, left, row, font, edged, dense, note, lane: 0 };
        if segments {
            lane::fit(&mut layout, charts);
        }
        Ok(layout)
    }

    pub(super) fn x(&self, time: Nanos) -> i32 {
        self.left + pixel(time.0 as f64 / self.time * self.plot)
    }

    /// Height of a line of text.
    pub(super) fn line(&self) -> i32 {
        pixel(self.font * 1.7)
    }

    /// Height of the legend: communication has a line of its own.
    pub(super) fn legend(&self) -> i32 {
        self.line() * if self.lane > 0 { 2 } else { 1 } + 6
    }

    pub(super) fn chart(&self, chart: &Chart<'_>) -> i32 {
        let stages = i32::try_from(chart.timeline.stages.len()).unwrap_or(i32::MAX);
        self.line() + self.row.saturating_mul(stages) + 8
    }

    pub(super) fn width(&self) -> i32 {
        self.left + pixel(self.plot) + pixel(2.0 * self.font)
    }

    pub(super) fn height(&self, charts: &[Chart<'_>]) -> i32 {
        let charts = charts.iter().map(|chart| self.chart(chart));
        let below = if self.note.is_some() { 3 } else { 2 };
        charts.fold(self.legend() + below * self.line() + 6, i32::saturating_add)
    }

    /// Space between rows.
    pub(super) const fn gap(&self) -> i32 {
        if self.row >= 14 { 2 } else { (self.row >= 6) as i32 }
    }

    pub(super) fn letters(&self, anchor: HPos) -> Lettering {
        Lettering::new(self.font, anchor)
    }
}

/// The time that a quarter of all passes stay below: a few stragglers do not change it.
fn short_pass(mut durations: Vec<u64>) -> Result<u64, DrawError> {
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
