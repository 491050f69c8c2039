//! The versions and the length of a text that is read.

/// The version of the form that is written. Version 1 is read, too: it says nothing of whole backwards.
pub const VERSION: u32 = 2;

/// A longer text is refused unread.
pub const MAX_BYTES: usize = 64 << 20;
