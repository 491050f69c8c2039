//! Marks of series: colour, marker and dashes, distinguishable in grey and by colour-blind readers.

use plotters::element::DashedPathElement;
use plotters::prelude::*;

use crate::DrawError;
use crate::canvas;
use crate::canvas::{Area, INK, Point};
use answer::front::Standing;

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

/// The shape of a marker in a legend that stands for every series: a square.
const SAMPLE: usize = 2;
/// The colour that strikes a marker out, or stands around it.
const STRUCK: RGBColor = RGBColor(0x55, 0x55, 0x55);

/// The marker of series number `index` at `at`.
pub(super) fn draw_marker(area: &Area<'_>, index: usize, at: Point) -> Result<(), DrawError> {
    draw_shape(area, index, colour(index), at)
}

/// The marker of series number `index` for an answer of that `standing`: in full colour on the front, pale
/// off it, struck out where it breaks its limit, in a ring where it is not compared.
pub(super) fn draw_standing(
    area: &Area<'_>,
    index: usize,
    standing: Standing,
    at: Point,
) -> Result<(), DrawError> {
    draw_stood(area, index, colour(index), standing, at)
}

/// Draws a sample of [`draw_standing`] for `standing`, the same for all series.
pub(super) fn draw_sample(area: &Area<'_>, standing: Standing, at: Point) -> Result<(), DrawError> {
    draw_stood(area, SAMPLE, INK, standing, at)
}

fn draw_stood(
    area: &Area<'_>,
    index: usize,
    colour: RGBColor,
    standing: Standing,
    at: Point,
) -> Result<(), DrawError> {
    let RGBColor(r, g, b) = colour;
    let [r, g, b] = [r, g, b].map(|part| 255 - (255 - part) / 5 * 3);
    let pale = RGBColor(r, g, b);
    let (x, y) = at;
    match standing {
        Standing::OnFront => draw_shape(area, index, colour, at),
        Standing::Beaten => draw_shape(area, index, pale, at),
        Standing::OverLimit => {
            draw_shape(area, index, pale, at)?;
            canvas::line(area, [(x - 6, y + 6), (x + 6, y - 6)], STRUCK, 2)
        }
        Standing::NotCompared => {
            draw_shape(area, index, pale, at)?;
            Ok(area.draw(&Circle::new(at, 8, STRUCK.stroke_width(1)))?)
        }
    }
}

/// A black ring around a marker, which stays seen within: a published figure.
pub(super) fn draw_ring(area: &Area<'_>, at: Point) -> Result<(), DrawError> {
    Ok(area.draw(&Circle::new(at, 7, BLACK.stroke_width(1)))?)
}

/// A black dot with a white edge, seen on markers of any colour: a published figure.
pub(super) fn draw_dot(area: &Area<'_>, at: Point) -> Result<(), DrawError> {
    area.draw(&Circle::new(at, 3, WHITE.filled()))?;
    Ok(area.draw(&Circle::new(at, 2, BLACK.filled()))?)
}

/// A white line with black edges, seen on bars of any colour and beside them: a published figure.
pub(super) fn draw_tick(area: &Area<'_>, middle: Point, width: i32) -> Result<(), DrawError> {
    let (x, y) = middle;
    let (left, right) = (x - width / 2, x - width / 2 + width);
    canvas::fill(area, (left, y - 2), (right, y + 3), BLACK)?;
    canvas::fill(area, (left + 1, y - 1), (right - 1, y + 2), WHITE)
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
        4 => {
            let aside = vec![(x - 4, y - 5), (x - 4, y + 5), (x + 5, y)];
            area.draw(&Polygon::new(aside, filled))?;
        }
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
    use crate::canvas::About;

    fn about() -> About {
        About::new(String::new(), String::new())
    }

    #[test]
    fn no_two_standings_look_alike() {
        let all = [Standing::OnFront, Standing::Beaten, Standing::OverLimit, Standing::NotCompared];
        let drawn = all.map(|standing| {
            let draw =
                |area: &Area<'_>| draw_standing(area, 2, standing, (15, 15)).map(|()| Vec::new());
            canvas::picture((30, 30), &about(), draw).unwrap()
        });
        for (at, one) in drawn.iter().enumerate() {
            assert!(!drawn[..at].contains(one), "{at}");
        }
    }

    #[test]
    fn no_two_series_look_alike() {
        let drawn = |index| {
            let draw = |area: &Area<'_>| draw_marker(area, index, (15, 15)).map(|()| Vec::new());
            canvas::picture((30, 30), &about(), draw).unwrap()
        };
        let drawn: Vec<String> = (0..6 * MARKERS).map(drawn).collect();
        for (at, one) in drawn.iter().enumerate() {
            assert!(!drawn[..at].contains(one), "{at}");
        }
        assert!(pipeline::Family::ALL.len() <= drawn.len());
    }
}
