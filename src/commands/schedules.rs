//! `debubble schedules`: the families.

use std::io::Write;

use answer::schedules::{NotOffered, schedules};
use clap::Args;

use super::print_json;
use crate::error::Error;
use crate::format;

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
        if self.json {
            return print_json(out, &answer);
        }
        for entry in answer.schedules {
            writeln!(out, "{}", entry.name)?;
            let lines = [
                ("source", entry.source),
                ("needs", entry.needs),
                ("chunks", &entry.chunks),
                ("bubble", entry.bubble),
                ("memory", entry.memory),
                ("limit", &entry.memory_limit),
                ("choice", entry.choice.as_deref().unwrap_or_default()),
                ("runs in", &entry.runs_in),
                ("note", entry.note),
            ];
            for (what, text) in lines.into_iter().filter(|(_, text)| !text.is_empty()) {
                writeln!(out, "  {what:8}{}", wrapped(text))?;
            }
        }
        writeln!(out, "\nNot offered")?;
        for NotOffered { name, source, why } in answer.not_offered {
            writeln!(out, "{name}\n  source  {source}\n  why     {}", wrapped(why))?;
        }
        writeln!(
            out,
            "\np stages, m microbatches, v chunks per stage, k segments per microbatch; F, B, W: \
             forward, backward\nfor the input, for the weights, of one stage and microbatch. M_B: \
             what one microbatch holds on one\nstage between F and B. Bubble: per step, without \
             communication."
        )?;
        Ok(())
    }
}

/// `text` in lines of at most 100 columns, each but the first indented like what stands before it.
fn wrapped(text: &str) -> String {
    let indent = " ".repeat(10);
    let whole = format::wrapped(&format!("{indent}{text}"), 100, &indent);
    whole.trim_start().to_owned()
}
