//! Schedules in time, as SVG: a row per stage, a box per pass, several schedules on one time axis.

mod boxes;
mod chart;
mod lane;
mod layout;
mod legend;
mod style;

use plotters::element::DashedPathElement;
use plotters::prelude::*;
use plotters::style::text_anchor::HPos;

use sim::streams::Streams;

use self::boxes::{Numbers, draw_copies, draw_merged, draw_patch, patches, samples};
pub use self::chart::Chart;
use self::layout::{Layout, step, unit};
use self::legend::Legend;
pub use self::style::{Bound, Style};
use super::DrawError;
use super::canvas::{self, About, Area, Lettering, extent, pixel};

/// Draws `charts` one below the other, with the same scale and one legend.
///
/// Microbatches are written where they fit; where boxes are only a few pixels wide, those of one kind
/// and row become one shape, so that tens of thousands stay a small file. Where most are narrower than
/// a pixel, each pixel shows the pass at its middle; a line below says which passes cannot be seen.
pub fn svg(charts: &[Chart<'_>]) -> Result<String, DrawError> {
    svg_with(charts, &Style::default())
}

/// The same in a `style`: with a title, figures behind the titles of charts, bounds, and of a width.
pub fn svg_with(charts: &[Chart<'_>], style: &Style<'_>) -> Result<String, DrawError> {
    let mut layout = Layout::of(charts, style)?;
    lane::fit(&mut layout, charts);
    layout.explain_bounds(charts, style);
    let legend = Legend::of(charts, &layout, style.other_passes);
    let size = (extent(layout.width), extent(layout.height(charts, legend.height(&layout))));
    canvas::picture(size, &about(&layout, charts, style), |area| {
        let mut top = layout.draw_title(area, style)?;
        legend.draw(area, &layout, top)?;
        top += legend.height(&layout);
        if layout.is_tall(charts) {
            top += layout.axis();
            draw_axis(area, &layout, top, Side::Top)?;
            top += 4;
        }
        for (number, chart) in charts.iter().enumerate() {
            draw_chart(area, &layout, chart, style, number, top)?;
            top += layout.chart(chart);
        }
        draw_axis(area, &layout, top, Side::Bottom)?;
        let mut below = top + 5 + 5 * layout.line() / 2 + 6;
        for line in layout.notes() {
            layout.letters(HPos::Left).write(area, &line, (layout.left, below))?;
            below += layout.line();
        }
        Ok(Vec::new())
    })
}

fn about(layout: &Layout, charts: &[Chart<'_>], style: &Style<'_>) -> About {
    let (unit, nanos) = unit(layout.time);
    let chart = |(number, chart): (usize, &Chart<'_>)| {
        let stages = &chart.timeline.stages;
        let end = stages.iter().flatten().map(|span| span.end.0).max().unwrap_or(0);
        let end = end as f64 / nanos;
        let figures = style.figures.get(number).map(|text| format!("; {text}")).unwrap_or_default();
        format!(
            "{}: {} rows, one for each {}, ends at {end:.3} {unit}{figures}.",
            chart.title,
            stages.len(),
            chart.row
        )
    };
    let charts: Vec<String> = charts.iter().enumerate().map(chart).collect();
    let note = layout.note.iter().map(|note| format!(" {note}.")).collect::<String>();
    About {
        title: style.title.unwrap_or("Passes in time").to_owned(),
        description: charts.join(" ") + &note,
        crisp: !layout.edged,
    }
}

fn draw_chart(
    area: &Area<'_>,
    layout: &Layout,
    chart: &Chart<'_>,
    style: &Style<'_>,
    place: usize,
    top: i32,
) -> Result<(), DrawError> {
    draw_head(area, layout, chart, style.figures.get(place), top)?;
    let below = top + layout.head(chart);
    let stages = &chart.timeline.stages;
    let end = stages.iter().flatten().map(|span| span.end).max().unwrap_or_default();
    let every = (pixel(layout.font * 1.1) / layout.row).max(1);
    let numbers = Numbers::of(layout, chart.timeline);
    let mut streams = chart.costs.filter(|_| layout.lane > 0).and_then(Streams::of);
    for (stage, number) in (0..stages.len()).zip(0..) {
        let y = below + number * layout.row;
        let bottom = y + layout.row - layout.gap();
        canvas::fill(area, (layout.left, y), (layout.x(end), bottom), canvas::IDLE)?;
        if layout.gap() > 0 {
            canvas::line(area, [(layout.left, bottom), (layout.x(end), bottom)], canvas::GRID, 1)?;
        }
        if number % every == 0 {
            let at = (layout.left - 8, i32::midpoint(y, bottom));
            layout.letters(HPos::Right).write(area, &format!("{} {stage}", chart.row), at)?;
        }
        let lane = bottom - if streams.is_some() { layout.lane } else { 0 };
        let strip = if chart.copies.is_empty() { lane } else { lane - (lane - y) / 4 };
        let patches = match layout.dense {
            true => samples(layout, chart.timeline, stage, [y, strip]),
            false => patches(layout, chart.timeline, stage, [y, strip]),
        };
        if layout.edged {
            patches.iter().try_for_each(|patch| draw_patch(area, patch, &numbers))?;
        } else {
            draw_merged(area, &patches)?;
        }
        draw_copies(area, layout, chart, stage, [strip, lane])?;
        if let Some(streams) = &mut streams {
            lane::draw(area, layout, streams, &stages[stage], [lane + 1, bottom])?;
        }
    }
    match style.bounds.get(place).copied().flatten() {
        Some(bound) => {
            let rows = match bound.stage {
                None => [below - 4, top + layout.chart(chart) - 6],
                Some(stage) => {
                    let row = i32::try_from(stage).unwrap_or(i32::MAX);
                    let y = below.saturating_add(row.saturating_mul(layout.row));
                    [y - 3, y + layout.row - layout.gap() + 3]
                }
            };
            draw_bound(area, layout, bound, rows)
        }
        None => Ok(()),
    }
}

/// Writes the title of a chart and, behind it, its figures.
fn draw_head(
    area: &Area<'_>,
    layout: &Layout,
    chart: &Chart<'_>,
    figures: Option<&String>,
    top: i32,
) -> Result<(), DrawError> {
    let (x, mut y) = (layout.left, top - layout.line() / 2);
    for line in layout.title(chart) {
        y += layout.line();
        let line = canvas::fit(&line, layout.font, layout.plot);
        Lettering { bold: true, ..layout.letters(HPos::Left) }.write(area, &line, (x, y))?;
    }
    let Some(figures) = figures else { return Ok(()) };
    let (x, figures) = layout.figures(chart, figures);
    layout.letters(HPos::Left).write(area, figures, (x, y))
}

/// Draws a dashed line where no order can end sooner, seen on passes and on idle time; of the span of a stage a bracket
/// around it, from its first pass on.
fn draw_bound(
    area: &Area<'_>,
    layout: &Layout,
    Bound { stage, start, end }: Bound,
    [top, bottom]: [i32; 2],
) -> Result<(), DrawError> {
    let [left, right] = [start, end].map(|time| layout.x(time));
    let end = [(right, top), (right, bottom)];
    let bracket = [[(left, top), (left, bottom)], [(left, top), (right, top)], end];
    let lines: &[[canvas::Point; 2]] = if stage.is_some() { &bracket } else { &[end] };
    for [(from, above), (to, below)] in lines {
        canvas::fill(area, (from - 2, above - 1), (to + 3, below + 2), WHITE)?;
    }
    let style = canvas::INK.stroke_width(2);
    for &line in lines {
        area.draw(&DashedPathElement::new(line, 5, 3, style))?;
    }
    Ok(())
}

/// The side of its line on which an axis has its ticks.
#[derive(Clone, Copy, PartialEq, Eq)]
enum Side {
    Top,
    Bottom,
}

/// Draws the time axis with its line at `at`.
fn draw_axis(area: &Area<'_>, layout: &Layout, at: i32, side: Side) -> Result<(), DrawError> {
    let right = layout.left + pixel(layout.plot);
    canvas::line(area, [(layout.left, at), (right, at)], canvas::INK, 1)?;
    let (unit, nanos) = unit(layout.time);
    // A tick for each nine letters, but four where five letters each suffice.
    let ticks = |letters: f64| (layout.plot / (letters * layout.font)).floor();
    let step = step(layout.time / ticks(9.0).max(ticks(5.0).min(4.0)).max(1.0));
    let away = |pixels: i32| if side == Side::Top { at - pixels } else { at + pixels };
    let text = 5 + layout.line() / 2;
    for tick in 0.. {
        let time = step * f64::from(tick);
        if time > layout.time {
            break;
        }
        let x = layout.left + pixel(time / layout.time * layout.plot);
        canvas::line(area, [(x, at), (x, away(5))], canvas::INK, 1)?;
        // Ticks are multiples of 1, 2 or 5: three decimals of a larger unit always suffice.
        let label = (time / nanos * 1_000.0).round() / 1_000.0;
        layout.letters(HPos::Center).write(area, &label.to_string(), (x, away(text)))?;
    }
    let middle = i32::midpoint(layout.left, right);
    let label = format!("time ({unit})");
    layout.letters(HPos::Center).write(area, &label, (middle, away(text + layout.line())))
}

#[cfg(test)]
mod tests {
    use super::boxes::Patch;
    use super::canvas::colours;
    use super::layout::too_narrow;
    use super::*;
    use crate::samples::{self as sample, check_svg, rectangles};
    use pipeline::Nanos;
    use pipeline::{Family, Kind, Pass, Timeline};

    fn draw(timelines: &[&Timeline]) -> String {
        let chart = |timeline| Chart {
            title: "<a> & \"b\"\u{1}",
            timeline,
            row: "stage",
            copies: &[],
            costs: None,
        };
        let charts: Vec<Chart<'_>> = timelines.iter().map(|one| chart(*one)).collect();
        let svg = svg(&charts).unwrap();
        check_svg(&svg);
        svg
    }

    fn hex(RGBColor(r, g, b): RGBColor) -> String {
        format!("#{r:02X}{g:02X}{b:02X}")
    }

    #[test]
    fn every_pass_is_a_box_of_its_length() {
        let zero_bubble = sample::timeline(Family::ZbH1, 4, 1, 8);
        let baseline = sample::timeline(Family::OneFOneB, 4, 1, 8);
        let svg = draw(&[&zero_bubble, &baseline]);
        let sizes = |kind: Kind| {
            let fill = hex(colours(kind, false).0);
            let boxes = rectangles(&svg).into_iter().filter(|one| one.fill == fill);
            // The first is the legend's.
            boxes.skip(1).map(|one| one.size).collect::<Vec<_>>()
        };
        let [f, b, w, bw] = [Kind::F, Kind::B, Kind::W, Kind::BW].map(sizes);
        assert_eq!([f.len(), b.len(), w.len(), bw.len()], [64, 32, 32, 32]);
        assert!(f.iter().chain(&b).chain(&w).all(|one| *one == f[0]));
        assert!(bw.iter().all(|one| one.0 + 1 == 2 * (f[0].0 + 1)));
    }

    #[test]
    fn chunks_and_the_halves_of_pairs_are_told_apart() {
        let svg = draw(&[&sample::timeline(Family::ZbV, 4, 2, 8)]);
        let count = |colour| rectangles(&svg).iter().filter(|one| one.fill == colour).count();
        for later in [false, true] {
            assert_eq!(count(hex(colours(Kind::W, later).0)), 4 * 8 + 1);
        }
        let svg = draw(&[&sample::paired()]);
        let later = hex(colours(Kind::BW, true).0);
        let half = rectangles(&svg).into_iter().rfind(|one| one.fill == later).unwrap();
        let whole = hex(colours(Kind::BW, false).0);
        let full = rectangles(&svg).into_iter().rfind(|one| one.fill == whole).unwrap();
        assert_eq!(half.size.1, full.size.1 / 2);
        assert!(svg.contains("darker, with a line: last stage to first"));
    }

    #[test]
    fn a_large_schedule_is_a_small_file() {
        let svg = draw(&[&sample::timeline(Family::ZbH1, 32, 1, 256)]);
        assert!(svg.len() < 1_000_000, "{}", svg.len());
        assert_eq!(svg.matches("<polygon").count(), 32 * 3);
        assert!(svg.contains("crispEdges") && !svg.contains("narrower than a pixel"));
    }

    #[test]
    fn passes_narrower_than_a_pixel_are_counted_and_no_other_colour_is_drawn() {
        let timeline = sample::timeline(Family::ZbV, 2, 2, 1500);
        let passes = 2 * 2 * 3 * 1500;
        let svg = draw(&[&timeline]);
        let said = format!("{passes} of {passes} passes are narrower than a pixel");
        // In the picture, and in its description.
        assert_eq!(svg.matches(&said).count(), 2, "{svg}");
        let mut legend: Vec<String> = Vec::new();
        for kind in [Kind::F, Kind::B, Kind::W] {
            for later in [false, true] {
                let (fill, ink) = colours(kind, later);
                legend.extend([hex(fill), hex(ink)]);
            }
        }
        let polygons = svg.lines().filter(|line| line.starts_with("<polygon"));
        let fills: Vec<&str> = polygons
            .map(|line| line.split_once("fill=\"").unwrap().1.split_once('"').unwrap().0)
            .collect();
        assert!(!fills.is_empty() && fills.iter().all(|fill| legend.iter().any(|one| one == fill)));
    }

    #[test]
    fn a_pixel_shows_what_runs_in_its_middle() {
        let span = |pass: Pass, start: u64, end: u64| pipeline::Span {
            slot: pass.into(),
            start: Nanos(start),
            end: Nanos(end),
        };
        let spans = vec![
            span(Pass::f(0, 0), 0, 4),
            span(Pass::b(0, 0), 4, 10),
            span(Pass::w(0, 0), 11, 14),
            span(Pass::f(0, 1), 20, 40),
        ];
        let timeline = Timeline { stages: vec![spans] };
        let layout = Layout {
            width: 11,
            room: 0,
            plot: 4.0,
            time: 40.0,
            left: 7,
            row: 10,
            font: 13.0,
            edged: false,
            dense: true,
            note: None,
            lane: 0,
        };
        let shown = samples(&layout, &timeline, 0, [0, 9]);
        let shown: Vec<_> = shown.iter().map(|one| (one.pass.kind, one.from.0, one.to.0)).collect();
        // Pixels are of ten nanoseconds; in the middle of the second one nothing runs.
        assert_eq!(shown, [(Kind::B, 7, 8), (Kind::F, 9, 10), (Kind::F, 10, 11)]);
        assert!(too_narrow(&[4, 6, 3, 20], 10.0, true).unwrap().starts_with("3 of 4 passes"));
        assert!(too_narrow(&[4, 6, 20], 5.0, false).unwrap().ends_with("may not be seen"));
        assert_eq!(too_narrow(&[4, 6], 2.0, false), None);
    }

    #[test]
    fn boxes_that_touch_are_one() {
        let patch = |from: i32, to: i32, microbatch: u32| Patch {
            pass: Pass::f(0, microbatch),
            later: false,
            from: (from, 0),
            to: (to, 9),
        };
        let about = About::new(String::new(), String::new());
        let svg = canvas::picture((20, 10), &about, |area| {
            let all = [patch(1, 3, 0), patch(3, 5, 1), patch(5, 5, 2), patch(8, 9, 3)];
            draw_merged(area, &all).map(|()| Vec::new())
        });
        assert!(svg.unwrap().contains("points=\"1,9 1,0 5,0 5,9 8,9 8,0 9,0 9,9 \""));
    }

    #[test]
    fn ticks_are_round() {
        assert_eq!([0.0, 1.0, 3.0, 20.0, 51.0].map(step), [1.0, 1.0, 5.0, 20.0, 100.0]);
        assert_eq!(unit(1.5e9), ("s", 1e9));
        assert_eq!(unit(999.0), ("ns", 1.0));
    }

    #[test]
    fn nothing_is_not_drawn() {
        assert!(matches!(svg(&[]), Err(DrawError::Empty { .. })));
        let timeline = Timeline { stages: vec![Vec::new()] };
        assert!(
            svg(&[Chart {
                title: "",
                timeline: &timeline,
                row: "stage",
                copies: &[],
                costs: None
            }])
            .is_err()
        );
    }
}
