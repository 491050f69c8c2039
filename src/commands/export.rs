//! `debubble export`: a schedule or its timeline, for other tools.

use std::io::Write;

use answer::outcome::{self, Outcome};
use clap::{Args, ValueEnum};
use draw::pictures::simulate::write_trace;
use question::{Context, Warnings, case};
use sim::{Details, Replay};

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
order over the whole model. Behind the passes of a stage, each `|` begins a stream of copies to the host:
O0.3@7 is out after 7 slots of the stage have ended, R0.3@12 back after 12; `|0.5` copies half of each
activation. Times are needed only where the order depends on them.";

/// Print one schedule in the text form, or its timeline
#[derive(Args)]
#[command(after_long_help = help::flow(EXAMPLES))]
pub struct Export {
    #[command(flatten)]
    asked: Asked,
    /// What to print
    #[arg(long, help_heading = OUTPUT, value_enum, default_value_t = Format::Text)]
    format: Format,
}

#[derive(Clone, Copy, ValueEnum)]
enum Format {
    /// The order of passes, one line per stage
    Text,
    /// The simulated timeline as trace events for Perfetto or chrome://tracing
    Chrome,
}

impl Export {
    /// Answers on `out`.
    pub fn run(self, out: &mut dyn Write) -> Result<(), Error> {
        let host = Host::default();
        let context = Context::new(&host);
        let scenario = self.asked.read(&context);
        note_all(&context);
        let mut scenario = scenario?;
        if let (Format::Text, [setting]) = (self.format, &mut scenario.settings[..]) {
            case::allow_without_times(setting);
        }
        let [setting] = &scenario.settings[..] else {
            let count = scenario.settings.len();
            return Err(Error::question(format!(
                "export takes one setting, but the scenario has {count}"
            )));
        };
        let rules = case::rules(&context, &scenario, setting)?;
        let [rule] = &rules[..] else {
            let message = format!("export takes one schedule, not {}", rules.len());
            return Err(scenario.error(setting, Some("schedule"), message).into());
        };
        let case = case::case(&context, &scenario, setting, rule)?;
        let mut warnings = Warnings::default();
        warnings.add_ignored(setting, rule);
        case.split.into_iter().for_each(|split| warnings.add_of_setting(split.note()));
        warnings.lines().into_iter().for_each(|line| context.warn(line));
        note_all(&context);
        match self.format {
            Format::Text => write!(out, "{}", case.schedule)?,
            Format::Chrome => {
                let details = Details { run: true, ..Details::default() };
                let outcome = Outcome::of(case, details, &mut Replay::new())?;
                let run = outcome::recorded(&outcome)?;
                let memory = outcome::memory_curves(&outcome, &run)?;
                write_trace(out, &outcome, &outcome.case.name, &run, &memory)?;
            }
        }
        Ok(())
    }
}
