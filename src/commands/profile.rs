//! `debubble profile`: the profile of a trainer that was recorded.

use std::io::Write;
use std::path::PathBuf;

use answer::profile;
use clap::Args;
use question::Context;

use super::{OUTPUT, print_json, print_sheet};
use crate::error::Error;
use crate::host::Host;
use crate::{files, help, messages};

const EXAMPLES: &str = "\
Examples:
  A run recorded by debubble.torch, and the best order for its times:
    debubble profile run.json --output run.toml
    debubble search --profile run.toml --stages 4 --microbatches 12 --memory-limit 1p
  Two runs of one model, one with split backwards:
    debubble profile 1f1b.json zb-h1.json --output run.toml
  A run of Megatron-LM with --timing-log-level 2 --timing-log-option all, its schedules side by side:
    debubble profile train.log --output run.toml
    debubble simulate --profile run.toml --stages 4 --microbatches 32 --hop 200us --schedule 1f1b,gpipe
  A run of `debubble execute`:
    debubble execute --schedule zb-h1 --stages 4 --microbatches 8 --forward 10ms \\
      --backward-input 10ms --backward-weight 8ms --timeline run.json
    debubble profile run.json

Times are means over all steps and microbatches; the hop is a median. Overhead is the time from when a stage was
free and its values had arrived to the start of a pass; questions add it to every pass. A hop is measured where
a stage waited for the value. Megatron-LM's timers have only F and the whole backward of each rank. Chunks can
be merged: a profile of 8 chunks answers for 8, 4, 2 and 1.";

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
            false => print_sheet(out, &profile::sheet(&made))?,
        }
        Ok(())
    }
}
