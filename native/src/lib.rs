//! The host of a program on an operating system: files of the disk, never read without a limit, and the
//! amount of free memory.
//!
//! The command line and the Python package are such programs; each adds its own view of progress and
//! its own way to stop.

// This crate reads files of the disk and of /proc.
#![allow(clippy::disallowed_methods)]

mod files;
pub mod memory;
pub mod threads;

pub use files::read;
