//! Passes and copies as boxes: one by one, as combs of many, or pixel by pixel.

use std::collections::BTreeMap;

use pipeline::{Kind, Pass, Slot, Timeline};
use plotters::prelude::*;
use plotters::style::text_anchor::HPos;

use super::chart::Chart;
use super::layout::Layout;
use crate::canvas;
use crate::canvas::{Area, Lettering, Point, colours, pixel};
use crate::{DrawError, is_later_chunk};

/// The largest and the smallest font size of the numbers in boxes.
const NUMBER: [f64; 2] = [11.0, 7.0];
/// The lowest box with a line along its lower edge if it is of a later chunk.
pub(super) const BANDED: i32 = 10;

/// A box: its meaning, and its corners.
pub(super) struct Patch {
    pub(super) pass: Pass,
    pub(super) later: bool,
    pub(super) from: Point,
    pub(super) to: Point,
}

/// Draws the copies of `stage` between `top` and `bottom`.
pub(super) fn draw_copies(
    area: &Area<'_>,
    layout: &Layout,
    chart: &Chart<'_>,
    stage: usize,
    [top, bottom]: [i32; 2],
) -> Result<(), DrawError> {
    for copy in chart.copies.iter().filter(|copy| copy.stage == stage) {
        for ([start, end], colour) in [copy.out, copy.back].into_iter().zip(canvas::COPIES) {
            let (from, to) = (layout.x(start), layout.x(end));
            if to > from && bottom > top {
                canvas::fill(area, (from, top), (to, bottom), colour)?;
            }
        }
    }
    Ok(())
}

/// The boxes of a stage between `top` and `bottom`; the two passes of a pair share the height.
pub(super) fn patches(
    layout: &Layout,
    timeline: &Timeline,
    stage: usize,
    rows: [i32; 2],
) -> Vec<Patch> {
    let stages = timeline.stages.len();
    let [top, bottom] = rows;
    let middle = i32::midpoint(top, bottom);
    let mut patches = Vec::with_capacity(timeline.stages[stage].len());
    for span in &timeline.stages[stage] {
        let (from, to) = (layout.x(span.start), layout.x(span.end));
        let rows = match span.slot {
            Slot::One(_) => [(top, bottom), (top, bottom)],
            Slot::Pair(..) => [(top, middle), (middle, bottom)],
        };
        for (pass, (top, bottom)) in span.slot.passes().zip(rows) {
            let later = is_later_chunk(stages, stage, pass);
            patches.push(Patch { pass, later, from: (from, top), to: (to, bottom) });
        }
    }
    patches
}

/// The kinds of passes that run in the middle of each pixel of a stage, between `top` and `bottom`:
/// on average, every kind is as wide as it takes time. The upper half of pairs is that of their
/// first passes.
pub(super) fn samples(
    layout: &Layout,
    timeline: &Timeline,
    stage: usize,
    rows: [i32; 2],
) -> Vec<Patch> {
    let spans = &timeline.stages[stage];
    let [top, bottom] = rows;
    let middle = i32::midpoint(top, bottom);
    let (mut patches, mut at) = (Vec::new(), 0);
    for column in 0..pixel(layout.plot) {
        let time = (f64::from(column) + 0.5) * layout.time / layout.plot;
        while spans.get(at).is_some_and(|span| span.end.0 as f64 <= time) {
            at += 1;
        }
        let Some(span) = spans.get(at).filter(|span| span.start.0 as f64 <= time) else { continue };
        let rows = match span.slot {
            Slot::One(_) => [(top, bottom), (top, bottom)],
            Slot::Pair(..) => [(top, middle), (middle, bottom)],
        };
        let x = layout.left + column;
        for (pass, (top, bottom)) in span.slot.passes().zip(rows) {
            let later = is_later_chunk(timeline.stages.len(), stage, pass);
            patches.push(Patch { pass, later, from: (x, top), to: (x + 1, bottom) });
        }
    }
    patches
}

/// The lines along the lower edge of a box of a later chunk, from `top` to `bottom`.
fn band(later: bool, [top, bottom]: [i32; 2]) -> Option<[i32; 2]> {
    (later && bottom - top >= BANDED).then_some([bottom - 3, bottom - 1])
}

/// The font sizes of the numbers in boxes, by kind: the same for all boxes of a kind, so that none of them lacks
/// its number because of its digits.
pub(super) struct Numbers(BTreeMap<Kind, f64>);

