//! Heat maps: rates over two axes, small multiples of the same grid of cells.

use plotters::prelude::*;
use plotters::style::text_anchor::HPos;

use super::{FONT, Head, LINE, check_finite, count, letters, percent, rates_from_zero};
use crate::canvas;
use crate::canvas::{About, Area, Lettering, Spot, extent, pixel};
use crate::{DrawError, Width, width};

/// Panels below each other.
pub struct HeatMap {
    /// The title above all panels.
    pub title: String,
    /// The name of the columns, and the label of each.
    pub x: (String, Vec<String>),
    /// The name of the rows, and the label of each.
    pub y: (String, Vec<String>),
    /// The width of the picture; without one, as wide as its cells are.
    pub width: Option<Width>,
    /// A title each, and cells by row and column.
    pub panels: Vec<(String, Vec<Vec<Cell>>)>,
}

/// The contents of a cell.
#[derive(Clone, Copy, PartialEq, Debug)]
pub enum Cell {
    /// There is no answer.
    None,
    /// A rate (1 is 100 %).
    Rate(f64),
    /// The rate of an order that breaks its memory limit.
    OverLimit(f64),
}

impl Cell {
    const fn rate(self) -> Option<f64> {
        match self {
            Self::None => None,
            Self::Rate(rate) | Self::OverLimit(rate) => Some(rate),
        }
    }
}

/// A cell without a colour of the scale.
pub(super) const NO_COLOUR: RGBColor = RGBColor(0xEC, 0xEC, 0xEC);
/// The line through cells that do not fit.
pub(super) const STRUCK: RGBColor = RGBColor(0x76, 0x76, 0x76);
/// The legend for cells that are struck through.
const OVER_LIMIT: &str = "grey and struck through: does not fit in memory";

/// Width and height of a cell, the least width in which its rate can be read, and the most.
const CELL: (i32, i32) = (56, 24);
const NARROWEST: i32 = 30;
const WIDEST: i32 = 112;
/// A rate that is as wide as any.
const RATE: &str = "99.9%";
/// From no bubble to the largest: lightness falls evenly, so that grey shows the same, and the hues
/// are those that colour-blind readers keep apart.
const SCALE: [(u8, u8, u8); 3] = [(0xFD, 0xF2, 0xC0), (0x4F, 0x9D, 0xA5), (0x1B, 0x1F, 0x5E)];

/// The part of the scale up to which black letters can be read.
const LIGHT: f64 = 0.625;

pub fn svg(map: &HeatMap) -> Result<String, DrawError> {
    let all = || map.cells().filter_map(Cell::rate);
    if all().next().is_none() {
        return Err(DrawError::Empty { what: "no cell has a rate" });
    }
    check_finite(&map.title, all())?;
    let range = rates_from_zero(all());
    let layout = Layout::of(map)?;
    let over = map.cells().any(|cell| matches!(cell, Cell::OverLimit(_)));
    let notes = over.then(|| OVER_LIMIT.to_owned());
    let head = Head::of(&map.title, &[], notes.as_slice(), extent(layout.width));
    let panel = layout.panel(map);
    let bottom = head.height() + panel.saturating_mul(count(map.panels.len()));
    let size = (extent(layout.width), extent(bottom + LINE));
    let svg = canvas::picture(size, &map.about(), |area| {
        head.draw(area, |_, _| Ok(()))?;
        let mut spots = Vec::new();
        for (top, (title, rows)) in (0..).map(|n| head.height() + n * panel).zip(&map.panels) {
            let bold = Lettering { bold: true, ..letters(HPos::Left) };
            bold.write(area, title, (layout.left, top + LINE / 2))?;
            let upright = Lettering { upright: true, ..letters(HPos::Center) };
            upright.write(area, &map.y.0, (LINE / 2, top + panel / 2 - LINE / 2))?;
            for ((row, cells), name) in (0..).zip(rows).zip(&map.y.1) {
                let y = top + LINE + row * CELL.1;
                for ((column, cell), across) in (0..).zip(cells).zip(&map.x.1) {
                    let at = (layout.left + column * layout.cell, y);
                    draw_cell(area, at, layout.cell, *cell, &range)?;
                    let middle = (at.0 + layout.cell / 2, at.1 + CELL.1 / 2);
                    spots.extend(spot(title, across, name, *cell, middle));
                }
            }
            draw_names(area, map, &layout, top + LINE)?;
        }
        let middle = layout.left + layout.cell * count(map.x.1.len()) / 2;
        letters(HPos::Center).write(area, &map.x.0, (middle, bottom + LINE / 2))?;
        Ok(spots)
    })?;
    Ok(width::printed(svg, size, map.width))
}

