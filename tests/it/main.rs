//! One binary for all tests of the whole: one file per promise.

#![allow(clippy::unwrap_used)] // A test may.

mod cli;
mod closed_forms;
mod controllable;
mod draw;
mod engine;
mod explain;
mod faults;
mod golden;
mod hardware;
mod law;
mod machine;
mod paper;
mod sweep;
mod traces;
mod weather;
