//! Plots of results over a grid or by group, as SVG; vertical axes in percent.

pub mod agreement;
pub mod bars;
pub mod comparison;
pub mod heat;
pub mod lines;
mod marks;
mod names;
mod panels;
pub mod scatter;
pub mod tornado;

use std::ops::Range;

use plotters::coord::ranged1d::Ranged;
use plotters::coord::types::RangedCoordf64;
use plotters::prelude::*;
use plotters::style::text_anchor::HPos;
use question::format;

use super::DrawError;
use super::canvas::{self, Area, INK, Lettering, Point, pixel};
use super::width::FONT;

/// Font size of the title of a picture.
const TITLE: f64 = 17.0;
/// Height of a line of text.
const LINE: i32 = 20;
/// Width of a sample in a legend.
const SAMPLE: i32 = 30;

type Axes<'a, 'b> = ChartContext<'a, SVGBackend<'b>, Cartesian2d<RangedCoordf64, RangedCoordf64>>;

fn letters(anchor: HPos) -> Lettering {
    Lettering::new(FONT, anchor)
}

/// The font of text that the drawing library writes itself.
fn axis_font() -> TextStyle<'static> {
    TextStyle::from(("sans-serif", FONT * 1.15).into_font()).color(&INK)
}

/// Text above the axes of a picture: its title, the meaning of its marks, and notes.
struct Head {
    title: Vec<String>,
    /// Font size of the title.
    size: f64,
    names: Vec<String>,
    notes: Vec<String>,
    width: u32,
}

impl Head {
    /// A head over a picture of so many pixels in `width`, in as many lines as it needs.
    fn of(title: &str, names: &[String], notes: &[String], width: u32) -> Self {
        let room = f64::from(width) - 2.0 * TITLE;
        let size = (room / canvas::width(title, 1.0).max(1.0)).clamp(FONT, TITLE);
        let name = |name: &String| canvas::fit(name, FONT, room - f64::from(SAMPLE));
        Self {
            title: wrapped(title, size, room),
            size,
            names: names.iter().map(name).collect(),
            notes: notes.iter().flat_map(|note| wrapped(note, FONT, room)).collect(),
            width,
        }
    }

    /// Where its legend begins.
    fn legend(&self) -> i32 {
        LINE * (1 + count(self.title.len()))
    }

    /// Where its notes begin.
    fn below(&self) -> i32 {
        let legend = legend_places(&self.names, self.width).last().map_or(0, |at| at.1 + LINE);
        self.legend() + legend
    }

    fn height(&self) -> i32 {
        self.below() + LINE * count(self.notes.len())
    }

    /// Draws it at the top of `area`; `sample` draws that of the legend's entry of a number, in the middle of a box of
    /// [`SAMPLE`] pixels whose left end it is given.
    fn draw(
        &self,
        area: &Area<'_>,
        sample: impl Fn(usize, Point) -> Result<(), DrawError>,
    ) -> Result<(), DrawError> {
        let left = pixel(TITLE);
        let bold = Lettering { bold: true, ..Lettering::new(self.size, HPos::Left) };
        for (line, text) in (1..).zip(&self.title) {
            bold.write(area, text, (left, LINE * line))?;
        }
        let places = legend_places(&self.names, self.width).into_iter();
        for ((index, name), (x, y)) in self.names.iter().enumerate().zip(places) {
            let at = (x, self.legend() - 4 + y);
            sample(index, at)?;
            letters(HPos::Left).write(area, name, (at.0 + SAMPLE + 6, at.1))?;
        }
        for (line, note) in (0..).zip(&self.notes) {
            letters(HPos::Left).write(area, note, (left, self.below() + LINE * line - 4))?;
        }
        Ok(())
    }
}

/// `text` in lines of `room` pixels, of which there is at least one.
fn wrapped(text: &str, size: f64, room: f64) -> Vec<String> {
    if canvas::width(text, size) <= room {
        return vec![text.to_owned()];
    }
    #[allow(clippy::cast_possible_truncation, clippy::cast_sign_loss)] // Saturates.
    let columns = (room / canvas::width("m", size)) as usize;
    let wrapped = format::wrapped(text, columns, "");
    wrapped.lines().map(|line| canvas::fit(line, size, room)).collect()
}

/// `number` as lengths and counts of pixels are.
fn count(number: usize) -> i32 {
    i32::try_from(number).unwrap_or(i32::MAX)
}

/// Where each entry of a legend begins, relative to its top.
fn legend_places(names: &[String], width: u32) -> Vec<Point> {
    let left = pixel(TITLE);
    let (mut x, mut y) = (left, LINE / 2);
    let mut places = Vec::with_capacity(names.len());
    for name in names {
        let taken = SAMPLE + pixel(canvas::width(name, FONT) + 2.0 * FONT);
        if x > left && i64::from(x + taken) > i64::from(width) {
            (x, y) = (left, y + LINE);
        }
        places.push((x, y));
        x += taken;
    }
    places
}

/// Decimals needed to distinguish the ticks of an axis of `range`, `labels` of them at most, in units
/// of one part of `unit`.
fn decimals(range: &Range<f64>, labels: usize, unit: f64) -> usize {
    let ticks = RangedCoordf64::from(range.clone()).key_points(labels);
    let is_whole = |factor: f64| {
        let off = |tick: &f64| (tick * unit * factor - (tick * unit * factor).round()).abs();
        ticks.iter().all(|tick| off(tick) < 1e-6 * factor.max(1.0))
    };
    [1.0, 10.0, 100.0, 1e3].into_iter().position(is_whole).unwrap_or(4)
}

