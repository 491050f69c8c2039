//! `debubble profile`: the profile of a trainer that was recorded.

use std::io::Write;
use std::path::PathBuf;

use answer::profile;
use clap::Args;
use draw::text;
use question::Context;

use super::{OUTPUT, print_json};
use crate::error::Error;
use crate::host::Host;
use crate::{files, help, messages};

const EXAMPLES: &str = "\
Examples:
  A run that debubble.torch recorded, and the best order for what was measured:
    debubble profile run.json --output run.toml
    debubble search --profile run.toml --stages 4 --microbatches 12 --memory-limit 1p
  Two runs of one model, one of which splits its backwards:
    debubble profile 1f1b.json zb-h1.json --output run.toml
  A run of Megatron-LM with --timing-log-level 2 --timing-log-option all, its schedules side by side:
    debubble profile train.log --output run.toml
    debubble simulate --profile run.toml --stages 4 --microbatches 32 --hop 200us --schedule 1f1b,gpipe
  A run of this program:
    debubble execute --schedule zb-h1 --stages 4 --microbatches 8 --forward 10ms \\
      --backward-input 10ms --backward-weight 8ms --timeline run.json
    debubble profile run.json

Times are means over all steps and microbatches, of the hop the median. A pass could begin when its
stage was free and its values were there: how much later it began is overhead, which questions add
to every pass. A hop is measured where a stage waited for the value. The timers of Megatron-LM know F and the whole
backward of each rank alone. Chunks that were recorded apart
may be asked about together: a profile of 8 chunks answers for 8, 4, 2 and 1.";

/// Make a profile of recorded runs: what passes, hops and the runtime of a trainer took
#[derive(Args)]
#[command(after_long_help = help::flow(EXAMPLES))]
pub struct Profile {
    /// Runs of one trainer: what debubble.torch recorded, files of `execute --timeline`, or logs of Megatron-LM with
    /// its timers of all ranks
    #[arg(required = true, value_name = "RECORDING")]
    recordings: Vec<PathBuf>,
    /// Write the profile, for --profile of `simulate`, `sweep` and `search`
    #[arg(long, short, help_heading = OUTPUT, value_name = "FILE.toml")]
    #[arg(value_parser = files::Output)]
    output: Option<PathBuf>,
    /// Print one JSON object instead of a table
    #[arg(long, help_heading = OUTPUT)]
    json: bool,
}

impl Profile {
    /// Answers on `out`.
    pub fn run(self, out: &mut dyn Write) -> Result<(), Error> {
        let host = Host::default();
        let context = Context::new(&host);
        let made = profile::of_files(&context, &self.recordings)?;
        context.take_warnings().iter().for_each(|text| messages::note(text));
        if let Some(path) = &self.output {
            files::write(path, made.to_toml())?;
        }
        match self.json {
            true => print_json(out, &profile::json(&made))?,
            false => write!(out, "{}", text::sheet(&profile::sheet(&made)))?,
        }
        Ok(())
    }
}
