//! Names beside points, placed where they hide as little as can be.

use plotters::style::RGBColor;
use plotters::style::text_anchor::HPos;

use super::{FONT, letters};
use crate::DrawError;
use crate::canvas;
use crate::canvas::{Area, Lettering, Point, pixel};

/// A point with the name to write beside it.
pub(super) struct Named {
    /// Where its marker is.
    pub at: Point,
    pub name: String,
    /// Written in bold, and placed first.
    pub bold: bool,
}

/// A box in whole pixels, without its right and bottom edges.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
struct Rect {
    left: i32,
    top: i32,
    right: i32,
    bottom: i32,
}

/// Lines from points to their names.
pub(super) const LEADER: RGBColor = RGBColor(0x80, 0x80, 0x80);
/// Half the side of the box that a marker takes.
const MARK: i32 = 6;
/// Markers no farther apart than this share one name, if both are as good.
const SAME: i32 = 3;
/// Half the height of a name.
const HALF: i32 = 8;
/// How far from its point a name may stand; beyond the first a line leads to it.
const DISTANCES: [i32; 7] = [9, 18, 30, 44, 60, 80, 104];
/// Directions in 16ths of a turn, as cosine and sine in hundredths, the preferred ones first.
const DIRECTIONS: [(i32, i32); 16] = [
    (100, 0),
    (-100, 0),
    (71, -71),
    (71, 71),
    (-71, -71),
    (-71, 71),
    (0, -100),
    (0, 100),
    (92, -38),
    (92, 38),
    (-92, -38),
    (-92, 38),
    (38, -92),
    (38, 92),
    (-38, -92),
    (-38, 92),
];

impl Rect {
    fn around((x, y): Point, half: i32) -> Self {
        Self { left: x - half, top: y - half, right: x + half, bottom: y + half }
    }

    /// The area that both cover.
    fn shared(self, other: Self) -> i64 {
        let width = self.right.min(other.right) - self.left.max(other.left);
        let height = self.bottom.min(other.bottom) - self.top.max(other.top);
        i64::from(width.max(0)) * i64::from(height.max(0))
    }

    fn holds(self, (x, y): Point) -> bool {
        (self.left..self.right).contains(&x) && (self.top..self.bottom).contains(&y)
    }

    /// The point of it that is nearest to `to`.
    fn nearest(self, to: Point) -> Point {
        (to.0.clamp(self.left, self.right), to.1.clamp(self.top, self.bottom))
    }
}

/// The boxes that are in the way of names.
struct Taken<'a> {
    bounds: Rect,
    marks: Vec<Rect>,
    names: Vec<Rect>,
    path: &'a [Point],
}

/// Where a name stands, and how bad that is.
#[derive(Clone, Copy)]
struct Place {
    rect: Rect,
    cost: i64,
    /// Whether a line leads to it.
    led: bool,
}

/// Writes the names of `points` within a box of the corners `bounds`, away from markers, other
/// names and, if that is possible, `path`.
pub(super) fn draw(
    area: &Area<'_>,
    points: Vec<Named>,
    bounds: [Point; 2],
    path: &[Point],
) -> Result<(), DrawError> {
    let points = joined(points);
    for (named, place) in points.iter().zip(places(&points, bounds, path)) {
        if place.led {
            canvas::line(area, [named.at, place.rect.nearest(named.at)], LEADER, 1)?;
        }
        let middle = i32::midpoint(place.rect.top, place.rect.bottom);
        let lettering = Lettering { bold: named.bold, ..letters(HPos::Left) };
        lettering.write(area, &named.name, (place.rect.left + 1, middle))?;
    }
    Ok(())
}

/// One name for all points on the same spot with the same text; bold ones first.
fn joined(points: Vec<Named>) -> Vec<Named> {
    let mut all: Vec<Named> = Vec::with_capacity(points.len());
    let (bold, plain): (Vec<_>, Vec<_>) = points.into_iter().partition(|one| one.bold);
    for one in bold.into_iter().chain(plain) {
        let close = |other: &&mut Named| {
            let (x, y) = (one.at.0 - other.at.0, one.at.1 - other.at.1);
            one.bold == other.bold && x.abs() <= SAME && y.abs() <= SAME
        };
        match all.iter_mut().find(close) {
            Some(other) if other.name.split(", ").any(|name| name == one.name) => {}
            Some(other) => other.name.extend([", ", &one.name]),
            None => all.push(one),
        }
    }
    all
}

fn places(points: &[Named], bounds: [Point; 2], path: &[Point]) -> Vec<Place> {
    let [(left, top), (right, bottom)] = bounds;
    let mut taken = Taken {
        bounds: Rect { left, top, right, bottom },
        marks: points.iter().map(|one| Rect::around(one.at, MARK)).collect(),
        names: Vec::with_capacity(points.len()),
        path,
    };
    let mut places = Vec::with_capacity(points.len());
    for one in points {
        let place = taken.best(one);
        taken.names.push(place.rect);
        places.push(place);
    }
    places
}

