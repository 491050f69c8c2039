//! `debubble plan`: which set-up trains a model on which machines, how long it takes, what it
//! costs.

mod fit;
mod validate;

use std::io::Write;
use std::path::{Path, PathBuf};

use answer::plan::{Against, Planned, export, plan, tables};
use clap::Args;
use draw::pictures::plan as pictures;
use draw::text;
use measured::memory_error;
use planning::PlanFlags;
use question::Context;

use self::validate::Options;
use super::width::Pictures;
use super::{OUTPUT, Verdict, columns, note, note_all, print_json};
use crate::error::Error;
use crate::host::Host;
use crate::{files, help};

/// The least and the most columns that an answer is fitted to.
const WIDTHS: [usize; 2] = [60, 200];

const EXAMPLES: &str = "\
Examples:
  A model and a budget of tokens:
    debubble plan config.json --tokens 1e12 --batch 1024 --machine h100,b200 --devices 512,1024
  Which machines, how many and how, for GPT-3 and 300 billion tokens:
    debubble plan scenarios/plan/gpt3.toml --svg plans.svg --html plans.html
  The recommended plan, as files of its framework:
    debubble plan scenarios/plan/gpt3.toml --export winner
  One set-up, with every part of its step and its memory:
    debubble plan scenarios/plan/deepseek-v3.toml
    debubble plan scenarios/plan/llama3-405b.toml
  Two set-ups, or the recommended plans of two questions, side by side:
    debubble plan mine.toml --against other.toml
  The accuracy of predictions on published runs:
    debubble plan --validate --check
  The same with the network that nccl-tests measured:
    debubble plan config.json --tokens 1e12 --batch 1024 --machine h100 --devices 512 --network nccl.log
  A machine of your own, fitted to a few iterations measured on it:
    debubble plan --fit measured.csv --machine h100 --output own.toml

A question has a model (a config.json of Hugging Face, or a table [model]), tokens, a batch and clusters; see
scenarios/plan/. Machines are data files (scenarios/machines/); a100-80g, h100, b200, gb200, mi300x and more are
built in. Every set-up whose groups multiply to the devices is costed; set-ups that do not divide or do not fit
are left out with the reason, and the rest are replayed unless a lower bound shows that they cannot win. The
best plans then run in the event engine, on shared links and under the question's [noise]: jitter, stall,
straggler, slowdown. The recommended plan is the cheapest that meets deadline and budget with probability
`confidence`, by the ratio of published trainings to their plans; among plans within the error of prediction it
is the one that needs least. A plan may use the memory that frameworks see of a device, less its reserve and the
error of predicted memory; [search] memory-cap replaces that error. A faster set-up that may fit is listed as
well, with its odds.

A table [setup] instead of [search] asks for one set-up: its step and memory are listed part by part, on each
cluster, also if it does not fit.

`framework = \"megatron\"` or `\"torchtitan\"` limits the search to set-ups that the framework runs.

--fit takes a table with a line for each iteration: model (a config.json, relative to the table), devices,
tensor, pipeline, chunks, context, expert, microbatch, batch, sequence, precision, and step_seconds or
tokens_per_s_per_gpu. It fits three scales of the machine's efficiencies, each with a prior of 1. Each set-up is
left out once to estimate the error; the machine stays unchanged if the fit is no better on set-ups left out.

--export FOLDER writes the recommended plan, or the one set-up of the question if it may fit: megatron.sh (if
Megatron-LM has the schedule, or debubble.megatron runs its order), torchtitan.toml (0.2.x) and torchtitan.sh
(its main branch), with schedule.csv if torch has no class for the order, scenario.toml and cluster.toml (not
with two-streams), and its order if the schedule depends on times; `debubble simulate FOLDER/scenario.toml`
gives the same step. Settings of the plan that a file cannot express are a comment in the file and a note.";

