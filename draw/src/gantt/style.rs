//! Caption and width of a picture of timelines.

use pipeline::Nanos;

use crate::Width;

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
    /// The meaning of the darker shade, if it is not a later chunk of the stage.
    pub darker: Option<&'a str>,
}
