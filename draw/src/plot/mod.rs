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

/// The font of what the drawing library writes itself.
fn axis_font() -> TextStyle<'static> {
    TextStyle::from(("sans-serif", FONT * 1.15).into_font()).color(&INK)
}

/// The title of a picture, in its top left corner.
fn draw_title(area: &Area<'_>, title: &str) -> Result<(), DrawError> {
    let room = f64::from(area.dim_in_pixel().0) - 2.0 * TITLE;
    let lettering = Lettering { bold: true, ..Lettering::new(TITLE, HPos::Left) };
    lettering.write(area, &canvas::fit(title, TITLE, room), (pixel(TITLE), LINE))
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

/// `value` in percent, with decimals if the whole axis is `range` wide and needs them.
fn percent(value: f64, range: &Range<f64>) -> String {
    let decimals = match (range.end - range.start) * 100.0 {
        width if width < 0.5 => 2,
        width if width < 5.0 => 1,
        _ => 0,
    };
    format!("{:.decimals$}%", value * 100.0)
}

/// The scale of a vertical axis.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum Scale {
    /// Rates, in percent and from zero.
    Rates,
    /// Amounts, as far as there are any.
    Amounts,
}

impl Scale {
    /// The range of an axis of `values`, of which there are some.
    fn range(self, values: impl Iterator<Item = f64>) -> Result<Range<f64>, DrawError> {
        match self {
            Self::Rates => Ok(rates_from_zero(values)),
            Self::Amounts => panels::fitted(values),
        }
    }

    /// The label at `value` on an axis of `range`.
    fn label(self, value: f64, range: &Range<f64>) -> String {
        match self {
            Self::Rates => percent(value, range),
            Self::Amounts => {
                let decimals = match range.end - range.start {
                    width if width < 0.5 => 2,
                    width if width < 5.0 => 1,
                    _ => 0,
                };
                format!("{value:.decimals$}")
            }
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
