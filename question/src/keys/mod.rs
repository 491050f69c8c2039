//! The keys of questions: one table for each set of them.
//!
//! A row of a table names a key, its type and its meaning. Flags, files, JSON and schemas are loops over the
//! rows. The effect of a key is defined elsewhere.

pub mod field;
pub mod file;
#[cfg(feature = "clap")]
pub mod flags;
#[cfg(feature = "schema")]
pub mod form;
mod hardware;
mod question;
pub mod read;
mod row;
pub mod table;

pub use field::{Kind, Word};
pub use hardware::HardwareKeys;
pub use question::Keys;
pub use table::{Lists, Row};