impl Taken<'_> {
    fn best(&self, one: &Named) -> Place {
        let heavier = if one.bold { 1.2 } else { 1.0 };
        let width = pixel(canvas::width(&one.name, FONT) * heavier) + 2;
        let beside = |distance: i32, (cosine, sine): (i32, i32)| {
            let (x, y) = (one.at.0 + distance * cosine / 100, one.at.1 + distance * sine / 100);
            // The end of the name that is next to the point, or its middle above and below it.
            let left = match cosine {
                50.. => x,
                ..-50 => x - width,
                _ => x - width / 2,
            };
            let y = if sine.abs() > 50 { y + sine.signum() * HALF / 2 } else { y };
            let rect = Rect { left, top: y - HALF, right: left + width, bottom: y + HALF };
            let led = distance > DISTANCES[0];
            Place { rect, cost: self.cost(one.at, rect, led) + i64::from(distance), led }
        };
        let all = DISTANCES.into_iter().flat_map(|distance| {
            DIRECTIONS.into_iter().map(move |direction| (distance, direction))
        });
        let best = all.map(|(distance, direction)| beside(distance, direction));
        let right = beside(DISTANCES[0], DIRECTIONS[0]);
        best.min_by_key(|place| place.cost).unwrap_or(right)
    }

    /// The amount of existing drawing that a name in `rect` hides, or its line crosses.
    fn cost(&self, at: Point, rect: Rect, led: bool) -> i64 {
        let area = i64::from(rect.right - rect.left) * i64::from(rect.bottom - rect.top);
        let outside = area - rect.shared(self.bounds);
        let hidden = |all: &[Rect]| all.iter().map(|other| other.shared(rect)).sum::<i64>();
        let crosses = |ends: &[Point]| match *ends {
            [from, to] => rect.shared(spanned(from, to)) > 0,
            _ => false,
        };
        let crossed = self.path.windows(2).filter(|ends| crosses(ends)).count() as i64;
        let mut cost =
            100 * outside + 20 * (hidden(&self.marks) + hidden(&self.names)) + 40 * crossed;
        if led {
            let to = rect.nearest(at);
            let other = |one: &&Rect| !one.holds(at);
            for step in 1..16 {
                let on = |from: i32, to: i32| from + (to - from) * step / 16;
                let on = (on(at.0, to.0), on(at.1, to.1));
                let all = self.names.iter().chain(self.marks.iter().filter(other));
                cost += 30 * all.filter(|one| one.holds(on)).count() as i64;
            }
        }
        cost
    }
}

/// The box of a level or upright line.
fn spanned(from: Point, to: Point) -> Rect {
    let (left, right) = (from.0.min(to.0), from.0.max(to.0) + 1);
    let (top, bottom) = (from.1.min(to.1), from.1.max(to.1) + 1);
    Rect { left, top, right, bottom }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn named(name: &str, at: Point) -> Named {
        Named { at, name: name.to_owned(), bold: false }
    }

    #[test]
    fn names_of_a_crowd_do_not_overlap_and_stay_inside() {
        let at = |index: i32| (150 + 9 * (index % 4), 100 + 8 * (index / 4));
        let crowd: Vec<Named> = (0..12).map(|index| named("zb-heuristic", at(index))).collect();
        let places = places(&crowd, [(0, 0), (700, 400)], &[]);
        let bounds = Rect { left: 0, top: 0, right: 700, bottom: 400 };
        for (index, one) in places.iter().enumerate() {
            let area = i64::from(one.rect.right - one.rect.left) * i64::from(2 * HALF);
            assert_eq!(one.rect.shared(bounds), area);
            for other in &places[..index] {
                assert_eq!(one.rect.shared(other.rect), 0, "{:?} {:?}", one.rect, other.rect);
            }
        }
    }

    #[test]
    fn points_on_one_spot_share_a_name_and_the_best_comes_first() {
        let best = Named { bold: true, ..named("v-half", (101, 50)) };
        let plain = [("v-min", (100, 50)), ("gis", (300, 50)), ("1f1b-v", (103, 47))];
        let plain = plain.map(|(name, at)| named(name, at));
        let all = joined(plain.into_iter().chain([best]).collect());
        let names: Vec<&str> = all.iter().map(|one| &one.name[..]).collect();
        assert_eq!(names, ["v-half", "v-min, 1f1b-v", "gis"]);
        assert!(all[0].bold && !all[1].bold);
        let twice = [("v-min", (100, 50)), ("gis", (101, 50)), ("v-min", (102, 50))];
        let all = joined(twice.map(|(name, at)| named(name, at)).into_iter().collect());
        assert_eq!(all.iter().map(|one| &one.name[..]).collect::<Vec<_>>(), ["v-min, gis"]);
    }

    #[test]
    fn a_name_alone_stands_to_the_right_and_at_the_right_end_to_the_left() {
        let bounds = [(0, 0), (400, 200)];
        let place = |at| places(&[named("1f1b", at)], bounds, &[])[0];
        let [middle, end] = [place((100, 100)), place((395, 100))];
        assert!(middle.rect.left > 100 && !middle.led && end.rect.right < 395 && !end.led);
    }
}
