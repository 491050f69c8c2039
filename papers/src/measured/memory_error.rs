//! The error of predicted memory: the largest on published peaks.

use std::path::Path;
use std::sync::OnceLock;

use question::Diagnostic;
use question::plan::machines;

use super::{rows, sets};

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
    for (path, text) in sets::BUILT_IN {
        if !text.contains(",memory_gb") {
            continue;
        }
        let machine = machines::of_device(rows::device(text))?;
        let (_, rows) = rows::read(Path::new(path), text, &machine)?;
        let own = rows.iter().filter(|row| row.quantity == sets::MEMORY);
        largest = own.map(|row| row.error.abs()).fold(largest, f64::max);
    }
    Ok(largest)
}
