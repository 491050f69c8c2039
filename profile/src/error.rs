//! Faults of the file of a profile.

use std::ops::Range;

use thiserror::Error;
use toml::Spanned;

/// A fault of a profile's file, with its place and a remedy.
#[derive(Clone, PartialEq, Eq, Debug, Error)]
#[error("{message}")]
pub struct ProfileError {
    /// The fault.
    pub message: String,
    /// The bytes of the text it is about.
    pub place: Option<Range<usize>>,
    /// The remedy.
    pub cure: &'static str,
}

pub(crate) const WRITTEN_BY: &str =
    "profiles are written by `debubble calibrate`: mend the line, or run it again";

pub(crate) fn fail<T>(place: Range<usize>, message: String) -> Result<T, ProfileError> {
    Err(ProfileError { message, place: Some(place), cure: WRITTEN_BY })
}

/// A value of a file to be written, where places mean nothing.
pub(crate) fn unplaced<T>(value: T) -> Spanned<T> {
    Spanned::new(0..0, value)
}
