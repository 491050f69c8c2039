//! The promises of a run, one file for each.
#![allow(clippy::unwrap_used, clippy::cast_possible_truncation)]
#![allow(clippy::disallowed_methods, clippy::print_stdout)] // Runs are timed and watched, in processes that speak.

mod ahead;
mod direct;
mod faults;
mod hashed;
mod stops;
mod support;
mod tcp;
mod threads;
mod timed;
mod transfers;
