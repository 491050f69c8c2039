//! `debubble replay`: a real run's durations in, predicted against measured steps out, and what
//! the steps would have been.

mod what_if;

use std::io::Write;
use std::path::PathBuf;

use clap::Args;
use pipeline::{Limit, Nanos};
use serde::Serialize;
use traces::{Run, Times, TraceError};

use self::what_if::{Answer, Asked, Straggler, WhatIf};
use super::{OUTPUT, note, print_json};
use papers::accuracy;
use crate::error::Error;
use crate::files;
use crate::format;
use crate::help;
use crate::interrupt;
use question::kinds;
use question::kinds::Kind;
use crate::memory;

const EXAMPLES: &str = "\
Examples:
  debubble replay trace.parquet
  debubble replay trace.parquet --what-if no-stragglers,free-links --json
  debubble replay trace.parquet --schedule zb-h1,zb-2p --backward-split 0.6
  debubble export --format chrome --schedule 1f1b --stages 4 --microbatches 8 \\
    --forward 1ms --backward-input 1ms --backward-weight 1ms > run.json; debubble replay run.json

A trace is Parquet in the form of the StragglerAnalysis data set (columns dp_rank, stage, step,
optype, start_ts and duration in seconds, mc, mb_id), or trace events in JSON: events with ph = X
whose args say kind (F, B, W, BW) or optype, stage, step, dp_rank, chunk and microbatch; without
kind the name is read, as in F0.3, and without stage the thread.

A step lasts from the start of the first operation of any rank to the end of the last of any. The
prediction lets all ranks begin at once and every operation start as soon as what it waits for is
there: on its rank, what was over when it started; of a transfer or collective, the last rank to
arrive. Measured start times give that order, how long a transfer or collective takes once all have
arrived, and, on a link whose transfers are not in the trace, the shortest hop seen; nothing else.";

/// Predict the steps of a real run from its durations, and what they would have been
#[derive(Args)]
#[command(after_long_help = help::flow(EXAMPLES))]
pub struct Replay {
    /// Trace of the run: Parquet, or trace events in JSON
    #[arg(value_name = "TRACE")]
    trace: PathBuf,
    /// Print one JSON object instead of tables
    #[arg(long, help_heading = OUTPUT)]
    json: bool,
    /// Let pass between two operations of a rank what always does (shortest over the run), which
    /// the host takes, or something that the trace leaves out
    #[arg(long)]
    launch_delays: bool,
    #[command(flatten)]
    asked: Questions,
}

/// What would be if.
#[derive(Args)]
#[command(next_help_heading = "What if")]
struct Questions {
    /// Change the run in these ways, one at a time
    #[arg(long, value_name = "CHANGE,..", value_enum, value_delimiter = ',')]
    what_if: Vec<WhatIf>,
    /// Order the passes by these schedules, with the run's median times: compare them with
    /// no-stragglers, and with the run's own schedule
    #[arg(long, value_name = "NAME|FILE,..", value_delimiter = ',')]
    schedule: Vec<String>,
    /// Share of B in a backward pass, the rest being W [default: from --hidden and --seq, or 0.5]
    #[arg(long, value_name = "SHARE", allow_negative_numbers = true, conflicts_with = "hidden")]
    backward_split: Option<f64>,
    /// Hidden size h, for the share of B: (24h+8s) / (48h+8s)
    #[arg(long, value_name = "H", requires = "seq")]
    hidden: Option<u64>,
    /// Sequence length s
    #[arg(long, value_name = "S", requires = "hidden")]
    seq: Option<u64>,
    /// Chunks per stage, for schedules that take any number
    #[arg(long, value_name = "V")]
    chunks: Option<u64>,
    /// Memory limit of every stage, for schedules that are made for one: `1.5p`; or one per stage
    #[arg(long, value_name = "LIMIT,..", value_delimiter = ',', allow_hyphen_values = true)]
    memory_limit: Option<Vec<Limit>>,
}

/// The largest trace, in bytes.
const MAX_TRACE: u64 = 2 << 30;
/// The largest file that is looked at for what else it may be.
const MAX_TEXT: u64 = 16 << 20;

#[derive(Serialize)]
struct Json {
    steps: Vec<StepJson>,
    /// Mean over the steps of |predicted - measured| / measured.
    mean_abs_error: f64,
    max_abs_error: f64,
    /// Mean over the steps.
    measured_ns: u64,
    predicted_ns: u64,
    stragglers: Vec<Straggler>,
    what_if: Vec<Answer>,
    /// Absent unless a Ctrl-C cut the answer short.
    #[serde(skip_serializing_if = "Option::is_none")]
    interrupted: Option<bool>,
}

