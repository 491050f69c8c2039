//! `debubble schema`: the form of questions, for editors and programs.

use std::io::Write;

use clap::{Args, ValueEnum};
use papers::reproduce;
use question::{fsdp, plan, replay, schema, search};
use serde_json::{Value, json};

use super::print_json;
use crate::error::Error;
use crate::help;

const EXAMPLES: &str = "\
Examples:
  Keys that are completed and checked while a scenario is written, in editors that know the schemas of
  TOML files (taplo, Even Better TOML):
    debubble schema > scenario.schema.json
  and as the first line of the scenario:
    #:schema scenario.schema.json
  The keys of a question for the planner, with their meaning:
    debubble schema plan | jq '.properties | map_values(.description)'

A file that the schema refuses is refused by the command, too; one that it allows can still lack a key or
have a value that makes no sense.";

/// Print the JSON schema of a question: its keys, their meaning and form
#[derive(Args)]
#[command(after_long_help = help::flow(EXAMPLES))]
pub struct Schema {
    /// The question
    #[arg(value_name = "QUESTION", value_enum, default_value_t = Kind::Scenario)]
    question: Kind,
}

#[derive(Clone, Copy, ValueEnum)]
enum Kind {
    /// A scenario, for simulate, sweep, search and export
    Scenario,
    /// A scenario with axes, for sweep
    Sweep,
    /// A question for the planner
    Plan,
    /// A study of packing and communication
    Fsdp,
    /// The keys of a search, besides those of its scenario
    Search,
    /// The changes of a run that are tried on its trace
    Replay,
    /// A question for published tables
    Reproduce,
}

impl Schema {
    /// Answers on `out`.
    pub fn run(&self, out: &mut dyn Write) -> Result<(), Error> {
        print_json(out, &self.question.schema())
    }
}

impl Kind {
    fn schema(self) -> Value {
        match self {
            Self::Scenario => schema::scenario(),
            Self::Sweep => schema::sweep(),
            Self::Plan => schema::of::<plan::Document>(
                "debubble plan",
                &[json!({
                    "model": { "layers": 32, "hidden": 4096, "heads": 32, "vocabulary": 32_000 },
                    "sequence": 4096,
                    "tokens": 1e12,
                    "batch": 1024,
                    "cluster": [{ "machine": "h100", "devices": [64, 128] }],
                })],
            ),
            Self::Fsdp => schema::of::<fsdp::Keys>(
                "debubble fsdp",
                &[
                    json!({ "devices": [8, 32], "minibatch-size": 4, "lengths": "file:lengths.txt" }),
                ],
            ),
            Self::Search => schema::of::<search::Keys>(
                "debubble search",
                &[json!({ "memory-limits": ["1p", "1.5p"], "objective": "makespan" })],
            ),
            Self::Replay => schema::of::<replay::Keys>(
                "debubble replay",
                &[json!({ "what-if": ["no-stragglers"], "schedule": ["zb-h1"] })],
            ),
            Self::Reproduce => schema::of::<reproduce::Question>(
                "debubble reproduce",
                &[json!({ "tables": ["table5", "table8"], "beyond": true })],
            ),
        }
    }
}
