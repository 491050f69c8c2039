//! How far predicted memory may be off: the largest error on published peaks.

use std::path::Path;
use std::sync::OnceLock;

use super::{rows, sets};
use question::plan::machines;
use question::Diagnostic;

/// The largest error of the memory formula on the published peaks that are built in, in either
/// direction, as a share.
///
/// # Errors
/// If a row cannot be predicted.
pub fn largest() -> Result<f64, Diagnostic> {
    // No question changes it: a process predicts the rows once.
    static LARGEST: OnceLock<f64> = OnceLock::new();
    if let Some(&known) = LARGEST.get() {
        return Ok(known);
    }
    let largest = predicted()?;
    Ok(*LARGEST.get_or_init(|| largest))
}

fn predicted() -> Result<f64, Diagnostic> {
    let mut largest: f64 = 0.0;
    for (path, text) in sets::BUILT_IN.iter().filter(|(_, text)| text.contains(",memory_gb")) {
        let machine = machines::of_device(rows::device(text))?;
        let (_, rows) = rows::read(Path::new(path), text, &machine)?;
        let own = rows.iter().filter(|row| row.quantity == sets::MEMORY);
        largest = own.map(|row| row.error.abs()).fold(largest, f64::max);
    }
    Ok(largest)
}
