//! `debubble fsdp`: packing and communication in data-parallel post-training, side by side.

mod keys;
mod pictures;
mod rows;
pub(crate) mod syntax;

use std::io::Write;
use std::path::PathBuf;

use clap::Args;

use self::keys::{Keys, Setting};
use self::rows::{BASELINE, Json, Row};
use super::{OUTPUT, note, print_json};
use crate::error::Error;
use crate::files;
use crate::help;
use crate::interrupt;
use crate::progress;

const EXAMPLES: &str = "\
Examples:
  Packing and communication over the minibatch size, for ODC's fit of a 1.5B model:
    debubble fsdp --devices 8 --minibatch-size 1,2,4,8 --packing-ratio 1
  Lengths of a data set of your own, more devices, a picture and a table for machines:
    debubble fsdp --lengths file:lengths.txt --devices 8,32 --svg bubble.svg --csv rows.csv
  Links, of which eight devices own all parameters:
    debubble fsdp --devices 32 --parameters 3GB --bandwidth 12.5GB/s --latency 10us --owners 8
  A slow device and jitter on every layer:
    debubble fsdp --slowdown device:3=1.2 --jitter pass=lognormal:0.05 --seed 1 --json
  One minibatch in time:
    debubble fsdp --devices 4 --minibatch-size 4 --layers 1 --timeline minibatch.svg

Every device computes samples of its own and owns a share of the parameters. With collectives
all devices meet at every layer of every microbatch: the step takes the sum over microbatches
and layers of the slowest device's time. With on-demand communication (ODC, arXiv 2601.19362)
they pull parameters and push gradients point to point and meet once a minibatch: the longest
sum of one device. lb-mini gives devices unequal numbers of microbatches, with which collectives
would deadlock.

idle is the time in which the average device waits, bubble its share of the step, speed-up that
over lb-micro with collectives; all are over --minibatches minibatches of which every way gets
the same samples. Without --parameters transfers take no time. The lengths drawn by default are
from 8K to 64K tokens, as those of LongAlign, but by a formula: take a file for those of a data
set.";

/// Pack samples for FSDP, with collectives or on-demand communication: step time, idle time, speed-up
#[derive(Args)]
#[command(after_long_help = help::flow(EXAMPLES))]
pub struct Fsdp {
    #[command(flatten)]
    keys: Keys,
    /// Print one JSON object instead of a table
    #[arg(long, help_heading = OUTPUT)]
    json: bool,
    /// Write the rows as CSV, with the keys of the JSON as columns
    #[arg(long, help_heading = OUTPUT, value_name = "FILE.csv")]
    #[arg(value_parser = files::output)]
    csv: Option<PathBuf>,
    /// Write a picture of the bubble over the minibatch size
    #[arg(long, help_heading = OUTPUT, value_name = "FILE.svg")]
    #[arg(value_parser = files::output)]
    svg: Option<PathBuf>,
    /// Write a picture of the first minibatch, layer by layer; one setting only
    #[arg(long, help_heading = OUTPUT, value_name = "FILE.svg")]
    #[arg(value_parser = files::output)]
    timeline: Option<PathBuf>,
}

impl Fsdp {
    /// Answers on `out`.
    pub fn run(self, out: &mut dyn Write) -> Result<(), Error> {
        let settings = self.keys.settings()?;
        if let (Some(_), true) = (&self.timeline, settings.len() != 1) {
            let message = format!("--timeline takes one setting, but there are {}", settings.len());
            let cure = "name one of --devices, --minibatch-size and --packing-ratio each";
            return Err(Error::question(message).with_help(cure));
        }
        if let (Some(path), [setting]) = (&self.timeline, settings.as_slice()) {
            let ways = self.keys.ways();
            files::write(path, pictures::timelines(setting, &ways, self.keys.layers())?)?;
        }
        let rows = self.rows(&settings)?;
        if let Some(path) = &self.csv {
            files::write(path, rows::csv(&rows)?)?;
        }
        if let Some(path) = &self.svg {
            files::write(path, pictures::bubbles(&rows)?)?;
        }
        if self.json {
            return print_json(
                out,
                &Json { results: &rows, interrupted: interrupt::cut_short().then_some(true) },
            );
        }
        Ok(write!(out, "{}", rows::table(&rows))?)
    }

    /// Says before minibatches are packed if that takes minutes.
    fn foretell(&self, settings: &[Setting]) {
        // Packing goes through all devices for every sample.
        const PAIRS_PER_SECOND: u64 = 6_000_000;
        let pairs = |setting: &Setting| {
            let devices = setting.devices as u128;
            devices * devices * u128::from(setting.minibatch_size)
        };
        let minibatches = self.keys.minibatches();
        let all: u128 = settings.iter().map(pairs).sum();
        let all = all.saturating_mul(u128::from(minibatches));
        let cores = std::thread::available_parallelism().map_or(1, |cores| cores.get() as u64);
        let what = format!("{} settings of {minibatches} minibatches", settings.len());
        progress::foretell(all, PAIRS_PER_SECOND * cores, &what);
    }

    fn rows(&self, settings: &[Setting]) -> Result<Vec<Row>, Error> {
        let ways = self.keys.ways();
        let mut asked = ways.clone();
        asked.push(BASELINE);
        let steps = settings
            .len()
            .saturating_mul(usize::try_from(self.keys.minibatches()).unwrap_or(usize::MAX));
        interrupt::listen();
        self.foretell(settings);
        let bar = progress::bar(steps, "minibatches");
        let mut rows = Vec::new();
        for setting in settings {
            if !rows.is_empty() && interrupt::asked() {
                break;
            }
            let tallies = setting.study.run_until(&asked, || bar.inc(1), interrupt::asked);
            let tallies = tallies.map_err(|fault| setting.error(&fault))?;
            let Some((baseline, tallies)) = tallies.split_last() else { continue };
            rows.extend(ways.iter().zip(tallies).map(|(way, tally)| {
                Row::new(setting, *way, tally, baseline, self.keys.parameters())
            }));
        }
        bar.finish_and_clear();
        if interrupt::cut_short() {
            note("interrupted: over the minibatches that were done by then, not over all");
        }
        Ok(rows)
    }
}
