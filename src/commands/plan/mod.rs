//! `debubble plan`: which set-up trains a model on which machines, how long it takes, what it
//! costs.

mod answer;
mod assumptions;
mod config;
mod export;
mod levers;
pub(crate) mod machines;
pub(crate) mod question;
mod report;
mod sheet;
mod tables;
mod text;
mod torch;
mod validate;

use std::io::Write;
use std::path::PathBuf;

use clap::Args;
use plan::Orders;
use serde::Serialize;

use self::answer::{Answer, Part};
use self::levers::Lever;
use self::question::Question;
use self::torch::TorchOrder;
use self::validate::Options;
use self::validate::error_bar::ErrorBar;
use super::{OUTPUT, Verdict, note, print_json};
use crate::error::Error;
use crate::{files, help, interrupt};

const EXAMPLES: &str = "\
Examples:
  Which machines, how many and how, for GPT-3 and 300 billion tokens:
    debubble plan scenarios/plan/gpt3.toml --svg plans.svg --html plans.html
  The cheapest plan, for those who run it:
    debubble plan scenarios/plan/gpt3.toml --export winner
  What predictions are worth:
    debubble plan --validate --check

A question has a model (a config.json of Hugging Face, or a table [model]), tokens, a batch and
clusters; see scenarios/plan/. Machines are data files (scenarios/machines/): a100-80g, h100, h200 are
built in. Every set-up whose groups multiply to the devices is costed; those that do not divide or do
not fit are left out with the reason, the rest is replayed as long as it could beat the best. The
plans told are run by the event engine, on shared wires and under the question's [noise]: jitter,
stall, straggler, slowdown. The plan to take is the cheapest that meets the deadline or, of those that
its error bar does not tell from it, the one with most room. A plan may use what frameworks see of a
device, less its reserve and the error of predicted memory; [search] memory-cap allows less.

`framework = \"megatron\"` or `\"torchtitan\"` keeps to what that framework runs.

--export FOLDER writes megatron.sh, torchtitan.toml (with schedule.csv where the order is no class of
torch), scenario.toml and cluster.toml of the plan to take, and its order where the schedule depends
on times; `debubble simulate FOLDER/scenario.toml` gives the same step.";

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

/// The answer for machines.
#[derive(Serialize)]
struct Json<'a> {
    /// All parameters of the model, and those that a token meets.
    parameters_total: u64,
    parameters_active: u64,
    /// What was assumed where the model was read.
    model_assumed: &'a [String],
    plans: Vec<tables::Row>,
    /// The plan to take, by its place among the plans.
    winner: Option<usize>,
    /// Where a step of the plan to take goes, on the stage that works longest.
    time_breakdown: Vec<Part>,
    levers: Vec<LeverJson<'a>>,
    searched: Vec<SearchedJson<'a>>,
    /// How far steps of each kind among the plans may be off.
    errors: &'a [ErrorBar],
    /// What the plans leave out, a sentence each.
    assumptions: Vec<&'static str>,
    /// Absent unless a Ctrl-C cut the answer short.
    #[serde(skip_serializing_if = "Option::is_none")]
    interrupted: Option<bool>,
}

#[derive(Serialize)]
struct LeverJson<'a> {
    name: &'a str,
    step_ns: u64,
    dollars_saved: f64,
}

#[derive(Serialize)]
struct SearchedJson<'a> {
    machine: String,
    devices: u64,
    setups: usize,
    simulated: u64,
    left_out: &'a std::collections::BTreeMap<String, u64>,
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
        let question = question::read(path)?;
        interrupt::listen();
        let orders = Orders::default();
        let answer = question.answer(&orders)?;
        let levers = question
            .winner(&answer.plans)
            .map_or_else(Vec::new, |winner| levers::levers(&question, winner, &orders));
        if interrupt::cut_short() {
            note("interrupted: the best of the set-ups and levers that had been looked at");
        }
        self.write(&question, &answer, &levers)?;
        if self.json {
            print_json(out, &json(&question, &answer, &levers))?;
        } else {
            text::print(out, &question, &answer, &levers, self.details)?;
        }
        Ok(Verdict::Done)
    }

    /// The files that were asked for.
    fn write(&self, question: &Question, answer: &Answer, levers: &[Lever]) -> Result<(), Error> {
        if let Some(path) = &self.csv {
            files::write(path, tables::csv(question, answer)?)?;
        }
        if let Some(path) = &self.svg {
            files::write(path, report::svg(question, answer)?)?;
        }
        if let Some(path) = &self.html {
            files::write(path, report::html(question, answer, levers)?)?;
        }
        if let (Some(folder), Some(winner)) = (&self.export, question.winner(&answer.plans)) {
            files::make_folder(folder)?;
            files::write(&folder.join("scenario.toml"), export::scenario(question, winner))?;
            files::write(&folder.join("cluster.toml"), export::cluster(question, winner))?;
            if let Some(name) = export::order_file(winner) {
                files::write(&folder.join(name), winner.finalist.schedule().to_string())?;
            }
            files::write(&folder.join("megatron.sh"), export::megatron(question, winner))?;
            files::write(&folder.join("torchtitan.toml"), export::torchtitan(question, winner))?;
            if let TorchOrder::File { csv, .. } = TorchOrder::of(winner) {
                files::write(&folder.join(export::SCHEDULE_CSV), csv)?;
            }
        }
        Ok(())
    }
}

fn json<'a>(question: &'a Question, answer: &'a Answer, levers: &'a [Lever]) -> Json<'a> {
    let winner = question.winner(&answer.plans);
    let searched = question.clusters.iter().zip(&answer.searched);
    Json {
        parameters_total: question.model.parameters(),
        parameters_active: question.model.active_parameters(),
        model_assumed: &question.model_assumed,
        plans: answer.plans.iter().map(|plan| tables::Row::of(question, plan)).collect(),
        errors: &answer.bars,
        assumptions: assumptions::of(question, answer),
        interrupted: interrupt::cut_short().then_some(true),
        winner: winner
            .and_then(|winner| answer.plans.iter().position(|plan| std::ptr::eq(plan, winner))),
        time_breakdown: winner.map_or_else(Vec::new, answer::Plan::parts),
        levers: levers
            .iter()
            .map(|lever| LeverJson {
                name: lever.name,
                step_ns: lever.step.0,
                dollars_saved: lever.saved,
            })
            .collect(),
        searched: searched
            .map(|(cluster, one)| SearchedJson {
                machine: cluster.name(),
                devices: cluster.devices(),
                setups: one.setups,
                simulated: one.found.simulated,
                left_out: &one.found.left_out,
            })
            .collect(),
    }
}
