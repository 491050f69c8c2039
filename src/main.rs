//! debubble: which pipeline-parallel schedule wins for a model, its memory and its links, and how
//! much of the step is bubble.
#![allow(unreachable_pub)]
// A binary exports nothing.
// Files, clocks, the terminal and the end of the process are what a command line is for.
#![allow(clippy::disallowed_methods, clippy::exit)]

mod commands;
mod devices;
mod error;
mod few;
mod files;
// Its watcher reads /proc, and some of its inputs are Parquet.
#[cfg(test)]
#[cfg(all(unix, feature = "parquet"))]
#[path = "../tests/fuzzer/mod.rs"]
mod fuzz;
mod help;
mod host;
mod interrupt;
mod messages;
mod progress;
#[cfg(test)]
#[path = "../tests/reference/mod.rs"]
mod reference;
mod sweep;
mod usage;

use std::io::{BufWriter, Write, stdout};
use std::process::ExitCode;

use clap::{CommandFactory, FromArgMatches, Parser, Subcommand};
use clap_complete::Shell;
use executor::Backend;

use crate::commands::Verdict;
use crate::commands::advise::Advise;
use crate::commands::calibrate::Calibrate;
use crate::commands::compare::Compare;
use crate::commands::encoder::Encoder;
use crate::commands::execute::Execute;
use crate::commands::export::Export;
use crate::commands::failures::Failures;
use crate::commands::fsdp::Fsdp;
use crate::commands::import::Import;
use crate::commands::man::Man;
use crate::commands::plan::Plan;
use crate::commands::profile::Profile;
use crate::commands::records::Records;
use crate::commands::replay::Replay;
use crate::commands::reproduce::Reproduce;
use crate::commands::rl::Rl;
use crate::commands::schedules::Schedules;
use crate::commands::schema::Schema;
use crate::commands::search::Search;
use crate::commands::simulate::Simulate;
use crate::commands::sweep::Sweep;
use crate::commands::verify::Verify;
use crate::error::Error;

const ABOUT: &str = "\
Which pipeline-parallel schedule wins for a model, its memory and its links, and how much of the \
step is bubble.";

const EXAMPLES: &str = "\
A first question:
  debubble simulate --schedule 1f1b,zb-h1,zb-2p --stages 8 --microbatches 24 \\
    --forward 29.718ms --backward-input 29.444ms --backward-weight 19.927ms --hop 527us \\
    --hidden 4096 --heads 32 --seq 1024

Exit codes: 0 done, 1 a check failed, 2 bad input, 130 cut short by Ctrl-C: what there was by then is
printed. With --json everything on stderr is JSON, too, a line each: error, note or progress.

Times carry units (500us, 500µs, 1e-3s), and so do sizes (38GiB, 40gb), small or capital.";

#[derive(Parser)]
#[command(name = "debubble", version = env!("DEBUBBLE_VERSION"), about = ABOUT, after_help = help::flow(EXAMPLES))]
struct Cli {
    #[command(subcommand)]
    command: Command,
}

#[derive(Subcommand)]
enum Command {
    Simulate(Box<Simulate>),
    Sweep(Box<Sweep>),
    Search(Box<Search>),
    Schedules(Schedules),
    Reproduce(Reproduce),
    Calibrate(Calibrate),
    Profile(Profile),
    Export(Box<Export>),
    Replay(Replay),
    Execute(Box<Execute>),
    Compare(Compare),
    Fsdp(Box<Fsdp>),
    Rl(Box<Rl>),
    Failures(Box<Failures>),
    Encoder(Box<Encoder>),
    Plan(Box<Plan>),
    Import(Import),
    Advise(Advise),
    Verify(Verify),
    Records(Records),
    Schema(Schema),
    Man(Man),
    /// Print completions for a shell, to be sourced by it
    Completions {
        /// Which shell
        shell: Shell,
    },
}

fn main() -> ExitCode {
    launches::stand_in();
    let mut flags = few::few(Cli::command());
    let matches = flags.try_get_matches_from_mut(std::env::args_os());
    let read = |matches| Cli::from_arg_matches(&matches).map_err(|error| error.format(&mut flags));
    let command = match matches.and_then(read) {
        Ok(cli) => cli.command,
        Err(error) => return usage::end(error),
    };
    if let Some(backend) = command.backend() {
        devices::begin_with_environment(backend);
    }
    limit_threads();
    progress::watch();
    let mut out = BufWriter::new(stdout().lock());
    let verdict = run(command, &mut out).and_then(|verdict| {
        out.flush()?;
        Ok(verdict)
    });
    match verdict {
        Err(error) if error.is_closed_output() => ExitCode::SUCCESS,
        Err(error) => {
            messages::error(&error);
            ExitCode::from(if interrupt::cut_short() { interrupt::ENDED } else { 2 })
        }
        Ok(_) if interrupt::cut_short() => ExitCode::from(interrupt::ENDED),
        Ok(Verdict::Done) => ExitCode::SUCCESS,
        Ok(Verdict::Missed) => ExitCode::from(1),
    }
}

/// Starts fewer threads than the environment asks for, where it asks for more than any machine gains by.
fn limit_threads() {
    let Some([asked, most]) = native::threads::too_many() else { return };
    // It fails where threads run already, and none does yet.
    if rayon::ThreadPoolBuilder::new().num_threads(most).build_global().is_ok() {
        messages::note(&format!("{} is {asked}: {most} are started", native::threads::VARIABLE));
    }
}

impl Command {
    /// The kind of device that it uses, if it uses any.
    fn backend(&self) -> Option<Backend> {
        match self {
            Self::Execute(execute) => Some(execute.backend()),
            Self::Calibrate(calibrate) => Some(calibrate.backend()),
            _ => None,
        }
    }
}

fn run(command: Command, out: &mut dyn Write) -> Result<Verdict, Error> {
    match command {
        Command::Simulate(simulate) => return simulate.run(out),
        Command::Sweep(sweep) => sweep.run(out)?,
        Command::Search(search) => search.run(out)?,
        Command::Schedules(schedules) => schedules.run(out)?,
        Command::Reproduce(reproduce) => return reproduce.run(out),
        Command::Calibrate(calibrate) => calibrate.run(out)?,
        Command::Profile(profile) => profile.run(out)?,
        Command::Export(export) => export.run(out)?,
        Command::Replay(replay) => replay.run(out)?,
        Command::Execute(execute) => return execute.run(out),
        Command::Compare(compare) => return compare.run(out),
        Command::Fsdp(fsdp) => return fsdp.run(out),
        Command::Rl(rl) => return rl.run(out),
        Command::Failures(failures) => return failures.run(out),
        Command::Encoder(encoder) => return encoder.run(out),
        Command::Plan(plan) => return plan.run(out),
        Command::Import(import) => import.run(out)?,
        Command::Advise(advise) => return advise.run(out),
        Command::Verify(verify) => return verify.run(out),
        Command::Records(records) => return records.run(out),
        Command::Schema(schema) => schema.run(out)?,
        Command::Man(man) => man.run(out, Cli::command())?,
        Command::Completions { shell } => {
            let mut script = Vec::new();
            clap_complete::generate(shell, &mut few::few(Cli::command()), "debubble", &mut script);
            out.write_all(&script)?;
        }
    }
    Ok(Verdict::Done)
}
