//! The faults of a trace, as values that name rows, steps, ranks and passes.

use std::fmt;

use pipeline::Fault;
use thiserror::Error;

use crate::form::Form;
use crate::nsys_fault::NsysFault;
use crate::operation::{MAX_OPERATIONS, OpType};

pub use crate::not_inferred::NotInferred;

/// Where in a file.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum Place {
    /// A row of a table, from 0.
    Row(usize),
    /// An element of `traceEvents`, from 0.
    Event(usize),
    /// A line of a file, from 1.
    Line(usize),
    /// A span of a file, from 0.
    Span(usize),
    /// The resource of a span.
    Resource,
    /// An element of the `nodes` of an execution trace, from 0.
    Node(usize),
    /// The fields besides `traceEvents`.
    Head,
}

impl fmt::Display for Place {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Row(row) => write!(f, "row {row}"),
            Self::Event(event) => write!(f, "event {event}"),
            Self::Line(line) => write!(f, "line {line}"),
            Self::Span(span) => write!(f, "span {span}"),
            Self::Resource => f.write_str("the resource of its spans"),
            Self::Node(node) => write!(f, "node {node}"),
            Self::Head => f.write_str("next to its events"),
        }
    }
}

/// A fault of a trace.
#[derive(Debug, Error)]
pub enum TraceError {
    /// Neither Parquet nor JSON.
    #[error(
        "it is not a trace: neither a Parquet file nor trace events in JSON (traceEvents), nor spans of OpenTelemetry \
         (resourceSpans) or lines of Nsight Systems (NvtxEvent); `debubble replay --help` says what is read"
    )]
    NotATrace,
    /// A Parquet file, given to a build that reads none.
    #[error("it is a Parquet file, and this build of debubble has no Parquet")]
    NoParquet,
    /// A Parquet file that the library refuses.
    #[cfg(feature = "parquet")]
    #[error("it cannot be read as Parquet: {0}")]
    Parquet(#[from] parquet::errors::ParquetError),
    /// A Parquet file that makes the library panic, with the message of the panic.
    #[error("it is a damaged Parquet file: {0}")]
    Damaged(String),
    /// A Parquet file that promises more rows than its bytes can say.
    #[error("it is not a trace: {bytes} bytes that say they are {rows} rows")]
    Implausible {
        /// Number of rows that it promises.
        rows: usize,
        /// How long it is.
        bytes: u64,
    },
    /// Too little memory for its rows.
    #[error("there is no memory for its {rows} rows")]
    NoMemory {
        /// How many it has.
        rows: usize,
    },
    /// A Parquet file with fewer values than it promises.
    #[error("column {column} holds {found} values, but the file should have {rows} rows")]
    CutOff {
        column: &'static str,
        /// Values it has.
        found: usize,
        /// Rows promised.
        rows: usize,
    },
    /// JSON that is none, or no trace events.
    #[error("it cannot be read as trace events: {0}")]
    Json(#[from] serde_json::Error),
    /// A line of a file of lines that cannot be read.
    #[error("line {line}: {why}: cut the file at whole lines")]
    Line {
        /// From 1.
        line: usize,
        why: String,
    },
    /// A report of Nsight Systems that is not read.
    #[error(transparent)]
    Nsys(#[from] NsysFault),
    /// Spans of OpenTelemetry that are not the steps of a pipeline.
    #[error(transparent)]
    Spans(#[from] crate::spans::SpanFault),
    /// More operations than are taken.
    #[error("it has {rows} operations: {}", limit(*.most))]
    TooMany {
        /// How many it has.
        rows: i64,
        /// How many are taken: [`MAX_OPERATIONS`], or fewer where memory is short.
        most: usize,
    },
    /// Columns that are needed and not there.
    #[error("it has no column {}; its columns are {}", missing.join(", "), found.join(", "))]
    MissingColumns {
        /// The columns that are missing.
        missing: Vec<&'static str>,
        /// The columns that are there.
        found: Vec<String>,
    },
    /// A column that a question names, and that is not there.
    #[error("it has no column {column}; its columns are {}", found.join(", "))]
    NoColumn {
        column: String,
        /// The columns that are there.
        found: Vec<String>,
    },
    /// A column that a question names, and that holds no whole numbers.
    #[error("column {column} holds {found}, not whole numbers")]
    NoNumbers {
        column: String,
        /// The type that it holds.
        found: String,
    },
    /// A file of more rows than are taken.
    #[error("it has {rows} rows: at most {most}")]
    TooManyRows {
        /// Number of rows that it promises.
        rows: i64,
        /// The most there may be.
        most: usize,
    },
    /// A column with another kind of values.
    #[error("column {column} holds {found}, not {wanted}")]
    ColumnType {
        /// Its name.
        column: &'static str,
        /// The type that it holds.
        found: String,
        /// The type that it should hold.
        wanted: &'static str,
    },
    /// Nothing where a value should be.
    #[error("{place} has no {column}")]
    Absent {
        /// Where.
        place: Place,
        /// The column that is absent.
        column: &'static str,
    },
    /// A value that makes no sense.
    #[error("{place}: {column} is {value}, which is {why}")]
    Value {
        /// Where.
        place: Place,
        /// Which.
        column: &'static str,
        value: String,
        /// The reason why it is wrong.
        why: &'static str,
    },
    /// An unknown operation.
    #[error("{place}: unknown operation `{name}`; known are {}", OpType::names())]
    UnknownOpType {
        /// Where.
        place: Place,
        name: String,
    },
    /// A pass that begins while another of its kind is under way on its rank.
    #[error(
        "{place}: a {name} begins on pid {pid}, where the one that begins at {first} has no end: \
         cut the trace at whole iterations"
    )]
    BegunTwice {
        /// Where the second begins.
        place: Place,
        /// The name of the pass.
        name: &'static str,
        /// Its rank.
        pid: u16,
        /// Where the first begins.
        first: Place,
    },
    /// The end of a pass that has not begun.
    #[error(
        "{place}: a {name} ends on pid {pid} that has not begun: cut the trace at whole iterations"
    )]
    NeverBegun {
        /// Where it ends.
        place: Place,
        /// The name of the pass.
        name: &'static str,
        /// Its rank.
        pid: u16,
    },
    /// A pass that ends before it begins.
    #[error("{place}: time goes backwards: a {name} ends on pid {pid} before it begins at {begun}")]
    EndsFirst {
        /// Where it ends.
        place: Place,
        /// The name of the pass.
        name: &'static str,
        /// Its rank.
        pid: u16,
        /// Where it begins.
        begun: Place,
    },
    /// Files of one run in several forms.
    #[error("it is {found}, but the file before it is {first}: replay them apart")]
    Mixed {
        /// The form of this file.
        found: Form,
        first: Form,
    },
    /// Two files of the same rank.
    #[error("two of the files are of rank {rank}: give one file for each rank, all of one run")]
    RankTwice { rank: u32 },
    /// Stages without a file.
    #[error(
        "{given} of the {world} ranks of the run are there; give the files of all in one go: there \
         is none of rank {}{}",
        list(missing), if missing.len() + *given < *world as usize { " and others" } else { "" }
    )]
    RanksMissing {
        /// The first ranks that are missing.
        missing: Vec<u32>,
        /// Their number.
        given: usize,
        /// Number of ranks that the run has.
        world: u32,
    },
    /// A trace of `torch.profiler` in which no pass of a pipeline is named, or can be inferred.
    #[error(
        "it is a trace of torch.profiler that names no passes, and they cannot be inferred: {0}; name them \
         with torch.profiler.record_function(\"PP:<chunk>F<microbatch>\") and so on, or record the run \
         with debubble.torch"
    )]
    Unnamed(NotInferred),
    /// An execution trace of PyTorch.
    #[error(
        "it is an execution trace of PyTorch (Chakra) that has no times of named passes: give the traces \
         of torch.profiler of the same run (export_chrome_trace)"
    )]
    Execution,
    /// A database.
    #[error(
        "it is an SQLite database, as nsys exports them: export the report as lines of JSON, with \
         `nsys export --type jsonlines REPORT.nsys-rep`"
    )]
    Database,
    /// A compressed file that cannot be decompressed.
    #[error("it cannot be decompressed: {0}; compress the trace again, or give it as it was")]
    Gzip(String),
    /// A compressed file that is too large.
    #[error(
        "its {packed} bytes are more than {most} bytes when they are decompressed, which is more than any \
         trace has, or more than the memory that is free here holds: record fewer steps"
    )]
    Unpacked {
        /// Its bytes.
        packed: u64,
        /// The most bytes that are read.
        most: u64,
    },
    /// No operation at all.
    #[error(
        "it has no operations of a pipeline{}: a trace event needs args.kind and args.microbatch, \
         or a name such as F0.3",
        others(*.skipped)
    )]
    Nothing {
        /// Events that are none.
        skipped: usize,
    },
    /// A step in which a data-parallel rank did nothing.
    #[error("step {step} has no operations of dp rank {dp_rank}, which other steps have")]
    MissingRank { step: u64, dp_rank: u32 },
    /// Passes that are not a schedule: one missing, doubled, on a wrong stage, or in a circle.
    #[error("step {step}, dp rank {dp_rank}: {}{fault}", order(fault))]
    Schedule {
        step: u64,
        /// The pipeline.
        dp_rank: u32,
        fault: Fault,
    },
    /// Two passes at the same time on one rank.
    #[error(
        "step {step}, dp rank {dp_rank}, stage {stage}: time goes backwards: {second} starts \
         before {first} is over"
    )]
    Overlap {
        step: u64,
        /// The pipeline.
        dp_rank: u32,
        stage: u16,
        /// The pass that started first.
        first: String,
        /// The other.
        second: String,
    },
    /// A pass that was over before what it needs had begun.
    #[error(
        "step {step}, dp rank {dp_rank}: time goes backwards: {user} is over before {maker}, \
         which it needs, starts"
    )]
    Backwards {
        step: u64,
        /// The pipeline.
        dp_rank: u32,
        /// The pass that needs.
        user: String,
        /// The pass that makes.
        maker: String,
    },
    /// One side of a transfer without the other.
    #[error(
        "step {step}, dp rank {dp_rank}, stage {stage}: number {number} of its {optype} (from 0) \
         has no other side; a trace without any sends and receives would do"
    )]
    Unmatched {
        step: u64,
        /// The pipeline.
        dp_rank: u32,
        stage: u16,
        /// The side there is.
        optype: &'static str,
        /// How many such operations the rank did before it in the step.
        number: u32,
    },
    /// More operations at once on one rank than any run does.
    #[error("step {step}, dp rank {dp_rank}, stage {stage}: more than {limit} operations at once")]
    Crowd {
        step: u64,
        /// The pipeline.
        dp_rank: u32,
        stage: u16,
        limit: usize,
    },
    /// Operations that wait for each other.
    #[error(
        "step {step}, dp rank {dp_rank}, stage {stage}: {operation} would wait for ever, if ranks \
         did everything in the order of the trace"
    )]
    Deadlock {
        step: u64,
        /// The pipeline.
        dp_rank: u32,
        stage: u16,
        /// An operation that cannot start.
        operation: String,
    },
}

impl TraceError {
    /// The error of an object of `content` that begins at byte `begin`, by its line in the file.
    pub(crate) fn of_line(content: &[u8], begin: usize, error: &serde_json::Error) -> Self {
        let before = content[..begin].iter().filter(|byte| **byte == b'\n').count();
        let text = error.to_string();
        let why = text.split(" at line ").next().unwrap_or_default().to_owned();
        Self::Line { line: before + error.line().max(1), why }
    }
}

/// The meaning of a deadlock for the times of a trace: passes that ran cannot have waited for each other.
fn order(fault: &Fault) -> &'static str {
    match fault {
        Fault::Deadlock(_) => "time goes backwards: in the order of their start times, ",
        _ => "",
    }
}

fn limit(most: usize) -> String {
    match most {
        MAX_OPERATIONS.. => format!("at most {MAX_OPERATIONS}"),
        _ => format!("the memory that is free here is enough for {most}; replay fewer steps"),
    }
}

fn list(ranks: &[u32]) -> String {
    ranks.iter().map(u32::to_string).collect::<Vec<_>>().join(", ")
}

fn others(skipped: usize) -> String {
    match skipped {
        0 => String::new(),
        n => format!(" ({n} events are something else)"),
    }
}
