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

use super::DrawError;
use super::canvas::{self, Area, INK, Lettering, Point, pixel};

/// Font size of everything but titles, in pixels.
const FONT: f64 = 13.0;
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

/// The title of a picture, in its top left corner.
fn draw_title(area: &Area<'_>, title: &str) -> Result<(), DrawError> {
    let room = f64::from(area.dim_in_pixel().0) - 2.0 * TITLE;
    // Smaller, before it is shortened.
    let size = (room / canvas::width(title, 1.0).max(1.0)).clamp(FONT, TITLE);
    let lettering = Lettering { bold: true, ..Lettering::new(size, HPos::Left) };
    lettering.write(area, &canvas::fit(title, size, room), (pixel(TITLE), LINE))
}

/// Draws `names` behind their samples, in rows as wide as `area` from `top`; `sample` draws one in
/// the middle of a box of [`SAMPLE`] pixels whose left end it is given.
fn draw_legend(
    area: &Area<'_>,
    names: &[String],
    top: i32,
    sample: impl Fn(usize, Point) -> Result<(), DrawError>,
) -> Result<(), DrawError> {
    for (index, at) in legend_places(names, area.dim_in_pixel().0).into_iter().enumerate() {
        let at = (at.0, top + at.1);
        sample(index, at)?;
        letters(HPos::Left).write(area, &names[index], (at.0 + SAMPLE + 6, at.1))?;
    }
    Ok(())
}

/// Height of a legend of `names`.
fn legend_height(names: &[String], width: u32) -> i32 {
    legend_places(names, width).last().map_or(0, |at| at.1) + LINE
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

/// `value` in percent.
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

    /// The label at `value`.
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
