//! `debubble export`: a schedule or its timeline, for other tools.

use std::io::Write;

use answer::export::{export, order, run};
use clap::Args;
use draw::pictures::simulate::Traced;
use question::Context;
use question::export::Form;

use super::{Asked, OUTPUT, note_all};
use crate::error::Error;
use crate::help;
use crate::host::Host;

const EXAMPLES: &str = "\
Examples:
  debubble export --schedule zb-h1 --stages 4 --microbatches 8 \\
    --forward 1ms --backward-input 1ms --backward-weight 1ms > zb-h1.txt
  debubble simulate --schedule zb-h1.txt \\
    --forward 1ms --backward-input 1ms --backward-weight 1ms
  debubble export --format chrome --schedule zb-v --stages 4 --microbatches 8 \\
    --forward 1ms --backward-input 1ms --backward-weight 1ms > zb-v.json   # ui.perfetto.dev

The text form has one line per stage; a pass is its kind (F, B, W or BW), chunk and microbatch,
as in F0.3; two passes run together are joined, as in F1.4&BW0.2. Chunks are numbered in model
order over the whole model. After the passes of a stage, each `|` begins a stream of copies to the host:
O0.3@7 is out after 7 slots of the stage have ended, R0.3@12 back after 12; `|0.5` copies half of each
activation, and behind `|<=1` at most one copy out is in flight when the slot after a forward begins. Times are needed only where the order depends on them.

--format torch-csv writes what torch.distributed.pipelining loads (`_load_csv`, torchtitan's
--parallelism.pipeline_parallel_schedule_csv): F, I (our B), W, B (our BW); pairs as OVERLAP_F_B. Such a file can be given for --schedule.

--format primus writes what Primus runs on Megatron-LM: a list of nodes for each rank, with sends and receives, pairs of a V
and copies to the host. In Python `debubble.primus.use(\"order.json\")` replaces one of Primus' schedules by it.";

/// Print one schedule, in the text form or as torch or Primus reads it, or its timeline
#[derive(Args)]
#[command(after_long_help = help::flow(EXAMPLES))]
pub struct Export {
    #[command(flatten)]
    asked: Asked,
    /// Form to print
    #[arg(long, help_heading = OUTPUT, value_enum, default_value_t = Form::Text)]
    format: Form,
}

impl Export {
    /// Answers on `out`.
    pub fn run(self, out: &mut dyn Write) -> Result<(), Error> {
        let host = Host::default();
        let context = Context::new(&host);
        let case = self.asked.read(&context).and_then(|scenario| {
            let needs_times = matches!(self.format, Form::Chrome);
            export(&context, scenario, needs_times)
        });
        let case = case.and_then(|case| {
            let order = order(&context, &case, self.format)?;
            Ok((case, order))
        });
        note_all(&context);
        let (case, order) = case?;
        match self.format {
            Form::Text | Form::TorchCsv | Form::Primus => write!(out, "{order}")?,
            Form::Chrome => {
                let outcome = run(case)?;
                Traced::of(&outcome, &outcome.case.name)?.write(out)?;
            }
        }
        Ok(())
    }
}
