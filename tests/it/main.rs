//! One binary for all tests of the whole: one file per promise.

#![allow(clippy::unwrap_used)] // A test may.

mod cli;
mod closed_forms;
mod draw;
mod engine;
mod explain;
mod faults;
mod fsdp;
mod golden;
mod hardware;
mod law;
mod machine;
mod paper;
mod sweep;
mod sweep_files;
mod sweep_rows;
mod traces;
mod weather;
