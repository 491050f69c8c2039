//! The error of predicted memory: the largest on published peaks.

use question::Diagnostic;

use super::quantities::MEMORY;
use super::records;

/// The largest relative error of the memory formula on the published peaks that are built in, in either
/// direction. No question changes it.
///
/// # Errors
/// If the record cannot be read.
pub fn memory_error() -> Result<f64, Diagnostic> {
    let own = records::of_sets()?;
    Ok(own.iter().filter(|one| one.kind == MEMORY).map(|one| one.max).fold(0.0, f64::max))
}
