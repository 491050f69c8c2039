//! `debubble sweep`: a grid of questions, in parallel, resumable, in parts.

mod merge;
mod pictures;
mod run;
mod slurm;

use std::io::Write;
use std::path::PathBuf;

use clap::Args;

use super::{OUTPUT, note};
use crate::error::Error;
use crate::files;
use crate::keys::Keys;
use crate::sweep::grid::Grid;
use crate::sweep::shard::Shard;

const EXAMPLES: &str = "\
A scenario for a sweep has a table of axes. Each is a key of a question with a list of what it may
be, or a range { from, to, step } or { from, to, factor }, both ends included:

  schedule = [\"1f1b\", \"zb-heuristic\", \"zb-v\"]
  stages = 8
  forward = \"10ms\"
  backward-input = \"10ms\"
  backward-weight = \"8ms\"

  [sweep]
  microbatches = [16, 32, 64]
  memory-limit = { from = \"1p\", to = \"3p\", step = \"0.125p\" }
  forward = [\"10ms\", [\"9ms\", \"11ms\"]]   # a list within the list: one per stage or chunk

Settings vary slowest, then the axes in the order written, then the schedules. A question without
an answer, such as a memory limit that no order keeps, says why in the column `error`.

Examples:
  The whole of figure 9, then the same on any number of machines:
    debubble sweep scenarios/paper/fig9-sweep.toml --out fig9.csv --plot fig9.svg
    debubble sweep scenarios/paper/fig9-sweep.toml --out part1.csv --shard 1/2
    debubble sweep scenarios/paper/fig9-sweep.toml --out part2.csv --shard 2/2
    debubble sweep --merge part1.csv part2.csv --out fig9.csv
  In 100 SLURM jobs and one that merges:
    debubble sweep grid.toml --out grid.csv --slurm 100 > grid.sh && sbatch grid.sh

What is done is kept in FILE.csv.partial: a sweep that was killed goes on when the same command is
given again, and its file has the bytes of one that was not.";

/// Answer a grid of questions: in parallel, resumable, in parts
#[derive(Args)]
#[command(after_long_help = EXAMPLES)]
pub struct Sweep {
    /// Scenario file with a table `[sweep]` of axes; flags go before what it says
    #[arg(value_name = "SCENARIO.toml", required_unless_present = "merge")]
    scenario: Option<PathBuf>,
    /// Where the rows go, one per question
    #[arg(long, help_heading = OUTPUT, value_name = "FILE.csv")]
    out: PathBuf,
    /// Answer one of COUNT nearly equal parts of the questions
    #[arg(long, help_heading = OUTPUT, value_name = "NUMBER/COUNT")]
    shard: Option<Shard>,
    /// Merge the files of all shards, in any order, into the file of the whole
    #[arg(long, help_heading = OUTPUT, value_name = "FILE", num_args = 1..)]
    #[arg(conflicts_with_all = ["scenario", "shard", "slurm"])]
    merge: Vec<PathBuf>,
    /// Print a script for sbatch that answers in COUNT jobs and merges, instead of answering
    #[arg(long, help_heading = OUTPUT, value_name = "COUNT", conflicts_with = "shard")]
    #[arg(value_parser = clap::value_parser!(u64).range(1..=1_000_000))]
    slurm: Option<u64>,
    /// Draw the bubble over an axis: a line per schedule, a panel for each setting and value of the
    /// other axes
    #[arg(long, help_heading = OUTPUT, value_name = "FILE.svg")]
    #[arg(conflicts_with_all = ["shard", "merge", "slurm"])]
    plot: Option<PathBuf>,
    /// The axis of the picture [default: the last one of numbers]
    #[arg(long, help_heading = OUTPUT, value_name = "KEY", requires = "plot")]
    plot_over: Option<String>,
    /// Draw heat maps over two axes instead, across and down: one for each schedule, setting and
    /// value of the other axes
    #[arg(long, help_heading = OUTPUT, value_name = "KEY,KEY", value_delimiter = ',')]
    #[arg(requires = "plot", conflicts_with = "plot_over")]
    plot_map: Vec<String>,
    #[command(flatten)]
    keys: Keys,
}

impl Sweep {
    /// Answers into files; only a script goes to `out`.
    pub fn run(self, out: &mut dyn Write) -> Result<(), Error> {
        let Some(scenario) = &self.scenario else {
            let shards = merge::merge(&self.merge, &self.out)?;
            note(&format!("{shards} shards are in {}", self.out.display()));
            return Ok(());
        };
        let grid = Grid::read(scenario, &self.keys)?;
        if let Some(count) = self.slurm {
            let program = std::env::current_exe()?;
            let script = slurm::script(&program, &words(), &self.out, count);
            return Ok(out.write_all(script.as_bytes())?);
        }
        let over = self.plot_over.as_deref();
        match (&self.plot, &self.plot_map[..]) {
            (None, _) => {}
            (Some(_), []) => pictures::check(&grid, over)?,
            (Some(_), keys) => pictures::check_map(&grid, keys)?,
        }
        let range = run::rows(&grid, self.shard, &self.out)?;
        let (count, all) = (range.end - range.start, grid.questions);
        if let Some(picture) = &self.plot {
            let svg = match &self.plot_map[..] {
                [] => pictures::svg(&grid, &self.out, over)?,
                keys => pictures::map(&grid, &self.out, keys)?,
            };
            files::write(picture, svg)?;
        }
        note(&format!("{count} of {all} questions are in {}", self.out.display()));
        Ok(())
    }
}

/// The words behind `debubble sweep`, but for --out and --slurm with their values.
fn words() -> Vec<String> {
    let mut words = Vec::new();
    let mut all = std::env::args().skip(2);
    while let Some(word) = all.next() {
        match &word[..] {
            "--out" | "--slurm" => drop(all.next()),
            word if word.starts_with("--out=") || word.starts_with("--slurm=") => {}
            _ => words.push(word),
        }
    }
    words
}
