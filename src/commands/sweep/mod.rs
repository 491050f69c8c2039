//! `debubble sweep`: a grid of questions, in parallel, resumable, in parts.

mod lines;
mod maps;
pub(crate) mod merge;
mod pareto;
mod pictures;
mod run;
mod slurm;

use std::io::Write;
use std::path::PathBuf;

use clap::Args;

use self::pictures::{Kind, Picture};
use super::{Notes, OUTPUT, note};
use question::echo;
use crate::error::Error;
use crate::files;
use crate::help;
use crate::interrupt;
use question::keys::Keys;
use crate::progress;
use question::case;
use question::case::Rule;
use question::sweep::grid::{Grid, Question};
use question::sweep::shard::Shard;
use crate::sweep::{parquet, preflight};

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

Every key may be an axis. Settings vary slowest, then the axes in the order written, then the
schedules. A question without an answer, such as a memory limit that no order keeps, says why in the
column `error`.

Rows say what `simulate --json` says, under the path in it: metrics always; under noise, of replica 0,
and noise_free_* beside them; distributions such as span_ns_p95 with --replicas; step_ns, the busiest
wire and the fullest device with a cluster or other hardware keys. Columns that no question of the
sweep asks for are left out; a field without a value is empty, in Parquet null.

Examples:
  The whole of figure 9, then the same on any number of machines:
    debubble sweep scenarios/paper/fig9-sweep.toml --out fig9.csv --plot fig9.svg
    debubble sweep scenarios/paper/fig9-sweep.toml --out part1.csv --shard 1/2
    debubble sweep scenarios/paper/fig9-sweep.toml --out part2.csv --shard 2/2
    debubble sweep --merge part1.csv part2.csv --out fig9.csv
  As Parquet, with a picture of what memory buys:
    debubble sweep grid.toml --out grid.parquet --plot-pareto pareto.svg
  In 100 SLURM jobs and one that merges:
    debubble sweep grid.toml --out grid.csv --slurm 100 > grid.sh && sbatch grid.sh

What is done is kept in FILE.partial: a sweep that was killed goes on when the same command is given
again, and its file has the bytes of one that was not. One process at a time writes a file.";

/// Answer a grid of questions: in parallel, resumable, in parts
#[derive(Args)]
#[command(after_long_help = help::flow(EXAMPLES))]
pub struct Sweep {
    /// Scenario file with a table `[sweep]` of axes; flags go before what it says
    #[arg(value_name = "SCENARIO.toml", required_unless_present = "merge")]
    scenario: Option<PathBuf>,
    /// Where the rows go, one per question: CSV, or Parquet if the name ends in .parquet
    #[arg(long, help_heading = OUTPUT, value_name = "FILE")]
    #[arg(value_parser = files::output)]
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
    #[arg(value_parser = files::output)]
    plot: Option<PathBuf>,
    /// The axis of the picture [default: the last one of numbers]
    #[arg(long, help_heading = OUTPUT, value_name = "KEY", requires = "plot")]
    plot_over: Option<String>,
    /// Draw heat maps over two axes instead, across and down: one for each schedule, setting and
    /// value of the other axes
    #[arg(long, help_heading = OUTPUT, value_name = "KEY,KEY", value_delimiter = ',')]
    #[arg(requires = "plot", conflicts_with = "plot_over")]
    plot_map: Vec<String>,
    /// Draw the bubble against the peak memory, a panel per setting and value of the axes that ask
    /// another question, with the front of the rows that no other row of it beats in both
    #[arg(long, help_heading = OUTPUT, value_name = "FILE.svg")]
    #[arg(conflicts_with_all = ["shard", "merge", "slurm"])]
    #[arg(value_parser = files::output)]
    plot_pareto: Option<PathBuf>,
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
        if self.shard.is_some() && parquet::is_named(&self.out) {
            let message = "a shard is CSV, whatever its name: merging shards writes Parquet";
            let cure = "name it .csv, and give the name that ends in .parquet to --merge";
            return Err(Error::question(message).with_help(cure));
        }
        let pictures = self.pictures();
        pictures::check(&grid, &pictures)?;
        notes(&grid)?.print();
        preflight::check_answers(&grid)?;
        foretell(&grid)?;
        let answered = run::answer(&grid, self.shard, &self.out)?;
        if interrupt::cut_short() {
            let (done, all) = (answered.journal.rows, answered.range.end - answered.range.start);
            let out = echo::path(&self.out);
            note(&format!(
                "interrupted: {done} of {all} questions are in {out}.partial; the same command goes on \
                 from there"
            ));
            return Ok(());
        }
        answered.publish(&self.out)?;
        let drawn = pictures::draw(&grid, &pictures, &answered);
        let (count, all) = (answered.range.end - answered.range.start, grid.questions);
        answered.journal.end()?;
        drawn?;
        note(&format!("{count} of {all} questions are in {}", self.out.display()));
        Ok(())
    }

    /// The pictures that are asked for.
    fn pictures(&self) -> Vec<Picture<'_>> {
        let plot = self.plot.iter().map(|path| match &self.plot_map[..] {
            [] => Picture { path, kind: Kind::Lines { over: self.plot_over.as_deref() } },
            keys => Picture { path, kind: Kind::Maps { keys } },
        });
        let pareto = self.plot_pareto.iter().map(|path| Picture { path, kind: Kind::Pareto });
        plot.chain(pareto).collect()
    }
}

/// What has no influence on the answers, as far as the first question and each value in its place
/// tell.
fn notes(grid: &Grid) -> Result<Notes, Error> {
    let mut notes = Notes::default();
    for question in grid.samples()? {
        notes.add_assumed(&question.setting);
        notes.add_ignored(&question.setting, question.rule);
        if question.setting.keys.slowdown.is_some() {
            let case = case::case(&grid.scenario, &question.setting, question.rule);
            case.iter().for_each(|case| notes.add_idle_links(&question.setting, case));
        }
    }
    Ok(notes)
}

/// Says before the questions are answered if that takes minutes, as far as samples tell.
fn foretell(grid: &Grid) -> Result<(), Error> {
    const PASSES_PER_SECOND: u64 = 10_000_000;
    let samples = grid.samples()?;
    let passes = |question: &Question<'_>| {
        let passes = 3 * u128::from(case::forwards(&question.setting, question.rule));
        let replicas = u128::from(question.setting.keys.replicas.unwrap_or(0)) + 1;
        // A search takes its time for every pass.
        let weight = if matches!(question.rule, Rule::Searched(_)) { 300 } else { 1 };
        passes * replicas * weight
    };
    let all: u128 = samples.iter().map(passes).sum();
    let all = all.saturating_mul(u128::from(grid.questions)) / (samples.len().max(1) as u128);
    let cores = std::thread::available_parallelism().map_or(1, |cores| cores.get() as u64);
    let what = format!("{} questions", grid.questions);
    progress::foretell(all, PASSES_PER_SECOND * cores, &what);
    Ok(())
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