#[derive(Serialize)]
struct StepJson {
    step: u64,
    measured_ns: u64,
    predicted_ns: u64,
}

impl StepJson {
    #[allow(clippy::cast_precision_loss)]
    fn error(&self) -> f64 {
        accuracy::error(self.predicted_ns as f64, self.measured_ns as f64)
    }
}

impl Replay {
    /// Answers on `out`.
    pub fn run(self, out: &mut dyn Write) -> Result<(), Error> {
        let run = self.read()?;
        let asked = Asked::new(&self.asked)?;
        let mut times = Times::measured(&run);
        if self.launch_delays {
            times = times.with_launch_delays(&run);
        }
        let predicted = run.predict(&times);
        let steps = run.steps().iter().zip(&predicted).map(|(step, predicted)| StepJson {
            step: step.number(),
            measured_ns: step.measured().0,
            predicted_ns: predicted.0,
        });
        let steps: Vec<StepJson> = steps.collect();
        let errors: Vec<f64> = steps.iter().map(StepJson::error).collect();
        let json = Json {
            mean_abs_error: accuracy::mean_absolute(&errors),
            max_abs_error: errors.iter().fold(0.0, |most, error| error.abs().max(most)),
            measured_ns: what_if::mean(steps.iter().map(|step| step.measured_ns)),
            predicted_ns: what_if::mean(steps.iter().map(|step| step.predicted_ns)),
            stragglers: what_if::stragglers(&run, &times),
            what_if: asked.answer(&run, &times)?,
            interrupted: interrupt::cut_short().then_some(true),
            steps,
        };
        if interrupt::cut_short() {
            note("interrupted: not all changes were tried");
        }
        match self.json {
            true => print_json(out, &json),
            false => print(out, &json),
        }
    }

    /// `error`, unless the trace is a file of another kind.
    fn misplaced(&self, error: Error) -> Error {
        match files::read_text(&self.trace, MAX_TEXT) {
            Ok(text) => kinds::misplaced(&self.trace, &text, &[Kind::Trace], error),
            Err(_) => error,
        }
    }

    fn read(&self) -> Result<Run, Error> {
        let wrong = |fault| Error::Trace { path: self.trace.clone(), fault };
        let content = files::read_bytes(&self.trace, MAX_TRACE)?;
        let free = memory::free().unwrap_or(u64::MAX);
        let trace = traces::read_within(content, free);
        let trace = trace.map_err(|fault| self.misplaced(wrong(fault)))?;
        let skipped = trace.skipped;
        if trace.operations.is_empty() {
            return Err(wrong(TraceError::Nothing { skipped }));
        }
        let run = Run::new(trace.operations).map_err(wrong)?;
        if skipped > 0 {
            note(&format!("{skipped} events are no operations of a pipeline"));
        }
        let (steps, ranks) = (run.steps().len(), run.dp_ranks().len());
        let operations = run.operations().len();
        note(&format!("{operations} operations, {steps} steps, {ranks} data-parallel ranks"));
        Ok(run)
    }
}

fn print(out: &mut dyn Write, json: &Json) -> Result<(), Error> {
    let rows = json.steps.iter().map(|step| {
        let times = [step.measured_ns, step.predicted_ns].map(|time| format::time(Nanos(time)));
        let [measured, predicted] = times;
        vec![step.step.to_string(), measured, predicted, format::signed_percent(step.error())]
    });
    write!(out, "{}", format::table(&["step", "measured", "predicted", "error"], rows))?;
    let [mean, max] = [json.mean_abs_error, json.max_abs_error].map(format::percent);
    writeln!(out, "\nmean absolute error {mean}, largest {max}")?;
    let row = |what: String, step: u64, saved: i64| {
        let sign = if saved < 0 { "-" } else { "" };
        let time = |nanos| format::time(Nanos(nanos));
        let saved_time = format!("{sign}{}", time(saved.unsigned_abs()));
        vec![what, time(step), saved_time, share(saved, json.predicted_ns)]
    };
    let answers = json.what_if.iter().map(|one| row(one.name.clone(), one.step_ns, one.saved_ns));
    let stragglers = json.stragglers.iter();
    let stragglers = stragglers.map(|one| row(one.to_string(), one.step_ns, one.saved_ns));
    let header = ["what if", "mean step", "saves", "of the step"];
    let all = std::iter::once(row("as it was".to_owned(), json.predicted_ns, 0));
    Ok(write!(out, "\n{}", format::table(&header, all.chain(answers).chain(stragglers)))?)
}

#[allow(clippy::cast_precision_loss)]
fn share(part: i64, whole: u64) -> String {
    format::percent(if whole == 0 { 0.0 } else { part as f64 / whole as f64 })
}
