//! `debubble schedules`: the families.

use std::io::Write;

use answer::schedules::schedules;
use clap::Args;
use draw::text;

use super::print_json;
use crate::error::Error;

/// List the schedules: name, source, needs, bubble and memory
#[derive(Args)]
pub struct Schedules {
    /// Print one JSON object instead of text
    #[arg(long)]
    json: bool,
}

impl Schedules {
    /// Answers on `out`.
    pub fn run(&self, out: &mut dyn Write) -> Result<(), Error> {
        let answer = schedules();
        match self.json {
            true => print_json(out, &answer),
            false => Ok(write!(out, "{}", text::sheet(&answer.sheet()))?),
        }
    }
}
