//! Reads the operations of a real training run and predicts its steps from their durations.
//!
//! A trace, [`read`] from Parquet, from trace events (Chrome, Perfetto, Megatron, `torch.profiler`), from spans of
//! OpenTelemetry or from lines of Nsight Systems, is a list of [`Operation`]s; [`Reader`] takes the files of several ranks. [`Run::new`] finds out
//! which operation waited for which, and keeps only that and how long each took by itself; from these
//! [`Run::predict`] times the steps again, with the measured durations or with other [`Times`]. No
//! file is opened in here.
//!
//! The model: a rank runs its operations one after the other, and an operation that several ranks
//! take part in takes its own time from the moment the last of them has begun it. The measured starts
//! serve to find the order, the own times and, for links whose transfers are not in the trace, to
//! estimate the hops ([`Run::links`]); afterwards they are dropped.
//!
//! ```
//! use pipeline::Nanos;
//! use traces::{Run, Times, read};
//!
//! // One stage: a forward of 10 us and a backward of 20 us.
//! let events = br#"[
//!     {"ph": "X", "name": "F0.0", "tid": 0, "ts": 0, "dur": 10},
//!     {"ph": "X", "name": "BW0.0", "tid": 0, "ts": 10, "dur": 20}
//! ]"#;
//! let run = Run::new(read(events.to_vec())?)?;
//! assert_eq!(run.steps()[0].measured(), Nanos(30_000));
//! assert_eq!(run.predict(&Times::measured(&run)), [Nanos(30_000)]);
//! # Ok::<(), traces::TraceError>(())
//! ```

mod chrome;
mod dependency;
mod error;
mod events;
mod form;
mod graph;
#[cfg(feature = "parquet")]
mod guard;
mod gzip;
mod hops;
mod lack;
mod megatron;
mod not_inferred;
mod nsys;
mod nsys_fault;
mod numbers;
mod operation;
#[cfg_attr(not(feature = "parquet"), path = "no_parquet.rs")]
mod parquet;
mod reader;
mod run;
mod spans;
mod times;
mod torch;
mod torch_ranks;
mod unnamed;
mod values;
mod waits;

pub use error::{NotInferred, Place, TraceError};
pub use form::Form;
pub use gzip::unpacked;
pub use hops::LinkHops;
pub use lack::Lack;
pub use nsys_fault::NsysFault;
pub use operation::{BYTES_PER_OPERATION, Direction, MAX_OPERATIONS, OpType, Operation, Side};
pub use parquet::whole_numbers;
pub use reader::{Reader, Sends, Trace};
pub use run::{Run, Step};
pub use spans::SpanFault;
pub use times::{Medians, Times};

/// Reads a trace of one file: Parquet if it begins like a Parquet file, trace events if it begins like JSON.
///
/// Parquet, which needs the feature `parquet`, has the columns of the StragglerAnalysis data set, one
/// row per operation: `dp_rank`, `stage`, `step`, `optype`, `start_ts` and `duration` in seconds, `mc`
/// (chunk of the stage) and `mb_id`, the last two -1 where an operation has none; other columns are
/// ignored. Chunk `mc` of stage `s` of `p` is chunk `mc * p + s` of the model.
///
/// Of trace events with `"ph": "X"`, `ts` and `dur` are in microseconds. `args` says `kind` or `optype` (F, B, W, BW,
/// or an `optype` as in Parquet), `stage`, `step`, `dp_rank`, `chunk` (in model order over the whole model) and
/// `microbatch`. Without `kind` the event's name is read as a pass, as in `F0.3`; without `stage` the thread is the
/// stage; `step`, `dp_rank` and `chunk` are 0 where they are not said.
///
/// Where there are none of these, events with `"ph": "B"` and `"E"` called `forward` and `backward` are read as
/// Megatron-style tracers write them: the end says `microbatch`, `model_chunk` (of the rank), `pp_rank` (or it is the
/// `pid`), `iteration` and `dp_rank`. And where annotations name the actions of `torch.distributed.pipelining`, as in
/// `PP:3F12`, it is what `torch.profiler` saw of one rank. Where none names them, the passes of 1F1B and interleaved
/// 1F1B are inferred from autograd and the sends between ranks.
///
/// Spans of OpenTelemetry that Megatron-LM exports and lines that Nsight Systems exports are known by their first object.
///
/// Each may be compressed with gzip.
pub fn read(content: Vec<u8>) -> Result<Trace, TraceError> {
    read_within(content, u64::MAX)
}

/// Reads a trace as [`read`] does, taking no more than `memory` bytes for the operations, of which
/// each takes [`BYTES_PER_OPERATION`] in the end.
pub fn read_within(content: Vec<u8>, memory: u64) -> Result<Trace, TraceError> {
    let mut reader = Reader::within(memory);
    reader.add(content)?;
    reader.finish()
}
