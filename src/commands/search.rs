//! `debubble search`: the best order of passes that is found, and how far any order can be from it.

use std::io::Write;
use std::path::PathBuf;

use answer::export::order_in;
use answer::search::{SearchRow, certificate, program, scenario, search, settings};
use clap::Args;
use draw::pictures::search as pictures;
use question::Context;
use question::search::SearchKeys;

use super::width::Pictures;
use super::{Asked, OUTPUT, note, note_all, print_json, print_sheet};
use crate::error::Error;
use crate::host::Host;
use crate::{files, help};

const EXAMPLES: &str = "\
Examples:
  The best schedule for a question, next to the published heuristic and a lower bound:
    debubble search --stages 8 --microbatches 32 --memory-limit 2p \\
      --forward 18.513ms --backward-input 18.086ms --backward-weight 9.331ms --hop 626us \\
      --hidden 2304 --heads 24 --seq 1024 --certificate best.toml
  In a V, for a minute:
    debubble search scenarios/paper/table8.toml --chunks 2 --memory-limit 1p --time-limit 60s
  How much bubble less memory costs:
    debubble search --stages 8 --microbatches 32 --memory-limits 0.5p,0.75p,1p,1.5p,2p \\
      --forward 18.513ms --backward-input 18.086ms --backward-weight 9.331ms --hop 626us \\
      --hidden 2304 --heads 24 --seq 1024 --pareto front.svg --csv front.csv

  The order with the shortest mean step, with random pass times and a slow stage:
    debubble search --stages 8 --microbatches 24 --memory-limit 1p --objective mean \\
      --forward 18.513ms --backward-input 18.086ms --backward-weight 9.331ms --hop 626us \\
      --jitter pass=lognormal:0.1 --slowdown stage:3=1.2 --seed 1 --export robust.txt

  The order with the shortest steps on a cluster whose stages share links, over several steps:
    debubble search --stages 16 --microbatches 32 --memory-limit 1p --objective step \\
      --forward 10.408ms --backward-input 10.204ms --backward-weight 7.703ms \\
      --hidden 6144 --heads 48 --seq 1024 --layers-per-stage 2 --microbatch-size 1 \\
      --cluster a100-pcie --seating across-nodes --steps 3 --boundary asynchronous --export best.txt

  Layers, chunks, placement, recomputation and host copies together with the order, in 20 GB and in 40 GB:
    debubble search --stages 4 --microbatches 16 --layers 30 --vary all --memory-limits 20GB,40GB \\
      --chain layer=3ms/3.2ms/2.8ms --chain-tail head=4ms/4ms/3ms --hop 300us \\
      --activation 6GB --activation-until-weight 3GB --activation-kept 400MB --host-bandwidth 50GB/s

  A small pipeline solved with a certificate, and its integer program for another solver:
    debubble search --stages 4 --microbatches 6 --memory-limit 0.7p --ilp --certificate proof.toml \\
      --forward 10ms --backward-input 11ms --backward-weight 7ms --hop 1ms \\
      --write-lp order.lp --write-mps order.mps
    debubble verify proof.toml
  More time for its order and its bound:
    debubble search --stages 4 --microbatches 6 --memory-limit 0.7p --warm-start proof.toml --certificate more.toml \\
      --forward 10ms --backward-input 11ms --backward-weight 7ms --hop 1ms --ilp --time-limit 10min

The result is never worse than any published schedule of these chunks that fits. The search ends early when the
cost meets the lower bound: the order is then optimal among those of the chunks and placement asked for. Where a
published schedule of others fits and is shorter, the first line says so; if neither --chunks, --placement nor
--time-limit is given, a search finds the best order there, too. The same question, effort and seed give the same
schedule on any number of threads; under --time-limit this holds unless the clock cut the search short, which a note says. Each chunk
keeps its passes of one kind in microbatch order, which loses nothing. Ctrl-C ends the search with the best
order so far; a second Ctrl-C ends the program.