fn percent(value: f64, decimals: usize) -> String {
    format!("{:.decimals$}%", value * 100.0)
}

/// The scale of a vertical axis.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum Scale {
    /// Rates, in percent and from zero.
    Rates,
    /// Amounts, as far as there are any.
    Amounts,
    /// Amounts of dollars, in thousands, millions or billions as the letter behind says.
    Dollars(&'static str),
}

impl Scale {
    /// The range of an axis of `values`, of which there are some.
    fn range(self, values: impl Iterator<Item = f64>) -> Result<Range<f64>, DrawError> {
        match self {
            Self::Rates => Ok(rates_from_zero(values)),
            Self::Amounts | Self::Dollars(_) => panels::fitted(values),
        }
    }

    /// The decimals of the labels of an axis of `range`, `labels` of them at most.
    fn decimals(self, range: &Range<f64>, labels: usize) -> usize {
        decimals(range, labels, if self == Self::Rates { 100.0 } else { 1.0 })
    }

    fn label(self, value: f64, decimals: usize) -> String {
        match self {
            Self::Rates => percent(value, decimals),
            Self::Amounts => format!("{value:.decimals$}"),
            Self::Dollars(unit) => format!("${value:.decimals$}{unit}"),
        }
    }
}

/// From zero, or the least value below it, to a little over the greatest.
fn rates_from_zero(values: impl Iterator<Item = f64>) -> Range<f64> {
    let (low, high) = values.fold((0f64, 0f64), |(low, high), v| (low.min(v), high.max(v)));
    let room = if high > low { (high - low) * 0.06 } else { 0.01 };
    let below = if low < 0.0 { low - room } else { 0.0 };
    below..high + room
}

/// Fails if a value of the series `name` has no place on an axis.
fn check_finite(name: &str, mut values: impl Iterator<Item = f64>) -> Result<(), DrawError> {
    if values.all(f64::is_finite) {
        return Ok(());
    }
    Err(DrawError::NotFinite { name: name.to_owned() })
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::eyes::{BLIND, Linear, SEEING, contrast, distance, luminance, seen};

    /// The contrast of `colours` on `ground`, the least of all eyes.
    fn on(ground: RGBColor, colours: &[RGBColor]) -> Vec<f64> {
        let of = |eyes: [Linear; 3], colour| contrast(seen(eyes, colour), seen(eyes, ground));
        let all = || BLIND.into_iter().chain([SEEING]);
        colours
            .iter()
            .map(|&one| all().map(|eyes| of(eyes, one)).fold(f64::MAX, f64::min))
            .collect()
    }

    #[test]
    fn all_that_is_drawn_is_seen_on_its_ground() {
        let alone = [
            marks::STRUCK,
            names::LEADER,
            scatter::LIMIT_COLOUR,
            agreement::GREY,
            agreement::EDGE,
            tornado::SAVES,
            tornado::COSTS,
        ];
        let all: Vec<_> = [&marks::COLOURS[..], &bars::COLOURS, &alone].concat();
        let contrasts = on(WHITE, &all);
        assert!(contrasts.iter().all(|&ratio| ratio >= 3.0), "{contrasts:?}");
        assert!(on(heat::NO_COLOUR, &[heat::STRUCK])[0] >= 3.0);
    }

    #[test]
    fn series_are_told_apart_by_all_eyes() {
        for (colours, least) in [(marks::COLOURS, 15.0), (bars::COLOURS, 25.0)] {
            for eyes in BLIND.into_iter().chain([SEEING]) {
                let seen = colours.map(|colour| seen(eyes, colour));
                for (at, &one) in seen.iter().enumerate() {
                    assert!(seen[..at].iter().all(|&other| distance(one, other) >= least), "{at}");
                }
            }
        }
        // Bars touch each other: they are told apart in grey, too.
        let mut grey = bars::COLOURS.map(|colour| luminance(seen(SEEING, colour)));
        grey.sort_by(f64::total_cmp);
        assert!(grey.windows(2).all(|two| (two[1] + 0.05) / (two[0] + 0.05) >= 1.25), "{grey:?}");
    }

    #[test]
    fn numbers_in_a_map_can_be_read() {
        for part in (0..=1000).map(|part| f64::from(part) / 1000.0) {
            let [ground, ink] = [heat::colour(part), heat::ink(part)];
            let ratio = contrast(seen(SEEING, ground), seen(SEEING, ink));
            assert!(ratio >= 4.5, "{part}: {ratio}");
        }
    }

    #[test]
    fn no_two_ticks_read_alike() {
        let of = |range: Range<f64>, scale: Scale| {
            let decimals = scale.decimals(&range, 6);
            let ticks = RangedCoordf64::from(range).key_points(6);
            ticks.into_iter().map(|tick| scale.label(tick, decimals)).collect::<Vec<_>>()
        };
        for range in [0.983..1.001, 0.0..1.0, 3.0..57.0, 0.0..0.0004, 95.0..1300.0] {
            for scale in [Scale::Rates, Scale::Amounts] {
                let labels = of(range.clone(), scale);
                assert!(labels.windows(2).all(|two| two[0] != two[1]), "{labels:?}");
            }
        }
        assert!(of(3.0..57.0, Scale::Amounts).iter().all(|label| !label.contains('.')));
    }
}