impl Numbers {
    /// The numbers of `timeline`: all kinds have them if the longest fits into nine of ten boxes of each kind, else none.
    pub(super) fn of(layout: &Layout, timeline: &Timeline) -> Self {
        let mut widths: BTreeMap<Kind, Vec<i32>> = BTreeMap::new();
        let mut digits = 1;
        for span in timeline.stages.iter().flatten() {
            let width = layout.x(span.end) - layout.x(span.start);
            for pass in span.slot.passes() {
                digits = digits.max(pass.microbatch.to_string().len());
                widths.entry(pass.kind).or_default().push(width);
            }
        }
        let longest = "0".repeat(digits);
        let size = |mut widths: Vec<i32>| {
            let narrow = widths.len() / 10;
            let width = f64::from(*widths.select_nth_unstable(narrow).1) - 3.0;
            let [most, least] = NUMBER;
            let size = (width / canvas::width(&longest, 1.0)).min(most);
            (size >= least).then_some(size)
        };
        // Passes of no time have no box.
        widths.values_mut().for_each(|widths| widths.retain(|&width| width > 0));
        widths.retain(|_, widths| !widths.is_empty());
        let sizes = widths.into_iter().map(|(kind, widths)| Some((kind, size(widths)?)));
        Self(sizes.collect::<Option<_>>().unwrap_or_default())
    }

    /// The font size in a box of `kind` of that `height`, if it has a number.
    fn size(&self, kind: Kind, height: i32) -> Option<f64> {
        let size = self.0.get(&kind)?.min(f64::from(height - 2));
        (size >= NUMBER[1]).then_some(size)
    }
}

/// Draws a box with an edge on its right, and its microbatch if boxes of its kind have `numbers`.
pub(super) fn draw_patch(
    area: &Area<'_>,
    patch: &Patch,
    numbers: &Numbers,
) -> Result<(), DrawError> {
    let (width, height) = (patch.to.0 - patch.from.0, patch.to.1 - patch.from.1);
    if width == 0 {
        return Ok(());
    }
    let (fill, ink) = colours(patch.pass.kind, patch.later);
    let right = patch.to.0 - i32::from(width >= 2);
    canvas::fill(area, patch.from, (right, patch.to.1), fill)?;
    if let Some([top, bottom]) = band(patch.later, [patch.from.1, patch.to.1]) {
        canvas::fill(area, (patch.from.0, top), (right, bottom), ink)?;
    }
    let number = patch.pass.microbatch.to_string();
    let Some(size) = numbers.size(patch.pass.kind, height) else { return Ok(()) };
    if canvas::width(&number, size) + 2.0 > f64::from(width) {
        return Ok(());
    }
    let centre = (patch.from.0 + (width - 1) / 2, i32::midpoint(patch.from.1, patch.to.1));
    let lettering = Lettering { colour: ink, ..Lettering::new(size, HPos::Center) };
    lettering.write(area, &number, centre)
}

/// Draws all boxes of one kind, shade and height as one shape: a comb whose back has no height.
pub(super) fn draw_merged(area: &Area<'_>, patches: &[Patch]) -> Result<(), DrawError> {
    let mut combs: BTreeMap<(Kind, bool, i32, i32), Vec<Point>> = BTreeMap::new();
    for Patch { pass, later, from, to } in patches.iter().filter(|patch| patch.to.0 > patch.from.0)
    {
        let comb = combs.entry((pass.kind, *later, from.1, to.1)).or_default();
        // A box that begins where the last one ended makes that one wider.
        let keep = if comb.last() == Some(&(from.0, to.1)) { comb.len() - 2 } else { comb.len() };
        comb.truncate(keep);
        if keep % 4 == 0 {
            comb.extend([(from.0, to.1), *from]);
        }
        comb.extend([(to.0, from.1), *to]);
    }
    for ((kind, later, top, bottom), comb) in combs {
        let (fill, ink) = colours(kind, later);
        area.draw(&Polygon::new(comb.clone(), fill.filled()))?;
        if let Some(rows) = band(later, [top, bottom]) {
            let lower = |(x, y): Point| (x, if y == top { rows[0] } else { rows[1] });
            let comb: Vec<Point> = comb.into_iter().map(lower).collect();
            area.draw(&Polygon::new(comb, ink.filled()))?;
        }
    }
    Ok(())
}
