//! `debubble schedules`: the families.

use std::io::Write;

use clap::Args;
use pipeline::{Choice, Chunks, Family, InTorch, LeftOut, LimitUse};
use serde::Serialize;

use super::print_json;
use crate::error::Error;
use crate::format;
use question::case::SEARCHED;

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
    not_offered: Vec<NotOffered>,
}

#[derive(Serialize)]
struct NotOffered {
    name: &'static str,
    source: &'static str,
    why: &'static str,
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
    /// What else may be chosen, by which key.
    #[serde(skip_serializing_if = "Option::is_none")]
    choice: Option<String>,
    /// Which training frameworks run its order.
    runs_in: String,
    /// What should be known of these figures.
    #[serde(skip_serializing_if = "str::is_empty")]
    note: &'static str,
}

impl From<Family> for Entry {
    fn from(family: Family) -> Self {
        let about = family.about();
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
        let choice = match about.choice {
            Choice::Nothing => None,
            Choice::Group => Some("--group, p unless told".to_owned()),
            Choice::Offload => {
                Some("--group, 1 unless told; --offload-chunks, --offload".to_owned())
            }
            Choice::Segments { default } => Some(format!("--segments, {default} unless told")),
        };
        Self {
            name: about.name,
            source: about.source,
            needs: about.needs,
            chunks,
            memory_limit,
            bubble: about.bubble,
            memory: about.memory,
            choice,
            runs_in: runs_in(family),
            note: about.note,
        }
    }
}

/// The frameworks that run `family`, and how.
fn runs_in(family: Family) -> String {
    let torch = match family.in_torch() {
        InTorch::Class(name) => format!("torchtitan ({name})"),
        InTorch::Order => "torchtitan (as a CSV file)".to_owned(),
        InTorch::No(lacks) => {
            return format!("neither Megatron-LM nor torchtitan, whose orders have no {lacks}");
        }
    };
    if family.in_megatron() { format!("Megatron-LM, {torch}") } else { torch }
}

/// The order that is searched, which is no family.
fn searched() -> Entry {
    Entry {
        name: SEARCHED,
        source: "`debubble search` at its default effort",
        needs: "any p, any m",
        chunks: "any, 1 unless told; 2 lie in a V".to_owned(),
        memory_limit: "shapes the order, none unless told".to_owned(),
        bubble: "no more than that of any schedule above with its chunks that fits the limit",
        memory: "up to the limit",
        choice: Some("--seed, 0 unless told".to_owned()),
        runs_in: "torchtitan (as a CSV file)".to_owned(),
        note: "how far any order can be from it: `debubble search`",
    }
}

impl Schedules {
    /// Answers on `out`.
    pub fn run(&self, out: &mut dyn Write) -> Result<(), Error> {
        let families = Family::ALL.into_iter().map(Entry::from);
        let schedules: Vec<Entry> = families.chain([searched()]).collect();
        if self.json {
            let one = |LeftOut { name, source, why }| NotOffered { name, source, why };
            let not_offered = LeftOut::ALL.into_iter().map(one).collect();
            return print_json(out, &Json { schedules, not_offered });
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
                ("choice", entry.choice.as_deref().unwrap_or_default()),
                ("runs in", &entry.runs_in),
                ("note", entry.note),
            ];
            for (what, text) in lines.into_iter().filter(|(_, text)| !text.is_empty()) {
                writeln!(out, "  {what:8}{}", wrapped(text))?;
            }
        }
        writeln!(out, "\nNot offered")?;
        for LeftOut { name, source, why } in LeftOut::ALL {
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
