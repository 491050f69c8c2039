//! Questions: the keys that a user may give, the files that they name, and the faults that they may
//! have.
//!
//! A door reads its user's words into a [`scenario::Scenario`] of settings with [`keys::Keys`] or into
//! [`fsdp::FsdpKeys`], and lends a [`host::Host`]. From there on everything is typed:
//! [`resolve::Resolved`] has the costs, footprints and limits of one setting, a [`diagnostic::Diagnostic`] says what is
//! wrong with it.
//!
//! ```
//! use std::collections::BTreeMap;
//! use std::path::PathBuf;
//!
//! use question::{Context, keys::Keys, resolve::Resolved, scenario::Scenario, source::ScheduleSource};
//!
//! // The same words as in a scenario file, here as JSON.
//! let keys: Keys = serde_json::from_str(
//!     r#"{"stages": 4, "microbatches": 8, "forward": "1ms", "backward-input": "1ms",
//!         "backward-weight": "1ms", "memory-limit": "1.5p"}"#,
//! )?;
//! let scenario = Scenario::from(keys);
//!
//! // A host that lends no files: nothing is named that would need one.
//! let host: BTreeMap<PathBuf, Vec<u8>> = BTreeMap::new();
//! let context = Context::new(&host);
//! let source = ScheduleSource::named(&context, "zb-heuristic")?;
//! let resolved = Resolved::of(&context, &scenario, &scenario.settings[0], &source)?;
//! assert_eq!(resolved.shape.stages(), 4);
//!
//! // Errors are values, with a cure.
//! let Err(error) = ScheduleSource::named(&context, "zb-h9") else { unreachable!() };
//! assert!(error.message.contains("zb-h9") && error.help.is_some());
//! # Ok::<(), Box<dyn std::error::Error>>(())
//! ```

pub mod built_in;
pub mod cell;
pub mod chain;
pub mod diagnostic;
pub mod encoder;
pub mod excerpt;
pub mod export;
pub mod failures;
pub mod files;
pub mod format;
pub mod fsdp;
pub mod gone;
pub mod hardware;
pub mod host;
pub mod keys;
pub mod keywords;
pub mod kinds;
pub mod memory;
pub mod nearest;
pub mod noise;
pub mod notes;
pub mod object;
pub mod python_json;
pub mod questions;
pub mod quote;
mod read;
pub mod replay;
pub mod resolve;
pub mod rl;
pub mod scenario;
#[cfg(feature = "schema")]
pub mod schema;
pub mod search;
pub mod sheet;
pub mod simulate;
pub mod source;
pub mod spelling;
pub mod sweep;
pub mod values;
pub mod warnings;

pub use diagnostic::Diagnostic;
pub use host::{Context, Host, Improvement, ReadError, Work};
pub use read::KeySpans;
pub use resolve::profiles;
pub use warnings::Warnings;
