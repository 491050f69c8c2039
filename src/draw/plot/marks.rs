//! How series are told apart: colour, marker and dashes, also in grey and by the colour-blind.

use plotters::element::DashedPathElement;
use plotters::prelude::*;

use crate::draw::DrawError;
use crate::draw::canvas::{Area, Point};

/// Distance of the markers in a series from their centre, in pixels.
const MARKER: i32 = 4;

/// Colours that colour-blind readers keep apart (Okabe and Ito), the dark ones first.
const COLOURS: [RGBColor; 6] = [
    RGBColor(0x00, 0x72, 0xB2),
    RGBColor(0xD5, 0x5E, 0x00),
    RGBColor(0x00, 0x9E, 0x73),
    RGBColor(0xB5, 0x5A, 0x94),
    RGBColor(0x33, 0x33, 0x33),
    RGBColor(0x56, 0xB4, 0xE9),
];
/// Lengths of dash and gap by series; a gap of zero is an unbroken line.
const DASHES: [(i32, i32); 6] = [(1, 0), (7, 4), (2, 3), (12, 4), (1, 0), (4, 4)];

/// How many markers there are. It shares no factor with the number of colours, so that only every
/// 66th series looks alike.
const MARKERS: usize = 11;

/// The colour of series number `index`.
fn colour(index: usize) -> RGBColor {
    COLOURS[index % COLOURS.len()]
}

/// The line of series number `index` through `points`.
pub(super) fn draw_line(area: &Area<'_>, index: usize, points: &[Point]) -> Result<(), DrawError> {
    let style = colour(index).stroke_width(2);
    let (dash, gap) = DASHES[index % DASHES.len()];
    let points = points.to_vec();
    if gap == 0 {
        return Ok(area.draw(&PathElement::new(points, style))?);
    }
    Ok(area.draw(&DashedPathElement::new(points, dash, gap, style))?)
}

/// The marker of series number `index` at `at`.
pub(super) fn draw_marker(area: &Area<'_>, index: usize, at: Point) -> Result<(), DrawError> {
    draw_shape(area, index, colour(index), at)
}

/// The same in a paler colour: there, but not what matters.
pub(super) fn draw_faint(area: &Area<'_>, index: usize, at: Point) -> Result<(), DrawError> {
    let RGBColor(r, g, b) = colour(index);
    let [r, g, b] = [r, g, b].map(|part| 255 - (255 - part) / 5 * 2);
    draw_shape(area, index, RGBColor(r, g, b), at)
}

fn draw_shape(area: &Area<'_>, index: usize, colour: RGBColor, at: Point) -> Result<(), DrawError> {
    let (x, y) = at;
    let diamond = || vec![(x - 5, y), (x, y - 5), (x + 5, y), (x, y + 5)];
    let square = [(x - 3, y - 3), (x + 4, y + 4)];
    let (filled, line) = (colour.filled(), colour.stroke_width(2));
    match index % MARKERS {
        0 => area.draw(&Circle::new(at, MARKER, filled))?,
        1 => area.draw(&TriangleMarker::new(at, MARKER + 1, filled))?,
        2 => area.draw(&Rectangle::new(square, filled))?,
        3 => area.draw(&Polygon::new(diamond(), filled))?,
        4 => area.draw(&Cross::new(at, MARKER, line))?,
        5 => {
            area.draw(&Circle::new(at, MARKER, WHITE.filled()))?;
            area.draw(&Circle::new(at, MARKER, line))?;
        }
        6 => {
            area.draw(&Rectangle::new(square, WHITE.filled()))?;
            area.draw(&Rectangle::new(square, line))?;
        }
        7 => {
            area.draw(&PathElement::new([(x - 5, y), (x + 5, y)], line))?;
            area.draw(&PathElement::new([(x, y - 5), (x, y + 5)], line))?;
        }
        8 => {
            let turned = vec![(x - 5, y - 4), (x + 5, y - 4), (x, y + 5)];
            area.draw(&Polygon::new(turned, filled))?;
        }
        9 => {
            let hourglass = vec![(x - 5, y - 5), (x + 5, y - 5), (x - 5, y + 5), (x + 5, y + 5)];
            area.draw(&Polygon::new(hourglass, filled))?;
        }
        _ => {
            area.draw(&Polygon::new(diamond(), WHITE.filled()))?;
            let closed: Vec<Point> = diamond().into_iter().chain([(x - 5, y)]).collect();
            area.draw(&PathElement::new(closed, line))?;
        }
    }
    Ok(())
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::draw::canvas;

    #[test]
    fn no_two_series_look_alike() {
        let drawn =
            |index| canvas::picture((30, 30), |area| draw_marker(area, index, (15, 15))).unwrap();
        let drawn: Vec<String> = (0..6 * MARKERS).map(drawn).collect();
        for (at, one) in drawn.iter().enumerate() {
            assert!(!drawn[..at].contains(one), "{at}");
        }
        assert!(pipeline::Family::ALL.len() <= drawn.len());
    }
}
