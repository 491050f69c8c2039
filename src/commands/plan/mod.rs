//! `debubble plan`: which set-up trains a model on which machines, how long it takes, what it costs.

mod machines;
mod validate;

use std::io::Write;
use std::path::PathBuf;

use clap::Args;

use self::validate::Options;
use super::{OUTPUT, Verdict};
use crate::error::Error;

/// Rank set-ups for a model, a token budget and machines with prices
#[derive(Args)]
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
    /// Write the plans, or the rows of --validate, as CSV
    #[arg(long, help_heading = OUTPUT, value_name = "FILE.csv")]
    csv: Option<PathBuf>,
}

impl Plan {
    /// Answers on `out`.
    pub fn run(self, out: &mut dyn Write) -> Result<Verdict, Error> {
        let options = Options {
            paths: &self.paths,
            check: self.check,
            json: self.json,
            csv: self.csv.as_deref(),
        };
        if self.validate {
            return validate::run(&options, out);
        }
        Err(Error::question("a plan needs a question: name a PLAN.toml"))
    }
}
