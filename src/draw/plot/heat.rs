//! Heat maps: rates over two axes, small multiples of the same grid of cells.

use plotters::prelude::*;
use plotters::style::text_anchor::HPos;

use super::{FONT, LINE, check_finite, draw_title, letters, percent, rates_from_zero};
use crate::draw::DrawError;
use crate::draw::canvas::{self, Area, IDLE, INK, Lettering, extent, pixel};

/// Panels below each other.
pub(crate) struct HeatMap {
    /// What stands above all panels.
    pub title: String,
    /// What the columns are, and what each is.
    pub x: (String, Vec<String>),
    /// What the rows are, and what each is.
    pub y: (String, Vec<String>),
    /// A title each, and rates by row and column; a cell may have none.
    pub panels: Vec<(String, Vec<Vec<Option<f64>>>)>,
}

/// Width and height of a cell.
const CELL: (i32, i32) = (56, 24);
/// From no bubble to the largest: lightness falls evenly, so that grey shows the same, and the hues
/// are those that colour-blind readers keep apart.
const SCALE: [(u8, u8, u8); 3] = [(0xFD, 0xF2, 0xC0), (0x4F, 0x9D, 0xA5), (0x1B, 0x1F, 0x5E)];

/// Draws `map`.
///
/// # Errors
/// If there is no rate in it, or one is not finite.
pub(crate) fn svg(map: &HeatMap) -> Result<String, DrawError> {
    let all = || map.panels.iter().flat_map(|panel| panel.1.iter().flatten().flatten().copied());
    if all().next().is_none() {
        return Err(DrawError::Empty { what: "no cell has a rate" });
    }
    check_finite(&map.title, all())?;
    let range = rates_from_zero(all());
    let count = |labels: &[String]| i32::try_from(labels.len()).unwrap_or(i32::MAX);
    let names = map.y.1.iter().map(|name| canvas::width(name, FONT));
    let left = pixel(names.fold(FONT, f64::max)) + LINE + 16;
    let panel = CELL.1.saturating_mul(count(&map.y.1)).saturating_add(3 * LINE);
    let width = extent(CELL.0.saturating_mul(count(&map.x.1)) + left + LINE).max(480);
    let height =
        extent(panel.saturating_mul(i32::try_from(map.panels.len()).unwrap_or(1)) + 3 * LINE);
    canvas::picture((width, height), |area| {
        draw_title(area, &map.title)?;
        for (top, (title, rows)) in (0..).map(|n| 2 * LINE + n * panel).zip(&map.panels) {
            let bold = Lettering { bold: true, ..letters(HPos::Left) };
            bold.write(area, title, (left, top + LINE / 2))?;
            let upright = Lettering { upright: true, ..letters(HPos::Center) };
            upright.write(area, &map.y.0, (LINE / 2, top + panel / 2 - LINE / 2))?;
            for (row, rates) in (0..).zip(rows) {
                let y = top + LINE + row * CELL.1;
                for (column, rate) in (0..).zip(rates) {
                    draw_cell(area, (left + column * CELL.0, y), *rate, &range)?;
                }
            }
            draw_names(area, map, (left, top + LINE))?;
        }
        let bottom = i32::try_from(height).unwrap_or(i32::MAX) - LINE / 2;
        let middle = left + CELL.0 * count(&map.x.1) / 2;
        letters(HPos::Center).write(area, &map.x.0, (middle, bottom))
    })
}

/// The names of rows and columns around a panel.
fn draw_names(area: &Area<'_>, map: &HeatMap, (left, top): (i32, i32)) -> Result<(), DrawError> {
    let mut y = top + CELL.1 / 2;
    for name in &map.y.1 {
        letters(HPos::Right).write(area, name, (left - 6, y))?;
        y += CELL.1;
    }
    let mut x = left + CELL.0 / 2;
    for name in &map.x.1 {
        let name = canvas::fit(name, FONT, f64::from(CELL.0));
        letters(HPos::Center).write(area, &name, (x, y))?;
        x += CELL.0;
    }
    Ok(())
}

