//! Names from an untrusted file, as messages have them.

use question::quote;

/// A name from an untrusted file, clipped for a message with many names.
pub(super) fn shown(name: &str) -> String {
    quote::clip(&name.chars().take(40).collect::<String>())
}
