//! The meaning of colours, in as many lines as the picture needs.

use std::collections::BTreeSet;

use pipeline::Kind;
use plotters::prelude::*;
use plotters::style::text_anchor::HPos;

use super::boxes::BANDED;
use super::chart::Chart;
use super::lane;
use super::layout::Layout;
use crate::canvas::{self, Area, Point, colours, pixel};
use crate::{DrawError, later_chunk_means};

/// A legend, its entries placed.
pub(super) struct Legend {
    entries: Vec<(Entry, Point)>,
    rows: i32,
}

/// Samples of colours and their meaning.
struct Entry {
    samples: Vec<RGBColor>,
    text: String,
}

impl Legend {
    /// A sample of every kind that occurs in `charts`, in both shades where both occur.
    pub(super) fn of(
        charts: &[Chart<'_>],
        layout: &Layout,
        other_passes: Option<[&str; 2]>,
    ) -> Self {
        let later = charts.iter().filter_map(|chart| later_chunk_means(chart.timeline));
        let later: Vec<&str> = later.collect::<BTreeSet<_>>().into_iter().collect();
        let mut groups = vec![passes(charts, !later.is_empty(), other_passes)];
        if layout.lane > 0 {
            let both = canvas::COMMUNICATION.into_iter().zip(lane::LEGEND);
            groups.push(both.map(|(colour, text)| Entry::new(vec![colour], text)).collect());
        }
        if !later.is_empty() {
            let height = layout.row - layout.gap() - layout.lane;
            let lined = if height >= BANDED { ", with a line" } else { "" };
            let text = format!("darker{lined}: {}", later.join(", "));
            groups.last_mut().into_iter().for_each(|group| group.push(Entry::new(vec![], &text)));
        }
        Self::placed(groups, layout)
    }

    /// Each group begins a line; entries that do not fit go to the next.
    fn placed(groups: Vec<Vec<Entry>>, layout: &Layout) -> Self {
        let (mut entries, mut row) = (Vec::new(), -1);
        for group in groups {
            row += 1;
            let mut x = layout.left;
            for entry in group {
                let width = entry.width(layout);
                if x > layout.left && x + width > layout.width {
                    (x, row) = (layout.left, row + 1);
                }
                entries.push((entry, (x, row)));
                x += width;
            }
        }
        Self { entries, rows: row + 1 }
    }

    /// Its height with the space below it.
    pub(super) fn height(&self, layout: &Layout) -> i32 {
        layout.line() * self.rows + 6
    }

    /// Draws it with its top at `top`.
    pub(super) fn draw(&self, area: &Area<'_>, layout: &Layout, top: i32) -> Result<(), DrawError> {
        let side = pixel(layout.font);
        for (entry, (x, row)) in &self.entries {
            let middle = top + (layout.line() + 6) / 2 + row * layout.line();
            let (high, low) = (middle - side / 2, middle - side / 2 + side);
            let mut x = *x;
            for &colour in &entry.samples {
                canvas::fill(area, (x, high), (x + side, low), colour)?;
                if colour == canvas::IDLE {
                    area.draw(&Rectangle::new([(x, high), (x + side, low)], canvas::GRID))?;
                }
                x += side;
            }
            layout.letters(HPos::Left).write(area, &entry.text, (x + 5, middle))?;
        }
        Ok(())
    }
}

impl Entry {
    fn new(samples: Vec<RGBColor>, text: &str) -> Self {
        Self { samples, text: text.to_owned() }
    }

    /// Its width with the space behind it.
    fn width(&self, layout: &Layout) -> i32 {
        let side = pixel(layout.font);
        let samples = self.samples.iter().fold(0, |width, _| width + side);
        samples + 5 + pixel(canvas::width(&self.text, layout.font) + layout.font)
    }
}

/// The kinds of passes, idle time and copies.
fn passes(charts: &[Chart<'_>], shades: bool, other_passes: Option<[&str; 2]>) -> Vec<Entry> {
    let spans = charts.iter().flat_map(|chart| chart.timeline.stages.iter().flatten());
    let kinds: BTreeSet<Kind> = spans.flat_map(|span| span.slot.passes()).map(|p| p.kind).collect();
    let kind = |kind: Kind| {
        let two = shades && canvas::has_two_shades(kind);
        let shades = if two { &[false, true][..] } else { &[false] };
        let name = match (kind, other_passes) {
            (Kind::S, Some([name, _])) | (Kind::T, Some([_, name])) => name,
            _ => kind_name(kind),
        };
        Entry::new(shades.iter().map(|&later| colours(kind, later).0).collect(), name)
    };
    let mut entries: Vec<Entry> = kinds.into_iter().map(kind).collect();
    entries.push(Entry::new(vec![canvas::IDLE], "idle"));
    if charts.iter().any(|chart| !chart.copies.is_empty()) {
        let both = canvas::COPIES.into_iter().zip(["to the host", "back"]);
        entries.extend(both.map(|(colour, text)| Entry::new(vec![colour], text)));
    }
    entries
}

const fn kind_name(kind: Kind) -> &'static str {
    match kind {
        Kind::F => "F forward",
        Kind::B => "B input gradient",
        Kind::W => "W weight gradient",
        Kind::BW => "BW both",
        Kind::S => "S vocabulary",
        Kind::T => "T its gradients",
        Kind::R => "R recompute",
    }
}
