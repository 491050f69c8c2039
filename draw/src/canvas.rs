//! The parts that every SVG picture is made of: colours, text, boxes, on a canvas in whole pixels.

use pipeline::Kind;
use plotters::coord::Shift;
use plotters::prelude::*;
use plotters::style::text_anchor::{HPos, Pos, VPos};

use super::{DrawError, html};

/// A point in pixels from the top left corner.
pub(super) type Point = (i32, i32);

/// A picture, or a part of one, addressed in pixels.
pub(super) type Area<'a> = DrawingArea<SVGBackend<'a>, Shift>;

/// Lines, text and ticks.
pub(super) const INK: RGBColor = RGBColor(0x22, 0x22, 0x22);
/// Grid lines.
pub(super) const GRID: RGBColor = RGBColor(0xD8, 0xD8, 0xD8);
/// A stage that waits: lighter than any pass by a contrast of 3 : 1.
pub(super) const IDLE: RGBColor = RGBColor(0xF7, 0xF7, 0xF7);
/// Copies to the host, and back.
pub(super) const COPIES: [RGBColor; 2] = [RGBColor(0x5E, 0x3A, 0x8C), RGBColor(0x8F, 0x76, 0xBC)];

/// Communication beside compute, and communication that nothing hides: apart from each other by a contrast of
/// 1.75, and from passes.
pub(super) const COMMUNICATION: [RGBColor; 2] =
    [RGBColor(0xA8, 0x7E, 0xA2), RGBColor(0x99, 0x00, 0xCC)];

/// Average width of a character of a sans-serif font, as a share of the font size. Pictures must
/// come out without any font installed, so text is never measured.
const CHARACTER: f64 = 0.58;

/// The factor by which the drawing library divides font sizes.
const FONT_SCALE: f64 = 1.24;

/// The description of a picture, for readers who cannot see it and for programs.
pub(super) struct About {
    /// Its name.
    pub title: String,
    /// The description, in a few sentences.
    pub description: String,
    /// Whether its shapes keep their colours to the edge however large it is shown.
    pub crisp: bool,
}

impl About {
    /// A picture whose edges are smooth.
    pub(super) const fn new(title: String, description: String) -> Self {
        Self { title, description, crisp: false }
    }
}

