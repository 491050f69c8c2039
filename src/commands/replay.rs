//! `debubble replay`: a real run's durations in, predicted against measured steps out, and what
//! the steps would have been.

use std::io::Write;
use std::path::PathBuf;

use answer::replay::{Answer, replay};
use clap::Args;
use pipeline::Nanos;
use question::Context;
use question::replay::Keys;

use super::{OUTPUT, note, note_all, print_json};
use crate::error::Error;
use crate::host::Host;
use crate::{format, help};

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
    asked: Keys,
}

impl Replay {
    /// Answers on `out`.
    pub fn run(self, out: &mut dyn Write) -> Result<(), Error> {
        let host = Host::listening();
        let context = Context::new(&host);
        let answer = replay(&context, &self.trace, self.launch_delays, &self.asked);
        note_all(&context);
        let answer = answer?;
        if answer.interrupted.is_some() {
            note("interrupted: not all changes were tried");
        }
        match self.json {
            true => print_json(out, &answer),
            false => print(out, &answer),
        }
    }
}

fn print(out: &mut dyn Write, json: &Answer) -> Result<(), Error> {
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
