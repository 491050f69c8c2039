//! What every SVG picture is made of: colours, text, boxes, on a canvas in whole pixels.

use pipeline::Kind;
use plotters::coord::Shift;
use plotters::prelude::*;
use plotters::style::text_anchor::{HPos, Pos, VPos};

use super::DrawError;

/// A point in pixels from the top left corner.
pub(super) type Point = (i32, i32);

/// A picture, or a part of one, addressed in pixels.
pub(super) type Area<'a> = DrawingArea<SVGBackend<'a>, Shift>;

/// Lines, text and ticks.
pub(super) const INK: RGBColor = RGBColor(0x22, 0x22, 0x22);
/// Grid lines.
pub(super) const GRID: RGBColor = RGBColor(0xD8, 0xD8, 0xD8);
/// A stage that waits.
pub(super) const IDLE: RGBColor = RGBColor(0xEC, 0xEC, 0xEC);

/// Average width of a character of a sans-serif font, as a share of the font size. Pictures must
/// come out without any font installed, so text is never measured.
const CHARACTER: f64 = 0.58;

/// What the drawing library divides font sizes by.
const FONT_SCALE: f64 = 1.24;

/// Draws on a white picture of `size` pixels and returns it as SVG.
pub(super) fn picture(
    size: (u32, u32),
    draw: impl FnOnce(&Area<'_>) -> Result<(), DrawError>,
) -> Result<String, DrawError> {
    let mut svg = String::new();
    {
        let area = SVGBackend::with_string(&mut svg, size).into_drawing_area();
        area.fill(&WHITE)?;
        draw(&area)?;
        area.present()?;
    }
    Ok(svg)
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
    /// Colour of the letters.
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

/// The colour of a pass, and of what is written on it.
///
/// Lightness falls from W over B and F to BW in even steps and a later chunk is half a step darker; S
/// and T, which have no chunk, lie between F and BW and below. All are told apart in grey; the hues are those that colour-blind readers keep apart.
pub(super) const fn colours(kind: Kind, later: bool) -> (RGBColor, RGBColor) {
    match (kind, later) {
        (Kind::F, false) => (RGBColor(0x3F, 0x88, 0xC5), WHITE),
        (Kind::F, true) => (RGBColor(0x1F, 0x68, 0xA5), WHITE),
        (Kind::B, false) => (RGBColor(0xEA, 0x9A, 0x34), INK),
        (Kind::B, true) => (RGBColor(0xD2, 0x80, 0x1A), INK),
        (Kind::W, false) => (RGBColor(0xA9, 0xE6, 0xD1), INK),
        (Kind::W, true) => (RGBColor(0x7A, 0xD2, 0xB5), INK),
        (Kind::BW, false) => (RGBColor(0x96, 0x32, 0x1A), WHITE),
        (Kind::BW, true) => (RGBColor(0x64, 0x1C, 0x0E), WHITE),
        (Kind::S, _) => (RGBColor(0x96, 0x5F, 0xB0), WHITE),
        (Kind::T, _) => (RGBColor(0x3A, 0x1A, 0x5C), WHITE),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// CIE lightness, 0 (black) to 100 (white).
    fn lightness(RGBColor(r, g, b): RGBColor) -> f64 {
        let linear = |part: u8| (f64::from(part) / 255.0).powf(2.2);
        let luminance = 0.2126 * linear(r) + 0.7152 * linear(g) + 0.0722 * linear(b);
        116.0 * luminance.cbrt() - 16.0
    }

    #[test]
    fn passes_are_told_apart_in_grey() {
        let shades = |later: bool| {
            let kinds =
                Kind::ALL.into_iter().filter(move |kind| !(later && kind.is_of_vocabulary()));
            kinds.map(move |kind| lightness(colours(kind, later).0))
        };
        let mut grey: Vec<f64> = [false, true].into_iter().flat_map(shades).collect();
        grey.push(lightness(IDLE));
        grey.sort_by(f64::total_cmp);
        assert!(grey.windows(2).all(|pair| pair[1] - pair[0] > 5.0), "{grey:?}");
    }

    #[test]
    fn long_text_is_shortened() {
        assert_eq!(fit("zb-h1", 10.0, 100.0), "zb-h1");
        let short = fit("a title that is far too long", 10.0, 60.0);
        assert!(short.ends_with('…') && width(&short, 10.0) <= 60.0, "{short}");
    }
}
