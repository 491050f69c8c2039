//! The communication stream of a stage, below its passes.

use pipeline::Span;
use plotters::prelude::*;
use sim::streams::Streams;

use super::Chart;
use super::layout::Layout;
use crate::canvas::{Area, COMMUNICATION, Point};
use crate::{DrawError, lanes};

/// The names of what is drawn, in the order of [`COMMUNICATION`].
pub(super) const LEGEND: [&str; 2] = ["communication", "not hidden"];
/// What a row with communication is higher than one without.
pub(super) const TALLEST: i32 = 12;
/// The lowest row that has room for it.
const LOWEST: i32 = 12;
/// The narrowest slot, in pixels, whose segments are drawn.
const NARROWEST: i32 = 8;

/// Whether the passes of `chart` have segments.
pub(super) fn is_wanted(chart: &Chart<'_>) -> bool {
    chart.costs.is_some_and(|costs| costs.overlap().is_some())
}

/// Gives communication its part of each row of `layout`, if it has room, and says of which slots it is not
/// drawn.
pub(super) fn fit(layout: &mut Layout, charts: &[Chart<'_>]) {
    let wanted = charts.iter().filter(|chart| is_wanted(chart));
    let spans: Vec<&Span> =
        wanted.flat_map(|chart| chart.timeline.stages.iter().flatten()).collect();
    let narrow = spans.iter().filter(|span| width(layout, span) < NARROWEST).count();
    let height = layout.row - layout.gap();
    if height >= LOWEST && narrow < spans.len() {
        layout.lane = height * 3 / 10;
    }
    let note = match layout.lane {
        0 => "communication within passes is not drawn: there is no room for it".to_owned(),
        _ if narrow == 0 => return,
        _ => format!(
            "communication within {narrow} of {} slots is not drawn: they are narrower than {NARROWEST} pixels",
            spans.len()
        ),
    };
    layout.note = Some(layout.note.take().map_or_else(|| note.clone(), |one| one + "; " + &note));
}

fn width(layout: &Layout, span: &Span) -> i32 {
    layout.x(span.end) - layout.x(span.start)
}

/// Draws the communication of `spans`, those of a stage, between `top` and `bottom`: one shape of what is
/// hidden and one of what is not.
pub(super) fn draw(
    area: &Area<'_>,
    layout: &Layout,
    streams: &mut Streams<'_>,
    spans: &[Span],
    [top, bottom]: [i32; 2],
) -> Result<(), DrawError> {
    let mut combs: [Vec<Point>; 2] = Default::default();
    for span in spans.iter().filter(|span| width(layout, span) >= NARROWEST) {
        for piece in lanes::of(streams, span) {
            let [from, to] = [piece.start, piece.end].map(|time| layout.x(time));
            if to <= from {
                continue;
            }
            let comb = &mut combs[usize::from(!piece.is_hidden)];
            if comb.last() == Some(&(from, bottom)) {
                comb.truncate(comb.len() - 2);
            } else {
                comb.extend([(from, bottom), (from, top)]);
            }
            comb.extend([(to, top), (to, bottom)]);
        }
    }
    for (comb, colour) in combs.into_iter().zip(COMMUNICATION) {
        if !comb.is_empty() {
            area.draw(&Polygon::new(comb, colour.filled()))?;
        }
    }
    Ok(())
}
