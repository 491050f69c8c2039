//! The promises of the model that stages train, one file for each.
#![allow(clippy::unwrap_used, clippy::cast_possible_truncation)]
#![allow(clippy::disallowed_methods)] // Runs are timed and watched.

mod copies;
mod model;
mod shards;
mod stops;
#[path = "../../../runtime/tests/it/support.rs"]
mod support;
