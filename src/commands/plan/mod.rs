//! `debubble plan`: which set-up trains a model on which machines, how long it takes, what it
//! costs.

mod validate;

use std::io::Write;
use std::path::PathBuf;

use answer::plan::{Planned, export, plan, tables};
use clap::Args;
use draw::pictures::plan as pictures;
use draw::text;
use papers::measured::memory_error;
use question::Context;

use self::validate::Options;
use super::{OUTPUT, Verdict, note, note_all, print_json};
use crate::error::Error;
use crate::host::Host;
use crate::{files, help};

const EXAMPLES: &str = "\
Examples:
  Which machines, how many and how, for GPT-3 and 300 billion tokens:
    debubble plan scenarios/plan/gpt3.toml --svg plans.svg --html plans.html
  The cheapest plan, for those who run it:
    debubble plan scenarios/plan/gpt3.toml --export winner
  What predictions are worth:
    debubble plan --validate --check

A question has a model (a config.json of Hugging Face, or a table [model]), tokens, a batch and
clusters; see scenarios/plan/. Machines are data files (scenarios/machines/); such as a100-80g, h100,
b200, gb200 and mi300x are built in. Every set-up whose groups multiply to the devices is costed; those that do not divide or do
not fit are left out with the reason, the rest is replayed as long as it could beat the best. The
plans told are run by the event engine, on shared wires and under the question's [noise]: jitter,
stall, straggler, slowdown. The plan to take is the cheapest that meets the deadline or, of those that
its error bar does not tell from it, the one with most room. A plan may use what frameworks see of a
device, less its reserve and the error of predicted memory; [search] memory-cap allows less.

`framework = \"megatron\"` or `\"torchtitan\"` keeps to what that framework runs.

--export FOLDER writes megatron.sh, torchtitan.toml (0.2.x) and torchtitan.sh (its main branch), with
schedule.csv where the order is no class of torch, scenario.toml and cluster.toml of the plan to take,
and its order where the schedule depends on times; `debubble simulate FOLDER/scenario.toml` gives the
same step.";

/// Rank set-ups for a model, a token budget and machines with prices
#[derive(Args)]
#[command(after_long_help = help::flow(EXAMPLES))]
pub struct Plan {
    /// The question; with --validate, files or folders of measurements
    #[arg(value_name = "PLAN.toml|MEASURED..")]
    paths: Vec<PathBuf>,
    /// Predict every published measurement and print how far off
    #[arg(long)]
    validate: bool,
    /// With --validate: end with exit code 1 if a bar is missed
    #[arg(long, requires = "validate")]
    check: bool,
    /// Print one JSON object instead of tables
    #[arg(long, help_heading = OUTPUT)]
    json: bool,
    /// Print also each plan's time under noise and memory, the time breakdown of the plan to take,
    /// what each change would save, and why set-ups were left out
    #[arg(long, help_heading = OUTPUT, conflicts_with_all = ["validate", "json"])]
    details: bool,
    /// Write the plans, or the rows of --validate, as CSV
    #[arg(long, help_heading = OUTPUT, value_name = "FILE.csv")]
    #[arg(value_parser = files::output)]
    csv: Option<PathBuf>,
    /// Write a picture of days against dollars, with the Pareto front
    #[arg(long, help_heading = OUTPUT, value_name = "FILE.svg", conflicts_with = "validate")]
    #[arg(value_parser = files::output)]
    svg: Option<PathBuf>,
    /// Write all of it as one page for a browser
    #[arg(long, help_heading = OUTPUT, value_name = "FILE.html", conflicts_with = "validate")]
    #[arg(value_parser = files::output)]
    html: Option<PathBuf>,
    /// Write the plan to take for Megatron-LM, torchtitan and `debubble simulate`
    #[arg(long, help_heading = OUTPUT, value_name = "FOLDER", conflicts_with = "validate")]
    export: Option<PathBuf>,
}

impl Plan {
    /// Answers on `out`.
    pub fn run(self, out: &mut dyn Write) -> Result<Verdict, Error> {
        if self.validate {
            let (paths, csv) = (&self.paths[..], self.csv.as_deref());
            let options = Options { paths, check: self.check, json: self.json, csv };
            return validate::run(&options, out);
        }
        let [path] = &self.paths[..] else {
            let message = "a plan takes one question: name a PLAN.toml";
            let cure = "such as `debubble plan scenarios/plan/gpt3.toml`; others are beside it";
            return Err(Error::question(message).with_help(cure));
        };
        let host = Host::listening();
        let context = Context::new(&host);
        let question = question::plan::read(&context, path, memory_error()?);
        let planned = question.and_then(|question| plan(&context, question));
        note_all(&context);
        let planned = planned?;
        if planned.interrupted {
            note("interrupted: the best of the set-ups and levers that had been looked at");
        }
        self.write(&planned)?;
        match self.json {
            true => print_json(out, &planned)?,
            false => write!(out, "{}", text::plan(&planned, self.details))?,
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
            files::write(path, pictures::svg(question, answer)?)?;
        }
        if let Some(path) = &self.html {
            files::write(path, pictures::html(planned)?)?;
        }
        if let (Some(folder), Some(winner)) = (&self.export, planned.winner()) {
            files::make_folder(folder)?;
            for (name, content) in export::files(question, winner) {
                files::write(&folder.join(name), content)?;
            }
        }
        Ok(())
    }
}