fn draw_cell(
    area: &Area<'_>,
    at: (i32, i32),
    rate: Option<f64>,
    range: &std::ops::Range<f64>,
) -> Result<(), DrawError> {
    let part = rate.map(|rate| (rate - range.start) / (range.end - range.start));
    let fill = part.map_or(IDLE, colour);
    canvas::fill(area, at, (at.0 + CELL.0 - 1, at.1 + CELL.1 - 1), fill)?;
    let text = rate.map_or_else(|| "none".to_owned(), |rate| percent(rate, &(0.0..0.04)));
    let ink = if part.is_some_and(|part| part > 0.55) { WHITE } else { INK };
    let lettering = Lettering { colour: ink, ..letters(HPos::Center) };
    lettering.write(area, &text, (at.0 + CELL.0 / 2, at.1 + CELL.1 / 2))
}

/// The colour of a rate at `part` of the scale, from 0 to 1.
#[allow(clippy::cast_possible_truncation, clippy::cast_sign_loss)]
fn colour(part: f64) -> RGBColor {
    let part = part.clamp(0.0, 1.0) * 2.0;
    let (from, to) = if part < 1.0 { (SCALE[0], SCALE[1]) } else { (SCALE[1], SCALE[2]) };
    let rest = if part < 1.0 { part } else { part - 1.0 };
    let mix = |a: u8, b: u8| (f64::from(a) + (f64::from(b) - f64::from(a)) * rest).round() as u8;
    RGBColor(mix(from.0, to.0), mix(from.1, to.1), mix(from.2, to.2))
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::draw::samples::{check_svg, rectangles};

    fn map(rates: [[Option<f64>; 3]; 2], panels: usize) -> HeatMap {
        let labels = |of: &[&str]| of.iter().map(|label| (*label).to_owned()).collect();
        let rates: Vec<Vec<_>> = rates.iter().map(|row| row.to_vec()).collect();
        HeatMap {
            title: "rates".to_owned(),
            x: ("hop".to_owned(), labels(&["0us", "500us", "1000us"])),
            y: ("stages".to_owned(), labels(&["4", "8"])),
            panels: (0..panels).map(|n| (format!("m={n}"), rates.clone())).collect(),
        }
    }

    #[test]
    fn every_cell_has_its_colour_and_its_rate() {
        let rates = [[Some(0.0), Some(0.1), Some(0.2)], [None, Some(0.2), Some(0.05)]];
        let drawn = svg(&map(rates, 2)).unwrap();
        check_svg(&drawn);
        // A white ground, then a cell per rate.
        let cells = rectangles(&drawn);
        assert_eq!(cells.len(), 1 + 2 * 6);
        let fills: Vec<&str> = cells[1..7].iter().map(|cell| &cell.fill[..]).collect();
        assert_eq!((fills[0], fills[3]), ("#FDF2C0", "#ECECEC"));
        assert_eq!(fills[2], fills[4]);
        assert!(fills[2] != fills[1] && fills[1] != fills[5]);
        for (text, count) in [("20.0%", 4), ("5.0%", 2), ("none", 2), ("500us", 2)] {
            assert_eq!(drawn.matches(&format!("\n{text}\n")).count(), count, "{text}");
        }
    }

    #[test]
    fn more_bubble_is_darker() {
        let light = |part| {
            let RGBColor(r, g, b) = colour(part);
            2 * u32::from(r) + 7 * u32::from(g) + u32::from(b)
        };
        let lights: Vec<u32> = (0..=20).map(|part| light(f64::from(part) / 20.0)).collect();
        assert!(lights.windows(2).all(|pair| pair[0] > pair[1] + 20), "{lights:?}");
    }

    #[test]
    fn what_has_no_place_is_refused() {
        assert!(matches!(svg(&map([[None; 3]; 2], 1)), Err(DrawError::Empty { .. })));
        let infinite = svg(&map([[Some(f64::INFINITY); 3]; 2], 1));
        assert!(matches!(infinite, Err(DrawError::NotFinite { .. })));
    }
}
