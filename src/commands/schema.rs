//! `debubble schema`: the form of questions, for editors and programs.

use std::io::Write;

use clap::Args;
use clap::builder::{PossibleValue, PossibleValuesParser};
use question::questions::{self, QUESTIONS};

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
    #[arg(value_name = "QUESTION", default_value = QUESTIONS[0].name, value_parser = names())]
    question: String,
}

fn names() -> PossibleValuesParser {
    PossibleValuesParser::new(
        QUESTIONS.iter().map(|one| PossibleValue::new(one.name).help(one.help)),
    )
}

impl Schema {
    /// Answers on `out`.
    pub fn run(&self, out: &mut dyn Write) -> Result<(), Error> {
        let schema = questions::named(&self.question)?;
        Ok(out.write_all(schema.schema.as_bytes())?)
    }
}