/// Sizes in pixels.
struct Layout {
    /// Width of the picture.
    width: i32,
    /// Where cells begin.
    left: i32,
    /// Width of a cell.
    cell: i32,
    /// Height of the names of columns.
    names: i32,
    /// Whether these are upright: one of them is wider than a cell.
    upright: bool,
}

impl Layout {
    fn of(map: &HeatMap) -> Result<Self, DrawError> {
        let longest = |names: &[String]| {
            pixel(names.iter().map(|name| canvas::width(name, FONT)).fold(FONT, f64::max))
        };
        let left = longest(&map.y.1) + LINE + 16;
        let columns = count(map.x.1.len()).max(1);
        let room = map.width.map(|width| (width.room() - left - LINE) / columns);
        let cell = room.map_or(CELL.0, |room| room.min(WIDEST));
        if cell < NARROWEST {
            let least = Width::least(left + NARROWEST * columns + LINE);
            return Err(DrawError::Narrow { columns: map.x.1.len(), least });
        }
        let natural = (CELL.0.saturating_mul(columns) + left + LINE).max(480);
        let upright = longest(&map.x.1) > cell;
        let names = if upright { longest(&map.x.1) + 8 } else { LINE };
        let width = map.width.map_or(natural, Width::room);
        Ok(Self { width, left, cell, names, upright })
    }

    /// Height of a panel.
    fn panel(&self, map: &HeatMap) -> i32 {
        CELL.1.saturating_mul(count(map.y.1.len())).saturating_add(2 * LINE + self.names)
    }
}

impl HeatMap {
    fn cells(&self) -> impl Iterator<Item = Cell> {
        self.panels.iter().flat_map(|panel| panel.1.iter().flatten().copied())
    }

    fn about(&self) -> About {
        let panels: Vec<&str> = self.panels.iter().map(|panel| panel.0.as_str()).collect();
        About::new(
            self.title.clone(),
            format!(
                "Bubble rates, {} across and {} down, for {}.",
                self.x.0,
                self.y.0,
                panels.join("; ")
            ),
        )
    }
}

/// The hint for `cell`, the middle of which is `at`; none where it has no rate.
fn spot(panel: &str, x: &str, y: &str, cell: Cell, at: canvas::Point) -> Option<Spot> {
    let rate = cell.rate()?;
    let fits = !matches!(cell, Cell::OverLimit(_));
    let over = if fits { "" } else { ", does not fit in memory" };
    let data = [
        ("panel", panel.to_owned()),
        ("x", x.to_owned()),
        ("row", y.to_owned()),
        ("y", rate.to_string()),
        ("fits", fits.to_string()),
    ];
    Some(Spot { at, text: format!("{x}, {y}: {:.2}%{over}", rate * 100.0), data: data.into() })
}

/// The names of rows and columns around a panel, whose cells begin at `top`.
fn draw_names(area: &Area<'_>, map: &HeatMap, layout: &Layout, top: i32) -> Result<(), DrawError> {
    let mut y = top + CELL.1 / 2;
    for name in &map.y.1 {
        letters(HPos::Right).write(area, name, (layout.left - 6, y))?;
        y += CELL.1;
    }
    let mut x = layout.left + layout.cell / 2;
    let (anchor, y) = match layout.upright {
        true => (HPos::Right, y - CELL.1 / 2 + 4),
        false => (HPos::Center, y),
    };
    let lettering = Lettering { upright: layout.upright, ..letters(anchor) };
    for name in &map.x.1 {
        lettering.write(area, name, (x, y))?;
        x += layout.cell;
    }
    Ok(())
}

