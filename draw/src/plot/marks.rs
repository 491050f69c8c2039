//! Marks of series: colour, marker and dashes, distinguishable in grey and by colour-blind readers.

use plotters::element::DashedPathElement;
use plotters::prelude::*;

use crate::DrawError;
use crate::canvas;
use crate::canvas::{Area, INK, Point};
use answer::front::Standing;

/// Distance of the edge of a marker from its centre, in pixels: of one alone, of one on the front, and of one that is
/// not.
const MARKER: i32 = 4;
const LARGE: i32 = 5;
const SMALL: i32 = 3;

/// Colours that colour-blind readers keep apart, most of them of Okabe and Ito, each with a contrast of 3 : 1 on white.
pub(super) const COLOURS: [RGBColor; 6] = [
    RGBColor(0x00, 0x72, 0xB2),
    RGBColor(0xD5, 0x5E, 0x00),
    RGBColor(0x00, 0x9E, 0x73),
    RGBColor(0xB5, 0x5A, 0x94),
    RGBColor(0x33, 0x33, 0x33),
    RGBColor(0x7B, 0x3F, 0xE0),
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
pub(super) const STRUCK: RGBColor = RGBColor(0x55, 0x55, 0x55);

/// The marker of series number `index` at `at`.
pub(super) fn draw_marker(area: &Area<'_>, index: usize, at: Point) -> Result<(), DrawError> {
    draw_shape(area, index, colour(index), MARKER, at)
}

/// The marker of series number `index` for an answer of that `standing`: large on the front, small off it, struck out
/// where it breaks its limit, in a ring where it is not compared.
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
    let (x, y) = at;
    let half = if standing.is_on_front() { LARGE } else { SMALL };
    draw_shape(area, index, colour, half, at)?;
    match standing {
        Standing::OnFront | Standing::Beaten => Ok(()),
        Standing::OverLimit => canvas::line(area, [(x - 7, y + 7), (x + 7, y - 7)], STRUCK, 2),
        Standing::NotCompared => Ok(area.draw(&Circle::new(at, 8, STRUCK.stroke_width(1)))?),
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

/// The marker of series number `index`, whose edge is `half` pixels away from its centre.
fn draw_shape(
    area: &Area<'_>,
    index: usize,
    colour: RGBColor,
    half: i32,
    at: Point,
) -> Result<(), DrawError> {
    let (x, y) = at;
    let (near, far) = (half - 1, half + 1);
    let diamond = || vec![(x - far, y), (x, y - far), (x + far, y), (x, y + far)];
    let square = [(x - near, y - near), (x + near + 1, y + near + 1)];
    let (filled, line) = (colour.filled(), colour.stroke_width(2));
    match index % MARKERS {
        0 => area.draw(&Circle::new(at, half, filled))?,
        1 => area.draw(&TriangleMarker::new(at, far, filled))?,
        2 => area.draw(&Rectangle::new(square, filled))?,
        3 => area.draw(&Polygon::new(diamond(), filled))?,
        4 => {
            let aside = vec![(x - half, y - far), (x - half, y + far), (x + far, y)];
            area.draw(&Polygon::new(aside, filled))?;
        }
        5 => {
            area.draw(&Circle::new(at, half, WHITE.filled()))?;
            area.draw(&Circle::new(at, half, line))?;
        }
        6 => {
            area.draw(&Rectangle::new(square, WHITE.filled()))?;
            area.draw(&Rectangle::new(square, line))?;
        }
        7 => {
            area.draw(&PathElement::new([(x - far, y), (x + far, y)], line))?;
            area.draw(&PathElement::new([(x, y - far), (x, y + far)], line))?;
        }
        8 => {
            let turned = vec![(x - far, y - half), (x + far, y - half), (x, y + far)];
            area.draw(&Polygon::new(turned, filled))?;
        }
        9 => {
            let [left, right, top, bottom] = [x - far, x + far, y - far, y + far];
            let hourglass = vec![(left, top), (right, top), (left, bottom), (right, bottom)];
            area.draw(&Polygon::new(hourglass, filled))?;
        }
        _ => {
            area.draw(&Polygon::new(diamond(), WHITE.filled()))?;
            let closed: Vec<Point> = diamond().into_iter().chain([(x - far, y)]).collect();
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
