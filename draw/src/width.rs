//! The width of a picture, and the size of the text in it.

use std::str::FromStr;

use super::canvas::{extent, pixel};

/// The width of a picture in pixels, 96 to the inch.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct Width(u32);

/// Pixels of a millimetre.
const MILLIMETRE: f64 = 96.0 / 25.4;
/// The narrowest and the widest picture, in pixels.
const RANGE: [u32; 2] = [240, 10_000];
/// A column of a paper of two columns, and both, in millimetres.
const COLUMNS: [(&str, f64); 2] = [("1col", 84.0), ("2col", 178.0)];
/// The font size of a picture by the most pixels that it is wide: that of a paper where it is narrow.
const FONTS: [(u32, f64); 3] = [(480, 10.0), (800, 11.5), (u32::MAX, FONT)];
/// The font size of a picture whose width is not given, in pixels.
pub(super) const FONT: f64 = 13.0;

impl Width {
    /// In pixels.
    #[must_use]
    pub const fn pixels(self) -> u32 {
        self.0
    }

    /// The font size in a picture of this width, in pixels.
    pub(super) fn font(self) -> f64 {
        FONTS.iter().find(|(most, _)| self.0 <= *most).map_or(FONT, |one| one.1)
    }

    /// The width of the same picture with text of the size [`FONT`], in pixels.
    pub(super) fn room(self) -> i32 {
        pixel(f64::from(self.0) * FONT / self.font())
    }

    /// The least width of a picture with that [`Self::room`], in pixels.
    pub(super) fn least(room: i32) -> u32 {
        let wide = |font: f64| extent(pixel((f64::from(room) * font / FONT).ceil()));
        FONTS.iter().find(|(most, font)| wide(*font) <= *most).map_or(RANGE[1], |one| wide(one.1))
    }

    /// The length in this picture of so many `pixels` of the one with text of the size [`FONT`].
    pub(super) fn printed(self, pixels: u32) -> u32 {
        extent(pixel(f64::from(pixels) * self.font() / FONT))
    }
}

impl FromStr for Width {
    type Err = String;

    fn from_str(text: &str) -> Result<Self, String> {
        let column = COLUMNS.iter().find(|(name, _)| *name == text);
        let of = |unit: &str| text.strip_suffix(unit)?.trim_end().parse::<f64>().ok();
        let pixels = match column {
            Some((_, millimetres)) => Some(millimetres * MILLIMETRE),
            None => of("mm").map(|length| length * MILLIMETRE).or_else(|| of("px")),
        };
        let pixels = pixels.filter(|pixels| pixels.is_finite()).ok_or_else(|| {
            format!(
                "`{text}` is not a width: 84mm, 1200px, 1col or 2col (one or two columns of a paper)"
            )
        })?;
        let pixels = extent(pixel(pixels));
        if (RANGE[0]..=RANGE[1]).contains(&pixels) {
            return Ok(Self(pixels));
        }
        Err(format!("a picture is {} to {} pixels wide: {text} is {pixels}", RANGE[0], RANGE[1]))
    }
}

/// The picture `svg` of `size` pixels in that `width`, with all that is in it.
pub(super) fn printed(svg: String, size: (u32, u32), width: Option<Width>) -> String {
    let Some(width) = width else { return svg };
    let attributes = |(wide, tall): (u32, u32)| format!(" width=\"{wide}\" height=\"{tall}\" ");
    let printed = (width.pixels(), width.printed(size.1));
    svg.replacen(&attributes(size), &attributes(printed), 1)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn widths_are_of_screens_and_of_papers() {
        let pixels = |text: &str| text.parse::<Width>().map(Width::pixels);
        assert_eq!(pixels("800px"), Ok(800));
        assert_eq!(pixels("84mm"), Ok(317));
        assert_eq!(pixels("1col"), pixels("84mm"));
        assert_eq!(pixels("2col"), pixels("178 mm"));
        for text in ["", "84", "84cm", "-3mm", "nanpx", "10px", "99999px"] {
            assert!(pixels(text).is_err(), "{text}");
        }
    }

    #[test]
    fn text_in_a_column_of_a_paper_is_smaller_and_can_be_read() {
        let column: Width = "1col".parse().unwrap();
        assert_eq!((column.room(), column.printed(412)), (412, 317));
        // Seven points and a half.
        assert!((column.font() * 72.0 / 96.0 - 7.5).abs() < 1e-9);
        let screen: Width = "1200px".parse().unwrap();
        assert_eq!((screen.room(), screen.printed(300)), (1200, 300));
        for room in [300, 624, 625, 700, 904, 905, 2_000] {
            assert!(Width(Width::least(room)).room() >= room, "{room}");
        }
    }
}