/// Rank set-ups for a model, a token budget and machines with prices
#[derive(Args)]
#[command(after_long_help = help::flow(EXAMPLES))]
pub struct Plan {
    /// The question, a launch script, or a model: a config.json or the name of one; with --validate, files or folders
    /// of measurements
    #[arg(value_name = "PLAN.toml|config.json|MEASURED..")]
    paths: Vec<PathBuf>,
    #[command(flatten)]
    keys: Keys,
    /// Compare with the answer to another question, part by part: the one set-up of each, or the recommended plans
    #[arg(long, value_name = "OTHER.toml", conflicts_with_all = ["validate", "csv", "svg", "html", "export", "details"])]
    against: Option<PathBuf>,
    /// Predict every published measurement and print the error
    #[arg(long)]
    validate: bool,
    /// With --validate: end with exit code 1 if a bar is missed
    #[arg(long, requires = "validate")]
    check: bool,
    /// Fit a machine to the iterations of a table, and print the error before and after
    #[arg(long, value_name = "MEASURED.csv", conflicts_with_all = ["validate", "paths", "against"])]
    fit: Option<PathBuf>,
    /// With --fit: write the machine
    #[arg(long, help_heading = OUTPUT, value_name = "FILE.toml", requires = "fit")]
    #[arg(value_parser = files::Output)]
    output: Option<PathBuf>,
    /// Print one JSON object instead of tables
    #[arg(long, help_heading = OUTPUT)]
    json: bool,
    /// Print also each plan's time under noise and memory, the time breakdown of the plan to take,
    /// what each change would save, and why set-ups were left out
    #[arg(long, help_heading = OUTPUT, conflicts_with_all = ["validate", "json", "fit"])]
    details: bool,
    /// Write the plans, or the rows of --validate, as CSV
    #[arg(long, help_heading = OUTPUT, value_name = "FILE.csv", conflicts_with = "fit")]
    #[arg(value_parser = files::Output)]
    csv: Option<PathBuf>,
    /// Write a picture of days against dollars, with the Pareto front; with --validate of predicted
    /// against measured steps
    #[arg(long, help_heading = OUTPUT, value_name = "FILE.svg", conflicts_with = "fit")]
    #[arg(value_parser = files::Output)]
    svg: Option<PathBuf>,
    #[command(flatten)]
    drawn: Pictures,
    /// Write the whole answer as one page for a browser
    #[arg(long, help_heading = OUTPUT, value_name = "FILE.html")]
    #[arg(conflicts_with_all = ["validate", "fit"])]
    #[arg(value_parser = files::Output)]
    html: Option<PathBuf>,
    /// Write the plan to take for Megatron-LM, torchtitan and `debubble simulate`
    #[arg(long, help_heading = OUTPUT, value_name = "FOLDER")]
    #[arg(conflicts_with_all = ["validate", "fit"])]
    export: Option<PathBuf>,
}

/// Keys of the question.
#[derive(Args)]
#[command(next_help_heading = "Question")]
struct Keys {
    /// Tokens to train on, such as 1e12
    #[arg(long, value_name = "TOKENS", conflicts_with_all = ["validate", "fit"])]
    tokens: Option<f64>,
    /// Samples of a global batch
    #[arg(long, value_name = "SAMPLES", conflicts_with_all = ["validate", "fit"])]
    batch: Option<u64>,
    /// Tokens of a sample [default: the positions of the config.json, at most 4096]
    #[arg(long, value_name = "TOKENS", conflicts_with_all = ["validate", "fit"])]
    sequence: Option<u64>,
    /// Machines to choose from, by name or file; with --fit, the machine to begin with
    #[arg(long, value_name = "NAME|FILE", value_delimiter = ',', conflicts_with = "validate")]
    machine: Vec<String>,
    /// Numbers of devices to choose from, of each machine
    #[arg(long, value_name = "N", value_delimiter = ',', conflicts_with_all = ["validate", "fit"])]
    devices: Vec<u64>,
    /// The network as it was measured: the output of nccl-tests or rccl-tests, or a CSV with columns collective, ranks, nodes,
    /// bytes and busbw
    #[arg(long, value_name = "NCCL.log", conflicts_with_all = ["validate", "fit"])]
    network: Option<PathBuf>,
}

