//! `debubble advise`: what to change of a run first, from its script and its log.

mod tail;
mod watch;

use std::io::Write;
use std::path::{Path, PathBuf};
use std::str::FromStr;
use std::time::Duration;

use answer::advise::{Advice, AdviceQuestion, advise};
use clap::Args;
use question::Context;

use crate::commands::import::Facts;
use crate::commands::{OUTPUT, Verdict, note, note_all, print_json, print_sheet};
use crate::error::Error;
use crate::host::Host;
use crate::{files, help};

const EXAMPLES: &str = "\
Examples:
  A log of Megatron-LM, which begins with its arguments:
    debubble advise slurm-1234.out --machine h100
  A launch script, and the log of its iterations:
    debubble advise train_gpt.sh slurm-1234.out --machine h100 --devices 64
  A growing log: a line for each change of the step time, with the cause:
    debubble advise slurm-1234.out --watch
  A script that has not run yet:
    debubble advise train_gpt.sh --machine b200

Steady iterations of the log calibrate the machine; warm-up, evaluations, checkpoints and outliers do not count.
Then every part of the set-up that can change on the same hardware is tried: schedule, layers, microbatch,
recomputation, software, sharding, groups, and all of them together.";

/// Say what to change first of a run, from its launch script and its log
#[derive(Args)]
#[command(after_long_help = help::flow(EXAMPLES))]
pub struct Advise {
    /// A script, a log or a question of one set-up; further logs have its iterations
    #[arg(value_name = "SCRIPT|LOG|PLAN.toml", required = true)]
    files: Vec<PathBuf>,
    #[command(flatten)]
    facts: Facts,
    /// Write the files of the change to make first: the changed arguments of the script as a difference, the question,
    /// the calibrated machine, and the configurations of trainers; the question and the calibrated machine alone where no
    /// change is likely to help
    #[arg(long, help_heading = OUTPUT, value_name = "FOLDER")]
    export: Option<PathBuf>,
    /// With --export: the number of another change of the table
    #[arg(long, help_heading = OUTPUT, value_name = "N", requires = "export")]
    change: Option<usize>,
    /// Follow the log, the last of the files, and print when a step leaves what it was, and why; Ctrl-C ends it
    #[arg(long, conflicts_with_all = ["export", "change"])]
    watch: bool,
    /// With --watch: end when the log has not grown for this long
    #[arg(long, value_name = "TIME", requires = "watch", value_parser = pipeline::Nanos::from_str)]
    timeout: Option<pipeline::Nanos>,
    /// Print one JSON object instead of tables; with --watch one a line
    #[arg(long, help_heading = OUTPUT)]
    json: bool,
}

impl Advise {
    /// Answers on `out`.
    pub fn run(self, out: &mut dyn Write) -> Result<Verdict, Error> {
        let host = Host::listening();
        let context = Context::new(&host);
        let Self { files, facts, export, change, watch, timeout, json } = self;
        let question = AdviceQuestion { files, given: facts.given() };
        if watch {
            let timeout = timeout.map(|time| Duration::from_nanos(time.0));
            return watch::run(&question, timeout, json, out);
        }
        let advice = advise(&context, &question);
        note_all(&context);
        let advice = advice?;
        if let Some(folder) = &export {
            write_files(&context, &advice, change, folder)?;
        }
        match json {
            true => print_json(out, &advice)?,
            false => {
                advice.notes.iter().for_each(|text| note(text));
                print_sheet(out, &advice.sheet()?)?;
            }
        }
        Ok(Verdict::Done)
    }
}

/// Writes the files of change `number` of the table, or of the one to make first, into `folder`.
fn write_files(
    context: &Context<'_>,
    advice: &Advice,
    number: Option<usize>,
    folder: &Path,
) -> Result<(), Error> {
    // Change 0 is none of the table.
    let written = advice.export(context, number.map(|number| number.wrapping_sub(1)))?;
    files::make_folder(folder)?;
    for (name, text) in written.files {
        files::write(&folder.join(name), text)?;
    }
    written.notes.iter().for_each(|text| note(text));
    Ok(())
}