/// A place of a picture with a hint, for a pointer that rests on it and for programs.
pub(super) struct Spot {
    /// Its centre, in pixels of the whole picture.
    pub at: Point,
    pub text: String,
    /// Names and values of its `data-` attributes, as a program reads them.
    pub data: Vec<(&'static str, String)>,
}

/// Most spots of a picture: more would outweigh the drawing.
const MOST_SPOTS: usize = 10_000;
/// Half the side of a spot, in pixels.
const SPOT: i32 = 6;

/// Draws on a white picture of `size` pixels and returns it as SVG, with the spots that `draw` returns.
pub(super) fn picture(
    size: (u32, u32),
    about: &About,
    draw: impl FnOnce(&Area<'_>) -> Result<Vec<Spot>, DrawError>,
) -> Result<String, DrawError> {
    let mut svg = String::new();
    let spots = {
        let area = SVGBackend::with_string(&mut svg, size).into_drawing_area();
        area.fill(&WHITE)?;
        let spots = draw(&area)?;
        area.present()?;
        spots
    };
    let Some((head, body)) = svg.split_once("<rect") else { return Ok(svg) };
    let crisp = if about.crisp { " shape-rendering=\"crispEdges\"" } else { "" };
    let head = head.replacen("<svg ", &format!("<svg role=\"img\"{crisp} "), 1);
    let [title, description] = [&about.title, &about.description].map(|text| escape(text));
    let about = format!("<title>{title}</title>\n<desc>{description}</desc>\n");
    let body = body.strip_suffix("</svg>\n").unwrap_or(body);
    let spots = if spots.len() > MOST_SPOTS { String::new() } else { written(&spots) };
    Ok([&head, &about, "<rect", body, &spots, "</svg>\n"].concat())
}

/// `spots` as invisible shapes.
fn written(spots: &[Spot]) -> String {
    let spot = |Spot { at: (x, y), text, data }: &Spot| {
        let data = data.iter().map(|(name, value)| format!(" data-{name}=\"{}\"", escape(value)));
        format!(
            "<path class=\"spot\"{} d=\"M{},{}h{side}v{side}h-{side}z\" fill=\"none\" \
             pointer-events=\"all\"><title>{}</title></path>\n",
            data.collect::<String>(),
            x - SPOT,
            y - SPOT,
            escape(text),
            side = 2 * SPOT,
        )
    };
    spots.iter().map(spot).collect()
}

/// `text` in which nothing is markup. XML has no way to write a control character.
fn escape(text: &str) -> String {
    html::escape(&text.chars().filter(|c| !c.is_control()).collect::<String>())
}

/// The nearest pixel.
#[allow(clippy::cast_possible_truncation)] // `as` saturates, and no picture is that large.
pub(super) fn pixel(position: f64) -> i32 {
    position.round() as i32
}

/// A length in pixels as a picture size, at least one.
pub(super) fn extent(pixels: i32) -> u32 {
    u32::try_from(pixels).unwrap_or(0).max(1)
}

/// How text looks and where it stands relative to its point.
#[derive(Clone, Copy)]
pub(super) struct Lettering {
    /// Font size in pixels.
    pub size: f64,
    pub colour: RGBColor,
    /// Which end of the text the point is.
    pub anchor: HPos,
    /// Read from bottom to top.
    pub upright: bool,
    /// Heavier letters.
    pub bold: bool,
}

impl Lettering {
    /// Plain text of `size` pixels, centred vertically on its point.
    pub(super) const fn new(size: f64, anchor: HPos) -> Self {
        Self { size, colour: INK, anchor, upright: false, bold: false }
    }

    /// Writes `text` at `at`.
    pub(super) fn write(self, area: &Area<'_>, text: &str, at: Point) -> Result<(), DrawError> {
        // XML has no way to write a control character.
        let text: String = text.chars().filter(|c| !c.is_control()).collect();
        let weight = if self.bold { FontStyle::Bold } else { FontStyle::Normal };
        let font = FontDesc::new(FontFamily::SansSerif, self.size * FONT_SCALE, weight);
        let turn = if self.upright { FontTransform::Rotate270 } else { FontTransform::None };
        let style = TextStyle::from(font.transform(turn)).color(&self.colour);
        let style = style.pos(Pos::new(self.anchor, VPos::Center));
        Ok(area.draw(&Text::new(text, at, style))?)
    }
}

/// Estimated width of `text` in pixels.
pub(super) fn width(text: &str, size: f64) -> f64 {
    text.chars().count() as f64 * size * CHARACTER
}

/// `text`, shortened to about `room` pixels.
pub(super) fn fit(text: &str, size: f64, room: f64) -> String {
    if width(text, size) <= room {
        return text.to_owned();
    }
    let mut short = text.to_owned();
    while short.pop().is_some() && width(&short, size) + size > room {}
    short + "…"
}

/// A filled rectangle from `from` up to, and without, `to`.
pub(super) fn fill(
    area: &Area<'_>,
    from: Point,
    to: Point,
    colour: RGBColor,
) -> Result<(), DrawError> {
    Ok(area.draw(&Rectangle::new([from, to], colour.filled()))?)
}

/// A line of `weight` pixels.
pub(super) fn line(
    area: &Area<'_>,
    ends: [Point; 2],
    colour: RGBColor,
    weight: u32,
) -> Result<(), DrawError> {
    Ok(area.draw(&PathElement::new(ends, colour.stroke_width(weight)))?)
}

/// The colour of a pass, and of its label.
///
/// Contrast with [`IDLE`] (WCAG 2) is 3.3 of W and grows over B, F, S, BW and T to 18 of R; a later
/// chunk is darker by a sixth, but for S, T and R. All can be distinguished in grey, and the hues are
/// those that colour-blind readers can distinguish.
pub(super) const fn colours(kind: Kind, later: bool) -> (RGBColor, RGBColor) {
    match (kind, later) {
        (Kind::W, false) => (RGBColor(0x26, 0x99, 0x79), BLACK),
        (Kind::W, true) => (RGBColor(0x19, 0x8D, 0x6C), BLACK),
        (Kind::B, false) => (RGBColor(0xAB, 0x5D, 0x04), WHITE),
        (Kind::B, true) => (RGBColor(0x9F, 0x51, 0x04), WHITE),
        (Kind::F, false) => (RGBColor(0x22, 0x5F, 0x93), WHITE),
        (Kind::F, true) => (RGBColor(0x1A, 0x52, 0x8A), WHITE),
        (Kind::S, _) => (RGBColor(0x63, 0x34, 0x6E), WHITE),
        (Kind::BW, false) => (RGBColor(0x6E, 0x22, 0x13), WHITE),
        (Kind::BW, true) => (RGBColor(0x5C, 0x1A, 0x0D), WHITE),
        (Kind::T, _) => (RGBColor(0x28, 0x11, 0x51), WHITE),
        (Kind::R, _) => (RGBColor(0x23, 0x00, 0x0F), WHITE),
    }
}

/// Whether passes of a later chunk have another shade.
pub(super) const fn has_two_shades(kind: Kind) -> bool {
    !matches!(kind, Kind::S | Kind::T | Kind::R)
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::eyes::{BLIND, Linear, SEEING, contrast, distance, luminance, seen};

    fn passes() -> Vec<(Kind, bool, RGBColor)> {
        let shades = |later: bool| {
            let kinds = Kind::ALL.into_iter().filter(move |&kind| !later || has_two_shades(kind));
            kinds.map(move |kind| (kind, later, colours(kind, later).0))
        };
        [false, true].into_iter().flat_map(shades).collect()
    }

    #[test]
    fn no_pass_looks_like_idle_time_to_anyone() {
        for eyes in BLIND.into_iter().chain([SEEING]) {
            for (kind, later, colour) in passes() {
                let ratio = contrast(seen(eyes, colour), seen(eyes, IDLE));
                assert!(ratio >= 3.0, "{kind:?} {later}: {ratio}");
            }
            let copies = COPIES.map(|colour| seen(eyes, colour));
            assert!(copies.iter().all(|&one| contrast(one, seen(eyes, IDLE)) >= 3.0), "{copies:?}");
            assert!(contrast(copies[0], copies[1]) > 1.8, "{copies:?}");
        }
    }

    #[test]
    fn passes_are_told_apart_in_grey() {
        let grey = |only_first: bool| {
            let mut all: Vec<Linear> = passes()
                .into_iter()
                .filter(|(_, later, _)| !(only_first && *later))
                .map(|(_, _, colour)| seen(SEEING, colour))
                .collect();
            all.sort_by(|a, b| luminance(*a).total_cmp(&luminance(*b)));
            all.windows(2).map(|pair| contrast(pair[0], pair[1])).collect::<Vec<_>>()
        };
        assert!(grey(false).iter().all(|&ratio| ratio > 1.15), "{:?}", grey(false));
        // Passes of the compute that every schedule has, without the vocabulary's.
        let of = |kind| seen(SEEING, colours(kind, false).0);
        let levels = [Kind::W, Kind::B, Kind::F, Kind::BW].map(of);
        assert!(levels.windows(2).all(|pair| contrast(pair[0], pair[1]) > 1.35));
    }

    #[test]
    fn the_colour_blind_tell_kinds_apart() {
        for eyes in BLIND.into_iter().chain([SEEING]) {
            for (kind, later, colour) in passes() {
                for (other, other_later, beside) in passes() {
                    let apart = distance(seen(eyes, colour), seen(eyes, beside));
                    let least = match kind == other {
                        true if later == other_later => continue,
                        true => 4.0,
                        false => 9.0,
                    };
                    assert!(apart >= least, "{kind:?} {later}, {other:?} {other_later}: {apart}");
                }
            }
        }
    }

    #[test]
    fn communication_is_told_from_passes_and_from_idle_time() {
        for eyes in BLIND.into_iter().chain([SEEING]) {
            let both = COMMUNICATION.map(|colour| seen(eyes, colour));
            assert!(both.iter().all(|&one| contrast(one, seen(eyes, IDLE)) >= 3.0));
            assert!(contrast(both[0], both[1]) > 1.75);
            let others = passes().into_iter().map(|(_, _, colour)| colour).chain(COPIES);
            for other in others.map(|colour| seen(eyes, colour)) {
                assert!(both.iter().all(|&one| distance(one, other) >= 9.0));
            }
        }
    }

    #[test]
    fn numbers_in_boxes_can_be_read() {
        for (kind, later, colour) in passes() {
            let ink = seen(SEEING, colours(kind, later).1);
            assert!(contrast(seen(SEEING, colour), ink) >= 4.5, "{kind:?} {later}");
        }
    }

    #[test]
    fn a_picture_says_what_it_is_and_takes_no_markup() {
        let title = "</title><img src=x>\u{1}".to_owned();
        let about = About::new(title, "a & b".to_owned());
        let spot = Spot {
            at: (5, 6),
            text: "<b>".to_owned(),
            data: vec![("series", "\"><script>".to_owned())],
        };
        let svg = picture((20, 10), &about, |_| Ok(vec![spot])).unwrap();
        assert!(svg.starts_with("<svg role=\"img\" width=\"20\"") && svg.ends_with("</svg>\n"));
        for text in ["<title>&lt;/title&gt;&lt;img src=x&gt;</title>", "<desc>a &amp; b</desc>"] {
            assert!(svg.contains(text), "{svg}");
        }
        assert!(svg.contains("data-series=\"&quot;&gt;&lt;script&gt;\" d=\"M-1,0h12v12h-12z\""));
        assert!(!svg.contains("<img") && !svg.contains("<b>") && !svg.contains("<script"));
    }

    #[test]
    fn long_text_is_shortened() {
        assert_eq!(fit("zb-h1", 10.0, 100.0), "zb-h1");
        let short = fit("a title that is far too long", 10.0, 60.0);
        assert!(short.ends_with('…') && width(&short, 10.0) <= 60.0, "{short}");
    }
}
