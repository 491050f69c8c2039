//! Caption and width of a picture of timelines.

use pipeline::Nanos;

use crate::Width;

/// A lower bound, drawn over the time that it is about.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct Bound {
    /// The stage whose span it is about; none where it is about the end of all.
    pub stage: Option<usize>,
    /// The begin of that time.
    pub start: Nanos,
    /// The end that no order can have before.
    pub end: Nanos,
}

/// The look of a picture of timelines.
#[derive(Clone, Copy, Default)]
pub struct Style<'a> {
    /// The title above all charts.
    pub title: Option<&'a str>,
    /// The figures behind the title of each chart, such as its bubble rate.
    pub figures: &'a [String],
    /// For each chart, the lower bound that is proved, if one is.
    pub bounds: &'a [Option<Bound>],
    /// The width of the picture; without one, as wide as its passes need.
    pub width: Option<Width>,
    /// The meaning of S and T, if they are not passes of the vocabulary.
    pub other_passes: Option<[&'a str; 2]>,
}
