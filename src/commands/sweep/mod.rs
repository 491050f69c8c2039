//! `debubble sweep`: a grid of questions, in parallel, resumable, in parts.

pub(crate) mod merge;
mod run;
mod slurm;

use std::io::Write;
use std::path::{Path, PathBuf};

use answer::sweep as answers;
use clap::Args;
use draw::Width;
use draw::pictures::sweep::{self as pictures, Kind};
use question::keys::Keys;
use question::sweep::grid::Grid;
use question::sweep::shard::Shard;
use question::{Context, Diagnostic, quote};

use super::width::Pictures;
use super::{OUTPUT, note, note_all};
use crate::error::Error;
use crate::host::Host;
use crate::sweep::parquet;
use crate::{files, help, interrupt};

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
and noise_free_* next to them; distributions such as span_ns_p95 with --replicas; step_ns, the busiest
wire and the fullest device with a cluster or other hardware keys. Columns that no question of the
sweep asks for are left out; a field without a value is empty, in Parquet null.

Examples:
  The whole of figure 9, then the same on any number of machines:
    debubble sweep scenarios/paper/fig9-sweep.toml --out fig9.csv --plot fig9.svg
    debubble sweep scenarios/paper/fig9-sweep.toml --out part1.csv --shard 1/2
    debubble sweep scenarios/paper/fig9-sweep.toml --out part2.csv --shard 2/2
    debubble sweep --merge part1.csv part2.csv --out fig9.csv
  A picture alone, of lines or heat maps:
    debubble sweep grid.toml --svg grid.svg
  As Parquet, with a picture of what memory buys:
    debubble sweep grid.toml --out grid.parquet --plot-pareto pareto.svg
  In 100 SLURM jobs and one to merge:
    debubble sweep grid.toml --out grid.csv --slurm 100 > grid.sh && sbatch grid.sh

Progress is kept in FILE.partial: run the same command again to resume a sweep that was killed; its file has the
same bytes as one from a single run. Only one process may write a file at a time.";

/// Answer a grid of questions: in parallel, resumable, in parts
#[derive(Args)]
#[command(after_long_help = help::flow(EXAMPLES))]
pub struct Sweep {
    /// Scenario file with a table `[sweep]` of axes; flags override it
    #[arg(value_name = "SCENARIO.toml", required_unless_present = "merge")]
    scenario: Option<PathBuf>,
    /// Where the rows go, one per question: CSV, or Parquet if the name ends in .parquet; with --svg they need
    /// not go anywhere
    #[arg(long, help_heading = OUTPUT, value_name = "FILE", required_unless_present = "svg")]
    #[arg(value_parser = files::Output)]
    out: Option<PathBuf>,
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
    /// Draw the bubble as the axes suggest: lines over one axis, heat maps over two or more, and against the peak
    /// memory where no axis has numbers
    #[arg(long, help_heading = OUTPUT, value_name = "FILE.svg")]
    #[arg(conflicts_with_all = ["shard", "merge", "slurm"])]
    #[arg(value_parser = files::Output)]
    svg: Option<PathBuf>,
    /// Draw the bubble over an axis: a line per schedule, a panel for each setting and value of the
    /// other axes
    #[arg(long, help_heading = OUTPUT, value_name = "FILE.svg")]
    #[arg(conflicts_with_all = ["shard", "merge", "slurm"])]
    #[arg(value_parser = files::Output)]
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
    #[arg(value_parser = files::Output)]
    plot_pareto: Option<PathBuf>,
    #[command(flatten)]
    drawn: Pictures,
    #[command(flatten)]
    keys: Keys,
}

impl Sweep {
    /// Answers into files; only a script goes to `out`.
    pub fn run(self, out: &mut dyn Write) -> Result<(), Error> {
        let file = self.rows();
        parquet::check(&file)?;
        let Some(scenario) = &self.scenario else {
            let shards = merge::merge(&self.merge, &file)?;
            note(&format!("{shards} shards are in {}", file.display()));
            return Ok(());
        };
        let host = Host::default();
        let context = Context::new(&host);
        let grid = Grid::read(&context, scenario, &self.keys);
        note_all(&context);
        let grid = grid?;
        if let Some(count) = self.slurm {
            let program = std::env::current_exe()?;
            let script = slurm::script(&program, &words(), &file, count);
            return Ok(out.write_all(script.as_bytes())?);
        }
        if self.shard.is_some() && parquet::is_named(&file) {
            let message = "a shard is CSV, whatever its name: merging shards writes Parquet";
            let cure = "name it .csv, and give the name that ends in .parquet to --merge";
            return Err(Error::question(message).with_help(cure));
        }
        let keys = pictures::axes_of_maps(&grid);
        let pictures = self.pictures(&grid, &keys);
        pictures::check(&grid, pictures.iter().map(|picture| &picture.kind))?;
        answers::warn(&context, &grid)?;
        note_all(&context);
        answers::check_answers(&context, &grid)?;
        answers::announce(&context, &grid)?;
        let answered = run::answer(&context, &grid, self.shard, &file)?;
        if interrupt::cut_short() {
            let (done, all) = (answered.journal.rows, answered.range.end - answered.range.start);
            let out = quote::path(&file);
            note(&format!(
                "interrupted: {done} of {all} questions are in {out}.partial; the same command goes on \
                 from there"
            ));
            return Ok(());
        }
        if let Some(out) = &self.out {
            answered.publish(out)?;
        }
        let drawn = pictures
            .iter()
            .try_for_each(|one| draw(&context, &grid, one, &answered, self.drawn.width));
        let (count, all) = (answered.range.end - answered.range.start, grid.questions);
        answered.journal.end()?;
        drawn?;
        let shown = self.out.as_ref().or(self.svg.as_ref()).unwrap_or(&file);
        note(&format!("{count} of {all} questions are in {}", shown.display()));
        Ok(())
    }

    /// The file of the rows; where they go nowhere, a name beside the picture, for the journal.
    fn rows(&self) -> PathBuf {
        self.out.clone().unwrap_or_else(|| {
            let mut name = self.svg.clone().unwrap_or_default().into_os_string();
            name.push(".rows");
            name.into()
        })
    }

    /// The pictures that are asked for; `keys` are the two axes of heat maps, where `grid` has them.
    fn pictures<'a>(&'a self, grid: &Grid, keys: &'a [String]) -> Vec<Picture<'a>> {
        let any = self.svg.iter().map(|path| Picture { path, kind: Kind::suited(grid, keys) });
        let plot = self.plot.iter().map(|path| match &self.plot_map[..] {
            [] => Picture { path, kind: Kind::Lines { over: self.plot_over.as_deref() } },
            keys => Picture { path, kind: Kind::Maps { keys } },
        });
        let pareto = self.plot_pareto.iter().map(|path| Picture { path, kind: Kind::Pareto });
        any.chain(plot).chain(pareto).collect()
    }
}

/// A picture that is asked for.
struct Picture<'a> {
    path: &'a Path,
    kind: Kind<'a>,
}

/// Draws `picture` of the rows that are `answered` in that `width`.
fn draw(
    context: &Context<'_>,
    grid: &Grid,
    picture: &Picture<'_>,
    answered: &run::Answered,
    width: Option<Width>,
) -> Result<(), Error> {
    let unreadable = |cause: std::io::Error| {
        Diagnostic::unreadable(picture.path, &format!("the rows for it are lost: {cause}"))
    };
    let rows = answered.csv().map_err(unreadable)?;
    files::write(picture.path, pictures::draw(context, grid, &picture.kind, rows, width)?)
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
