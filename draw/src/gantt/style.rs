//! Caption and width of a picture of timelines.

use std::str::FromStr;

use pipeline::Nanos;

use crate::canvas::{extent, pixel};

/// The look of a picture of timelines.
#[derive(Clone, Copy, Default)]
pub struct Style<'a> {
    /// The title above all charts.
    pub title: Option<&'a str>,
    /// The figures behind the title of each chart, such as its bubble rate.
    pub figures: &'a [String],
    /// For each chart, the time before which no order can end, where one is proved.
    pub bounds: &'a [Option<Nanos>],
    /// The width of the picture; without one, as wide as its passes need.
    pub width: Option<Width>,
}

/// The width of a picture in pixels, 96 to the inch.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct Width(u32);

/// Pixels of a millimetre.
const MILLIMETRE: f64 = 96.0 / 25.4;
/// The narrowest and the widest picture, in pixels.
const RANGE: [u32; 2] = [240, 10_000];
/// A column of a paper of two columns, and both, in millimetres.
const COLUMNS: [(&str, f64); 2] = [("1col", 84.0), ("2col", 178.0)];

impl Width {
    /// In pixels.
    #[must_use]
    pub const fn pixels(self) -> u32 {
        self.0
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
                "`{text}` is no width: 84mm, 1200px, 1col or 2col (one or two columns of a paper)"
            )
        })?;
        let pixels = extent(pixel(pixels));
        if (RANGE[0]..=RANGE[1]).contains(&pixels) {
            return Ok(Self(pixels));
        }
        Err(format!("a picture is {} to {} pixels wide: {text} is {pixels}", RANGE[0], RANGE[1]))
    }
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
}
