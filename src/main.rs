//! The command line.

#[allow(dead_code)] // Until a command draws.
mod draw;

fn main() {}