--ilp solves the published integer program: a binary for each pair of passes of a stage whose order is open, end
times, and memory along the order. Branch and bound over the binaries starts from the best order of the search;
a bound that it proves has the argument `branching`, and the certificate holds the log of the branches. Small
pipelines are solved to optimality, the same on every run; if --time-limit comes first, the bound is the best
one proved by then. --write-lp and --write-mps write the program in CPLEX LP and free MPS, with the cost of the
best order as an upper limit; they do not need --ilp.

Under --objective mean, p95 or p99 the search starts from the best nominal order. Other orders are proposed and
changed, and all are timed in the same replicas of the noise. The result is validated in replicas that no search
has seen, those of `debubble simulate` with the same keys; --replicas sets their number [default: 1000]. It is
the answer if it is better than the nominal order with 95 % confidence; otherwise the nominal order is. cost,
bubble, bound and gap in the first table are without noise.

With --cluster, --steps, --boundary and the like the event engine times each order, as in `debubble simulate`.
The search first runs without shared links, with the hops of an idle network and then with those of the best
run; the engine itself then searches from the best of these orders and of the published schedules. On the
hardware the answer is never worse than any of them. --objective step is the time per step, with everything
between two steps.

--vary names the choices that are searched together with the order: layers of each chunk, chunks per stage and
their placement, recomputation of each chunk, chunks that are offloaded to the host between F and B, and whether
F and B overlap as pairs on two streams; `all` is every choice for which the question has the keys. A single
value for all stages is divided among chunks by layers; --chain-head, --chain-tail and --chain-mtp give the work
of the ends of the model. Offload needs --host-bandwidth, --offload-time or --offload-ratio; the simulator then
gives the time and memory of an order, as `debubble simulate` does. Pairs need a --chain that communicates;
orders of pairs do not recompute. The memory limit then covers activations and --resident-layer, --resident-head
and --resident-tail. Choices are ranked by orders that are found quickly; the best choices, and the question
without --vary, are then searched in full, so the answer is never worse than without --vary. The answer lists
every published schedule that fits, with the best settings tried for it.";

/// Search the best schedule under a memory limit, with its gap to a lower bound
#[derive(Args)]
#[command(after_long_help = help::flow(EXAMPLES))]
pub struct Search {
    #[command(flatten)]
    asked: Asked,
    #[command(flatten)]
    keys: SearchKeys,
    /// Write a certificate for `debubble verify`; one search only
    #[arg(long, help_heading = OUTPUT, value_name = "FILE.toml")]
    #[arg(value_parser = files::Output)]
    certificate: Option<PathBuf>,
    /// Write the order as text, for torch (.csv) or for Primus (.json), by how the name ends; one search only
    #[arg(long, help_heading = OUTPUT, value_name = "FILE.txt|.csv|.json")]
    #[arg(value_parser = files::Output)]
    export: Option<PathBuf>,
    /// Write the question with the choices of --vary, for `debubble simulate`, together with the schedule; one search
    /// only
    #[arg(long, help_heading = OUTPUT, value_name = "FILE.toml", requires = "vary")]
    #[arg(value_parser = files::Output)]
    export_scenario: Option<PathBuf>,
    /// Write the order as an integer program in CPLEX LP format; one search only
    #[arg(long, help_heading = OUTPUT, value_name = "FILE.lp")]
    #[arg(value_parser = files::Output)]
    write_lp: Option<PathBuf>,
    /// Write the order as an integer program in free MPS format; one search only
    #[arg(long, help_heading = OUTPUT, value_name = "FILE.mps")]
    #[arg(value_parser = files::Output)]
    write_mps: Option<PathBuf>,
    /// Write a picture of the timelines, on one time axis
    #[arg(long, help_heading = OUTPUT, value_name = "FILE.svg")]
    #[arg(value_parser = files::Output)]
    svg: Option<PathBuf>,
    #[command(flatten)]
    drawn: Pictures,
    /// Write a picture of the bubble against peak memory
    #[arg(long, help_heading = OUTPUT, value_name = "FILE.svg")]
    #[arg(value_parser = files::Output)]
    pareto: Option<PathBuf>,
    /// Write the table as CSV
    #[arg(long, help_heading = OUTPUT, value_name = "FILE.csv")]
    #[arg(value_parser = files::Output)]
    csv: Option<PathBuf>,
    /// Print one JSON object instead of a table
    #[arg(long, help_heading = OUTPUT)]
    json: bool,
}

