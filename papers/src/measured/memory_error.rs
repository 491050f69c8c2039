//! The error of predicted memory: the largest on published peaks.

use std::sync::OnceLock;

use question::Diagnostic;
use question::plan::machines;

use super::quantities::MEMORY;
use super::rows;
use super::sets::{self, SETS, Set};

/// The largest relative error of the memory formula on the published peaks that are built in, in either
/// direction. It is computed once in a process, for no question changes it.
///
/// # Errors
/// If a row cannot be predicted.
pub fn memory_error() -> Result<f64, Diagnostic> {
    static LARGEST: OnceLock<f64> = OnceLock::new();
    if let Some(&known) = LARGEST.get() {
        return Ok(known);
    }
    let largest = predicted()?;
    Ok(*LARGEST.get_or_init(|| largest))
}

fn predicted() -> Result<f64, Diagnostic> {
    let mut largest: f64 = 0.0;
    let has_memory = |set: &&Set| set.quantities.iter().any(|one| one.quantity == MEMORY);
    for (path, text) in SETS.iter().filter(has_memory).filter_map(Set::source) {
        let machine = machines::of_device(rows::device(text))?;
        let (_, rows) = sets::read(&path, text, &machine)?;
        let own = rows.iter().filter(|row| row.quantity == MEMORY);
        largest = own.map(|row| row.error.abs()).fold(largest, f64::max);
    }
    Ok(largest)
}
