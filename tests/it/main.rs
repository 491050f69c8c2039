//! One file per promise.

mod cli;
mod paper;
mod traces;