impl Keys {
    fn flags(&self) -> PlanFlags {
        PlanFlags {
            tokens: self.tokens,
            batch: self.batch,
            sequence: self.sequence,
            machines: self.machine.clone(),
            devices: self.devices.clone(),
            network: self.network.clone(),
        }
    }
}

impl Plan {
    /// Answers on `out`.
    pub fn run(self, out: &mut dyn Write) -> Result<Verdict, Error> {
        if self.validate {
            let (paths, csv) = (&self.paths[..], self.csv.as_deref());
            let svg = self.svg.as_deref();
            let (check, json, width) = (self.check, self.json, self.drawn.width);
            let options = Options { paths, check, json, csv, svg, width };
            return validate::run(&options, out);
        }
        if let Some(measured) = &self.fit {
            let machine = match &self.keys.machine[..] {
                [] => None,
                [one] => Some(&one[..]),
                _ => return Err(Error::question("--fit begins with one machine")),
            };
            let output = self.output.as_deref();
            let options = fit::Options { measured, machine, output, json: self.json };
            return fit::run(&options, out);
        }
        let [path] = &self.paths[..] else {
            let message = "a plan takes one question: name a PLAN.toml or a config.json";
            let cure =
                "such as `debubble plan scenarios/plan/gpt3.toml`; more are in the same folder";
            return Err(Error::question(message).with_help(cure));
        };
        let host = Host::listening();
        let context = Context::new(&host);
        let flags = self.keys.flags();
        let ask = |path: &Path| {
            let question = imports::question(&context, path, memory_error()?, &flags);
            question.and_then(|question| plan(&context, question))
        };
        let planned = ask(path);
        if let (Ok(_), Some(other)) = (&planned, &self.against) {
            let other = ask(other);
            note_all(&context);
            let (planned, other) = (planned?, other?);
            return self.print_both(&Against::of(&planned, &other)?, out);
        }
        note_all(&context);
        let planned = planned?;
        if planned.interrupted {
            note("interrupted: the best of the set-ups and levers that had been looked at");
        }
        self.write(&planned)?;
        match self.json {
            true => print_json(out, &planned)?,
            false => {
                let [least, most] = WIDTHS;
                let width = columns().map_or(text::COLUMNS, |width| width.clamp(least, most));
                write!(out, "{}", text::plan(&planned, self.details, width))?;
            }
        }
        Ok(Verdict::Done)
    }

    /// Prints two answers side by side.
    fn print_both(&self, both: &Against<'_>, out: &mut dyn Write) -> Result<Verdict, Error> {
        if both.sides.iter().any(|planned| planned.interrupted) {
            note("interrupted: the best of the set-ups that had been looked at");
        }
        match self.json {
            true => print_json(out, both)?,
            false => write!(out, "{}", text::against(both))?,
        }
        Ok(Verdict::Done)
    }

    /// The files that were asked for.
    fn write(&self, planned: &Planned) -> Result<(), Error> {
        let Planned { question, answer, .. } = planned;
        if let Some(path) = &self.csv {
            files::write(path, tables::csv(question, answer)?)?;
        }
        if let Some(path) = &self.svg {
            files::write(path, pictures::svg(question, answer, self.drawn.width)?)?;
        }
        if let Some(path) = &self.html {
            files::write(path, pictures::html(planned)?)?;
        }
        if let Some(folder) = &self.export {
            let exported = export::exported(planned)?;
            files::make_folder(folder)?;
            for (name, content) in exported.files {
                files::write(&folder.join(name), content)?;
            }
            exported.notes.iter().for_each(|line| note(line));
        }
        Ok(())
    }
}
