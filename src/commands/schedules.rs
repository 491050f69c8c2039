//! `debubble schedules`: the families.

use std::io::Write;

use clap::Args;
use pipeline::{About, Chunks, Family, LimitUse};
use serde::Serialize;

use super::print_json;
use crate::error::Error;

/// List the schedules: name, source, needs, bubble and memory
#[derive(Args)]
pub struct Schedules {
    /// Print one JSON object instead of text
    #[arg(long)]
    json: bool,
}

#[derive(Serialize)]
struct Json {
    schedules: Vec<Entry>,
}

#[derive(Serialize)]
struct Entry {
    name: &'static str,
    source: &'static str,
    needs: &'static str,
    chunks: String,
    memory_limit: String,
    bubble: &'static str,
    memory: &'static str,
}

impl From<&About> for Entry {
    fn from(about: &About) -> Self {
        let chunks = match about.chunks {
            Chunks::Exactly(chunks) => format!("{chunks}"),
            Chunks::Any { default } => format!("any, {default} unless told"),
        };
        let memory_limit = match about.limit {
            LimitUse::Checked => "only checked".to_owned(),
            LimitUse::Own(limit) => format!("made for {limit}, another is only checked"),
            LimitUse::Shapes { default: None } => "shapes the order, none unless told".to_owned(),
            LimitUse::Shapes { default: Some(limit) } => {
                format!("shapes the order, {limit} unless told")
            }
        };
        let About { name, source, needs, bubble, memory, .. } = *about;
        Self { name, source, needs, chunks, memory_limit, bubble, memory }
    }
}

impl Schedules {
    /// Answers on `out`.
    pub fn run(&self, out: &mut dyn Write) -> Result<(), Error> {
        let schedules: Vec<Entry> =
            Family::ALL.into_iter().map(|family| Entry::from(family.about())).collect();
        if self.json {
            return print_json(out, &Json { schedules });
        }
        for entry in schedules {
            writeln!(out, "{}", entry.name)?;
            let lines = [
                ("source", entry.source),
                ("needs", entry.needs),
                ("chunks", &entry.chunks),
                ("bubble", entry.bubble),
                ("memory", entry.memory),
                ("limit", &entry.memory_limit),
            ];
            for (what, text) in lines {
                writeln!(out, "  {what:8}{text}")?;
            }
        }
        writeln!(
            out,
            "\np stages, m microbatches, v chunks per stage; F, B, W: forward, backward for the \
             input, for the weights,\nof one stage and microbatch. M_B: what one microbatch holds \
             on one stage between F and B.\nBubble: per step, without communication."
        )?;
        Ok(())
    }
}
