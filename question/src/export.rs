//! The question of an export, besides its scenario.

use crate::values::words::words;

words! {
    /// The form in which a schedule is exported.
    derive(Default), pub enum Form {
        /// The order of passes, one line per stage
        Text = "text", default;
        /// The order as CSV for torch.distributed.pipelining, one row per rank
        TorchCsv = "torch-csv";
        /// The simulated timeline as trace events for Perfetto or chrome://tracing
        Chrome = "chrome";
    }
}
