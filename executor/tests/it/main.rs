//! The promises of the executor, one file for each.
#![allow(clippy::unwrap_used, clippy::cast_possible_truncation)]
#![allow(clippy::disallowed_methods)] // Runs are timed and watched.

mod ahead;
mod copies;
mod direct;
mod faults;
mod hashed;
mod model;
mod shards;
mod stops;
mod tcp;
mod threads;
mod timed;
mod transfers;