impl Search {
    /// Answers on `out`.
    pub fn run(self, out: &mut dyn Write) -> Result<(), Error> {
        let host = Host::listening();
        let context = Context::new(&host);
        answer::search::check_program(&self.keys)?;
        let scenario = self.asked.read(&context)?;
        answer::search::check(&scenario, &self.keys)?;
        let count = settings(&scenario, &self.keys).len();
        let single = [
            ("--certificate", &self.certificate),
            ("--export", &self.export),
            ("--export-scenario", &self.export_scenario),
            ("--write-lp", &self.write_lp),
            ("--write-mps", &self.write_mps),
        ];
        let asked = single.into_iter().find(|(_, path)| path.is_some());
        let proves = |flag: &str| !flag.starts_with("--export");
        let proofs = single.into_iter().find(|(flag, path)| proves(flag) && path.is_some());
        if let Some((flag, _)) = proofs {
            answer::search::check_provable(&scenario, &self.keys, flag)?;
        }
        if let Some((flag, _)) = asked.filter(|_| count != 1) {
            let message = format!("{flag} takes one search, but there are {count}");
            return Err(Error::question(message));
        }
        let answer = search(&context, &scenario, &self.keys);
        note_all(&context);
        let answer = answer?;
        if answer.interrupted {
            note("interrupted: the best so far, where a search had begun, else the best published");
        }
        self.write_files(scenario.title.as_deref(), &answer.rows)?;
        if let Some(path) = &self.csv {
            files::write(path, answer.csv()?)?;
        }
        if let Some(path) = &self.pareto {
            let title = scenario.title.as_deref();
            files::write(path, pictures::svg_with(title, &answer.rows, self.drawn.width)?)?;
        }
        match self.json {
            true => print_json(out, &answer)?,
            false => print_sheet(out, &answer.sheet())?,
        }
        self.write_order(&context, &answer.rows)
    }

    /// Writes the order, when the answer is printed: a trainer may not run it.
    fn write_order(&self, context: &Context<'_>, rows: &[SearchRow]) -> Result<(), Error> {
        let (Some(path), [row]) = (&self.export, rows) else { return Ok(()) };
        let order = order_in(context, path, "the order", &row.searched.found.schedule);
        note_all(context);
        files::write(path, order?)
    }

    /// Writes the integer program of `row` where that is asked for.
    fn write_program(&self, row: &SearchRow) -> Result<(), Error> {
        if self.write_lp.is_none() && self.write_mps.is_none() {
            return Ok(());
        }
        let program = program(&row.searched)?;
        if let Some(path) = &self.write_lp {
            files::write(path, program.lp())?;
        }
        match &self.write_mps {
            Some(path) => files::write(path, program.mps()),
            None => Ok(()),
        }
    }

    /// Writes the files of the searches.
    fn write_files(&self, title: Option<&str>, rows: &[SearchRow]) -> Result<(), Error> {
        if let (Some(path), [row]) = (&self.export_scenario, rows) {
            files::write(path, scenario(row)?)?;
        }
        if let (Some(path), [row]) = (&self.certificate, rows) {
            files::write(path, certificate(row)?)?;
        }
        if let [row] = rows {
            self.write_program(row)?;
        }
        match &self.svg {
            Some(path) => files::write(path, pictures::timelines(title, rows, self.drawn.width)?),
            None => Ok(()),
        }
    }
}
