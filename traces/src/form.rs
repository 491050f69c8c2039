//! The form of a trace.

use std::fmt;

/// The form of a trace.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum Form {
    /// A table in the form of the StragglerAnalysis data set.
    Parquet,
    /// Complete trace events, as debubble writes them.
    Events,
    /// Events that begin and end, as Megatron-style tracers write them.
    Megatron,
    /// A trace of `torch.profiler`, one file for each rank.
    Torch,
    /// A report of Nsight Systems, as lines of JSON.
    Nsys,
    /// Spans of OpenTelemetry that Megatron-LM exports.
    Spans,
    /// A timeline that debubble recorded or simulated.
    Timeline,
}

impl fmt::Display for Form {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(match self {
            Self::Parquet => "a table of operations (Parquet)",
            Self::Events => "a trace of complete events",
            Self::Megatron => "a Megatron-style trace of events that begin and end",
            Self::Torch => "a trace of torch.profiler",
            Self::Nsys => "a report of Nsight Systems",
            Self::Spans => "spans of OpenTelemetry",
            Self::Timeline => "a timeline of debubble",
        })
    }
}
