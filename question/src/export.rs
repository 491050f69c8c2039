//! The question of an export, besides its scenario.

use std::path::Path;

use crate::values::words::words;

words! {
    /// The form in which a schedule is exported.
    derive(Default), pub enum Form {
        /// The order of passes, one line per stage
        Text = "text", default;
        /// The order as CSV for torch.distributed.pipelining, one row per rank
        TorchCsv = "torch-csv";
        /// The order as a table of nodes for Primus, JSON with a list for each rank
        Primus = "primus";
        /// The simulated timeline as trace events for Perfetto or chrome://tracing
        Chrome = "chrome";
    }
}

impl Form {
    /// The form of an order in a file called `path`, by how it ends: `.csv` for torch, `.json` for Primus, else text.
    #[must_use]
    pub fn of_order_in(path: &Path) -> Self {
        match path.extension().and_then(|end| end.to_str()) {
            Some("csv") => Self::TorchCsv,
            Some("json") => Self::Primus,
            _ => Self::Text,
        }
    }
}
