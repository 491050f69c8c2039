//! One file per command. Each reads its question, answers on `out`, and prints its notes on stderr.

pub mod advise;
pub mod calibrate;
pub mod compare;
pub mod encoder;
pub mod execute;
pub mod export;
pub mod failures;
mod forms;
pub mod fsdp;
pub mod import;
pub mod man;
pub mod plan;
pub mod profile;
pub mod records;
pub mod replay;
pub mod reproduce;
pub mod rl;
mod run_script;
pub mod schedules;
pub mod schema;
pub mod search;
pub mod simulate;
pub mod sweep;
pub mod verify;
mod width;

use std::io::{Write, stdout};
use std::path::PathBuf;

use clap::Args;
use draw::text;
use question::keys::Keys;
use question::scenario::Scenario;
use question::sheet::Sheet;
use question::{Context, Diagnostic};
use serde::Serialize;

use crate::error::Error;
pub use crate::messages::note;

/// How a command that found nothing wrong with its input ended.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum Verdict {
    /// Done.
    Done,
    /// A check failed.
    Missed,
}

/// Help heading of flags about the answer.
const OUTPUT: &str = "The answer";

/// A scenario file, and keys that override it.
#[derive(Args)]
pub struct Asked {
    /// Scenario file; flags override it
    #[arg(value_name = "SCENARIO.toml")]
    scenario: Option<PathBuf>,
    #[command(flatten)]
    keys: Keys,
}

impl Asked {
    /// The scenario with the flags over it.
    pub fn read(&self, context: &Context<'_>) -> Result<Scenario, Diagnostic> {
        Scenario::asked(context, self.scenario.as_deref(), &self.keys)
    }
}

/// Says the warnings about the question of `context`, each once.
fn note_all(context: &Context<'_>) {
    context.take_warnings().iter().for_each(|text| note(text));
}

/// Prints the tables and words of an answer, as wide as the terminal.
fn print_sheet(out: &mut dyn Write, sheet: &Sheet) -> Result<(), Error> {
    let columns = columns();
    let set = |name| std::env::var_os(name).is_some_and(|value| !value.is_empty());
    let colour = columns.is_some()
        && !set("NO_COLOR")
        && std::env::var_os("TERM").is_some_and(|it| it != "dumb");
    Ok(write!(out, "{}", text::sheet_on(sheet, text::Terminal { columns, colour }))?)
}

/// The columns of the terminal; none where the answer goes to a file or a pipe.
fn columns() -> Option<usize> {
    terminal_size::terminal_size_of(stdout()).map(|(width, _)| usize::from(width.0))
}

/// Prints one JSON object.
pub fn print_json(out: &mut dyn Write, value: &impl Serialize) -> Result<(), Error> {
    serde_json::to_writer_pretty(&mut *out, value).map_err(std::io::Error::from)?;
    Ok(writeln!(out)?)
}
