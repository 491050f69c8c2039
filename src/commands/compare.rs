//! `debubble compare`: a predicted and a measured timeline.

use std::io::Write;
use std::path::PathBuf;

use answer::compare::{Comparison, report};
use answer::timelines;
use clap::Args;
use draw::pictures::compare as pictures;
use question::{Context, format};

use super::width::Pictures;
use super::{OUTPUT, Verdict, print_json, print_sheet};
use crate::error::Error;
use crate::host::Host;
use crate::{files, help};

const EXAMPLES: &str = "\
Examples:
  debubble simulate --stages 4 --microbatches 8 --schedule zb-h1 --hop 500us \\
    --forward 10ms --backward-input 10ms --backward-weight 8ms --timeline predicted.json
  debubble execute --stages 4 --microbatches 8 --schedule zb-h1 --hop 500us \\
    --forward 10ms --backward-input 10ms --backward-weight 8ms --timeline measured.json
  debubble compare predicted.json measured.json
  debubble compare predicted.json measured.json --fail-above 2   # in CI: exit 1 beyond 2 %
  debubble compare alone.json measured.json --beside beside.json # the share of busy neighbours

Predicted values are replaced by measured ones in turn, and the step is replayed each time: the order of the
passes; kernels (durations of passes); transfers (how long values were in flight); overhead (the time from when
a stage was free and its values had arrived to the start of a pass). The parts add up to the difference to the
nanosecond.

With --beside, busy neighbours are a separate part before the rest of kernels: the duration of a pass is
interpolated between PREDICTED (no other stage busy) and --beside (all other stages busy) by the mean number of
other stages that were busy while it ran in MEASURED.

If several steps were measured, the one with the median makespan is compared (the lower of the two in the middle
of an even number); times of passes are over all steps.";

/// Compare a predicted and a measured timeline: where the difference comes from
#[derive(Args)]
#[command(after_long_help = help::flow(EXAMPLES))]
pub struct Compare {
    /// Predicted timeline: a file of `simulate --timeline`
    predicted: PathBuf,
    /// Measured timeline: a file of `execute --timeline`, or a recording of debubble.torch
    measured: PathBuf,
    /// The same schedule, predicted from a profile measured with busy neighbours: gives the share of busy
    /// neighbours in the difference; PREDICTED is then from a profile measured with none
    #[arg(long, value_name = "PREDICTED_BESIDE.json")]
    beside: Option<PathBuf>,
    /// Print one JSON object instead of tables
    #[arg(long, help_heading = OUTPUT)]
    json: bool,
    /// Write a picture of both timelines, on one time axis
    #[arg(long, help_heading = OUTPUT, value_name = "FILE.svg")]
    #[arg(value_parser = files::Output)]
    svg: Option<PathBuf>,
    #[command(flatten)]
    drawn: Pictures,
    /// Exit with code 1 if the predicted span or makespan is off by more than this share of the
    /// measured
    #[arg(long, help_heading = OUTPUT, value_name = "PERCENT", allow_negative_numbers = true)]
    fail_above: Option<f64>,
}

impl Compare {
    /// Answers on `out`.
    pub fn run(self, out: &mut dyn Write) -> Result<Verdict, Error> {
        if let Some(percent) = self.fail_above.filter(|one| !one.is_finite() || *one < 0.0) {
            return Err(Error::question(format!("--fail-above {percent}: it must be 0 or more")));
        }
        let host = Host::default();
        let context = Context::new(&host);
        let predicted = timelines::read(&context, &self.predicted)?;
        let measured = timelines::read(&context, &self.measured)?;
        let beside = self.beside.as_deref().map(|path| timelines::read(&context, path));
        let beside = beside.transpose()?;
        let comparison = match &beside {
            Some(beside) => Comparison::beside(&predicted, &measured, beside)?,
            None => Comparison::of(&predicted, &measured)?,
        };
        if let Some(path) = &self.svg {
            files::write(path, pictures::timelines(&comparison, self.drawn.width)?)?;
        }
        match self.json {
            true => print_json(out, &comparison)?,
            false => print_sheet(out, &report::sheet(&comparison))?,
        }
        match self.fail_above {
            Some(percent) if 100.0 * comparison.error() > percent => {
                let error = format::percent(comparison.error());
                super::note(&format!("the prediction is off by {error}, more than {percent} %"));
                Ok(Verdict::Missed)
            }
            _ => Ok(Verdict::Done),
        }
    }
}
