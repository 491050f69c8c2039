//! Questions: the keys that a user may give, the files that they name, and the faults that they may
//! have.
//!
//! A door reads its user's words into a [`scenario::Scenario`] of settings with [`keys::Keys`], a
//! [`plan::Question`] or [`fsdp::Keys`], and lends a [`host::Host`]. From there on everything is typed:
//! [`case::case`] makes one schedule of one setting whole and checked, a [`diagnostic::Diagnostic`] says
//! what is wrong with it.

pub mod built_in;
pub mod case;
pub mod diagnostic;
pub mod echo;
pub mod excerpt;
pub mod format;
pub mod fsdp;
pub mod hardware;
pub mod host;
mod key_set;
pub mod keys;
pub mod kinds;
pub mod memory;
pub mod nearest;
pub mod noise;
mod one_or_many;
pub mod places;
pub mod plan;
pub mod profiles;
pub mod replay;
#[cfg(test)]
mod round_trips;
pub mod scenario;
#[cfg(feature = "schema")]
pub mod schema;
pub mod search;
pub mod sheet;
pub mod simulate;
pub mod sweep;
mod text_form;
pub mod warnings;

pub use diagnostic::Diagnostic;
pub use host::{Context, Host, ReadError, Work};
pub use warnings::Warnings;
