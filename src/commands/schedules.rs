//! `debubble schedules`: the families.

use std::io::Write;

use answer::schedules::schedules;
use clap::Args;

use super::{print_json, print_sheet};
use crate::error::Error;

/// List the schedules: name, source, needs, bubble and memory
#[derive(Args)]
pub struct Schedules {
    /// Schedules to list [default: all]
    #[arg(value_name = "NAME")]
    names: Vec<String>,
    /// One line per schedule: name and source
    #[arg(long, conflicts_with = "json")]
    brief: bool,
    /// Print one JSON object instead of text
    #[arg(long)]
    json: bool,
}

impl Schedules {
    /// Answers on `out`.
    pub fn run(&self, out: &mut dyn Write) -> Result<(), Error> {
        let all = schedules();
        let answer = if self.names.is_empty() { all } else { all.named(&self.names)? };
        match self.json {
            true => print_json(out, &answer),
            false if self.brief => print_sheet(out, &answer.brief()),
            false => print_sheet(out, &answer.sheet()),
        }
    }
}