fn draw_cell(
    area: &Area<'_>,
    at: (i32, i32),
    width: i32,
    cell: Cell,
    range: &std::ops::Range<f64>,
) -> Result<(), DrawError> {
    let part = match cell {
        Cell::Rate(rate) => Some((rate - range.start) / (range.end - range.start)),
        Cell::None | Cell::OverLimit(_) => None,
    };
    let end = (at.0 + width - 1, at.1 + CELL.1 - 1);
    canvas::fill(area, at, end, part.map_or(NO_COLOUR, colour))?;
    if matches!(cell, Cell::OverLimit(_)) {
        canvas::line(area, [(at.0, end.1 - 1), (end.0 - 1, at.1)], STRUCK, 1)?;
    }
    let text = cell.rate().map_or_else(|| "none".to_owned(), |rate| percent(rate, 1));
    let size = (f64::from(width - 3) / canvas::width(RATE, 1.0)).min(FONT);
    let lettering =
        Lettering { colour: part.map_or(BLACK, ink), ..Lettering::new(size, HPos::Center) };
    lettering.write(area, &text, (at.0 + width / 2, at.1 + CELL.1 / 2))
}

/// The colour of letters on a rate at `part` of the scale.
pub(super) fn ink(part: f64) -> RGBColor {
    if part > LIGHT { WHITE } else { BLACK }
}

/// The colour of a rate at `part` of the scale, from 0 to 1.
#[allow(clippy::cast_possible_truncation, clippy::cast_sign_loss)]
pub(super) fn colour(part: f64) -> RGBColor {
    let part = part.clamp(0.0, 1.0) * 2.0;
    let (from, to) = if part < 1.0 { (SCALE[0], SCALE[1]) } else { (SCALE[1], SCALE[2]) };
    let rest = if part < 1.0 { part } else { part - 1.0 };
    let mix = |a: u8, b: u8| (f64::from(a) + (f64::from(b) - f64::from(a)) * rest).round() as u8;
    RGBColor(mix(from.0, to.0), mix(from.1, to.1), mix(from.2, to.2))
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::samples::{check_svg, rectangles};

    fn map(rates: [[Option<f64>; 3]; 2], panels: usize) -> HeatMap {
        let cell = |rate: &Option<f64>| rate.map_or(Cell::None, Cell::Rate);
        let labels = |of: &[&str]| of.iter().map(|label| (*label).to_owned()).collect();
        let rates: Vec<Vec<_>> = rates.iter().map(|row| row.iter().map(cell).collect()).collect();
        HeatMap {
            title: "rates".to_owned(),
            x: ("hop".to_owned(), labels(&["0us", "500us", "1000us"])),
            y: ("stages".to_owned(), labels(&["4", "8"])),
            width: None,
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
    fn a_narrow_map_has_narrow_cells_or_is_refused() {
        let mut one = map([[Some(0.0), Some(0.1), Some(0.2)]; 2], 2);
        one.width = Some("240px".parse().unwrap());
        let drawn = svg(&one).unwrap();
        check_svg(&drawn);
        assert!(drawn.contains(" width=\"240\" ") && drawn.contains("\n1000us\n"));
        one.x.1 = vec!["1000us".to_owned(); 20];
        one.width = Some("1col".parse().unwrap());
        let Err(DrawError::Narrow { columns: 20, least }) = svg(&one) else { panic!() };
        one.width = Some(format!("{least}px").parse().unwrap());
        // Its labels are upright.
        check_svg(&svg(&one).unwrap());
    }

    #[test]
    fn what_does_not_fit_is_struck_through() {
        let mut one = map([[Some(0.0), Some(0.1), Some(0.2)]; 2], 1);
        assert!(!svg(&one).unwrap().contains(OVER_LIMIT));
        one.panels[0].1[1][2] = Cell::OverLimit(0.2);
        let drawn = svg(&one).unwrap();
        check_svg(&drawn);
        assert_eq!(drawn.matches(OVER_LIMIT).count(), 1);
        assert_eq!(rectangles(&drawn)[6].fill, "#ECECEC");
        assert_eq!(drawn.matches("data-fits=\"false\"").count(), 1);
        assert_eq!(drawn.matches("class=\"spot\"").count(), 6);
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
