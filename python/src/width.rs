//! The width of a picture, as Python gives it.

use draw::Width;
use question::Diagnostic;

/// The width that a keyword names, if it does.
#[allow(clippy::needless_pass_by_value)] // It comes into another thread.
pub(crate) fn wide(width: Option<String>) -> Result<Option<Width>, Diagnostic> {
    let parsed = width.as_deref().map(str::parse).transpose();
    parsed.map_err(|wrong: String| Diagnostic::new(format!("width: {wrong}")))
}
