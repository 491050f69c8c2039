//! The communication stream of a stage, below its passes.

use pipeline::Span;
use plotters::prelude::*;
use sim::streams::Streams;

use super::chart::Chart;
use super::layout::Layout;
use crate::canvas::{Area, COMMUNICATION, Point};
use crate::{DrawError, lanes};

/// The names of the shapes, in the order of [`COMMUNICATION`].
pub(super) const LEGEND: [&str; 2] = ["communication", "not hidden"];
/// Least height of a row with communication, in pixels.
const LOWEST: i32 = 12;
/// The narrowest slot, in pixels, whose segments are drawn.
const NARROWEST: i32 = 8;

/// Gives communication its part of each row of `layout`, if it has room, and says of which slots it is not
/// drawn.
pub(super) fn fit(layout: &mut Layout, charts: &[Chart<'_>]) {
    if !charts.iter().any(Chart::has_segments) {
        return;
    }
    let wanted = charts.iter().filter(|chart| chart.has_segments());
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
    layout.add_note(&note);
}

fn width(layout: &Layout, span: &Span) -> i32 {
    layout.x(span.end) - layout.x(span.start)
}

/// Draws the communication of `spans`, those of a stage, between `top` and `bottom`: one shape for the
/// hidden part and one for the exposed part.
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

#[cfg(test)]
mod tests {
    use super::super::svg;
    use super::*;
    use crate::samples::{self as sample, check_svg};
    use pipeline::{Costs, Nanos};

    /// The corners of all shapes of `colour`.
    fn shapes(svg: &str, colour: RGBColor) -> Vec<Vec<[i32; 2]>> {
        let RGBColor(r, g, b) = colour;
        let colour = format!("#{r:02X}{g:02X}{b:02X}");
        let of = |line: &&str| line.starts_with("<polygon") && line.contains(&colour);
        let corners = |line: &str| {
            let (_, rest) = line.split_once("points=\"").unwrap();
            let points = rest.split_once('"').unwrap().0.split_whitespace();
            let point = |text: &str| {
                let (x, y) = text.split_once(',').unwrap();
                [x, y].map(|number| number.parse().unwrap())
            };
            points.map(point).collect()
        };
        svg.lines().filter(of).map(corners).collect()
    }

    #[test]
    fn communication_lies_below_the_slots_that_it_is_of() {
        let (schedule, costs) = sample::overlapped();
        let timeline = sim::Replay::new().timeline(&schedule, &costs).unwrap();
        let draw = |costs| {
            svg(&[Chart {
                title: "overlap",
                timeline: &timeline,
                row: "stage",
                copies: &[],
                costs,
            }])
        };
        let (with, without) = (draw(Some(&costs)).unwrap(), draw(None).unwrap());
        check_svg(&with);
        assert!(with.contains(">\nnot hidden\n<") && !without.contains("not hidden"));
        // The widths of both colours are those of the times, to a pixel for each end.
        let mut streams = Streams::of(&costs).unwrap();
        let all = timeline.stages.iter().map(|spans| streams.spans(spans));
        let end = timeline.stages.iter().flatten().map(|span| span.end.0).max().unwrap();
        let chart = Chart {
            title: "overlap",
            timeline: &timeline,
            row: "stage",
            copies: &[],
            costs: Some(&costs),
        };
        let layout = Layout::of(&[chart], &super::super::Style::default());
        let pixel = end as f64 / layout.unwrap().plot;
        for (stage, times) in all.enumerate() {
            for (colour, time) in COMMUNICATION.into_iter().zip([times.hidden(), times.exposed]) {
                let shapes = shapes(&with, colour);
                assert_eq!(shapes.len(), 4);
                let comb = &shapes[stage];
                let wide: i32 = comb.chunks(4).map(|one| one[2][0] - one[0][0]).sum();
                let apart = (f64::from(wide) - time.0 as f64 / pixel).abs();
                assert!(apart <= comb.len() as f64 / 2.0, "{stage}: {apart}");
            }
        }
        // Plain costs change nothing.
        let plain = Costs::new(costs.chunks().to_vec(), costs.hops().longest());
        assert_eq!(draw(Some(&plain)).unwrap(), without);
    }

    #[test]
    fn communication_that_is_too_narrow_is_told_of() {
        let (schedule, costs) = sample::overlapped();
        let timeline = sim::Replay::new().timeline(&schedule, &costs).unwrap();
        // A thousandfold span, so that passes are as narrow as can be.
        let mut long = timeline.clone();
        let last = long.stages[0].last_mut().unwrap();
        last.end = Nanos(last.end.0 * 1000);
        let chart = Chart {
            title: "overlap",
            timeline: &long,
            row: "stage",
            copies: &[],
            costs: Some(&costs),
        };
        let svg = svg(&[chart]).unwrap();
        check_svg(&svg);
        assert!(svg.contains("slots is not drawn: they are narrower than 8 pixels"), "{svg}");
    }
}
