//! The tables as pictures.

use super::Reproduced;
use crate::error::Error;

/// The picture of a table, if it is one that makes a picture.
pub(super) fn of(_: &Reproduced) -> Result<Option<String>, Error> {
    Ok(None)
}
