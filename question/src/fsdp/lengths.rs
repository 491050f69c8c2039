//! Lengths of samples from files.

use std::path::Path;

use fsdp::Lengths;

use crate::diagnostic::Diagnostic;
use crate::host::Context;
use crate::values::packing::{LengthsKey, tokens};

/// The largest file of lengths.
const MAX_FILE: u64 = 64 << 20;

impl LengthsKey {
    /// The lengths; reads their file.
    pub fn read(&self, context: &Context<'_>) -> Result<Lengths, Diagnostic> {
        let made = match self {
            Self::Known(lengths, _) => return Ok(lengths.clone()),
            Self::File(path) => Lengths::drawn_from(read(context, path)?),
            Self::InOrder(path) => Lengths::in_order(read(context, path)?),
        };
        made.map_err(|fault| Diagnostic::new(fault.to_string()))
    }
}

/// Lengths from a file, one to a line or with blanks or commas between; `#` begins a comment.
fn read(context: &Context<'_>, path: &Path) -> Result<Vec<u32>, Diagnostic> {
    let text = context.read_text(path, MAX_FILE)?;
    let mut lengths = Vec::new();
    for (number, line) in text.lines().enumerate() {
        let content = line.split('#').next().unwrap_or("");
        let words = content.split([',', ' ', '\t', '\r']).filter(|word| !word.is_empty());
        for word in words {
            let length = tokens(word).map_err(|error| {
                let cause = format!("line {}: {error}", number + 1);
                Diagnostic::unreadable(path, &cause)
            })?;
            lengths.push(length);
        }
    }
    Ok(lengths)
}
