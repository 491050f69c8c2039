//! `debubble replay`: a real run's durations in, predicted against measured steps out, and what
//! the steps would have been.

use std::io::Write;
use std::path::PathBuf;

use answer::replay::replay;
use clap::Args;
use question::Context;
use question::replay::ReplayKeys;

use super::{OUTPUT, note, note_all, print_json, print_sheet};
use crate::error::Error;
use crate::help;
use crate::host::Host;

const EXAMPLES: &str = "\
Examples:
  debubble replay trace.parquet
  debubble replay trace.parquet --what-if no-stragglers,free-links --json
  debubble replay trace.parquet --schedule zb-h1,zb-2p --backward-split 0.6
  debubble replay megatron.json --warmup-steps 1
  debubble replay rank0.json rank1.json rank2.json rank3.json
  debubble replay spans.jsonl
  debubble replay report.jsonl
  debubble export --format chrome --schedule 1f1b --stages 4 --microbatches 8 \\
    --forward 1ms --backward-input 1ms --backward-weight 1ms > run.json; debubble replay run.json

A trace is Parquet in the form of the StragglerAnalysis data set (columns dp_rank, stage, step,
optype, start_ts and duration in seconds, mc, mb_id), a timeline of simulate or execute, or trace
events in JSON: events with ph = X whose args say kind (F, B, W, BW) or optype, stage, step,
dp_rank, chunk and microbatch; without kind the name is read, as in F0.3, and without stage the
thread. Or, as Megatron-style tracers write them, events forward and backward with ph = B and E, of
which E says microbatch, model_chunk, pp_rank and iteration. Or what torch.profiler saw of the
actions of torch.distributed.pipelining (PP:3F12 and the like), one file for each rank. Where
nothing names passes, as in Megatron-LM, those of 1F1B and interleaved 1F1B are inferred from
autograd and the sends between ranks. Or spans of OpenTelemetry that Megatron-LM exports, as OTLP in JSON (one object,
or one a line, as the collector writes them) or from the console exporter. Or a report of Nsight Systems, from `nsys
export --type jsonlines`, whose NVTX ranges name passes as torch does. Each file may be compressed with gzip.

A step lasts from the start of the first operation of any rank to the end of the last operation of any rank. In
the prediction all ranks begin together, and an operation starts when its dependencies are met: the operations
that had ended on its rank when it started and, for a transfer or collective, the arrival of the last rank.
Measured start times give the dependencies, and the duration of a transfer or collective once all ranks have
arrived. On a link whose transfers are not in the trace the hop is estimated: the median time from when both
ends were ready to when a rank went on that waited for nothing else, or the time of the same value in other
steps, if that is less. In a Megatron-style trace a send blocks its rank until the other end is ready. The
answer lists what was estimated, the error of the prediction with hops estimated from other steps only, and what
the trace lacks.";

/// Predict the steps of a real run from its durations, and what they would have been
#[derive(Args)]
#[command(after_long_help = help::flow(EXAMPLES))]
pub struct Replay {
    /// Traces of the run, one or one for each rank: Parquet, trace events in JSON, spans of
    /// OpenTelemetry, lines of Nsight Systems, or a timeline
    #[arg(value_name = "TRACE", required = true)]
    traces: Vec<PathBuf>,
    /// Print one JSON object instead of tables
    #[arg(long, help_heading = OUTPUT)]
    json: bool,
    /// Let pass between two operations of a rank what always does (shortest over the run), which
    /// the host takes, or something that the trace leaves out
    #[arg(long)]
    launch_delays: bool,
    #[command(flatten)]
    asked: ReplayKeys,
}

impl Replay {
    /// Answers on `out`.
    pub fn run(self, out: &mut dyn Write) -> Result<(), Error> {
        let host = Host::listening();
        let context = Context::new(&host);
        let answer = replay(&context, &self.traces, self.launch_delays, &self.asked);
        note_all(&context);
        let answer = answer?;
        if answer.interrupted.is_some() {
            note("interrupted: not all changes were tried");
        }
        match self.json {
            true => print_json(out, &answer),
            false => print_sheet(out, &answer.sheet()),
        }
    }
}
