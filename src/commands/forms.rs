//! The forms of an answer that has rows: tables, JSON, CSV and a picture.

use std::io::Write;
use std::path::PathBuf;

use answer::Tabular;
use clap::Args;
use draw::Width;
use question::Diagnostic;

use super::width::Pictures;
use super::{OUTPUT, Verdict, print_json, print_sheet};
use crate::error::Error;
use crate::files;

/// The forms that a command writes.
#[derive(Args)]
pub struct Forms {
    /// Print one JSON object instead of tables
    #[arg(long, help_heading = OUTPUT)]
    pub json: bool,
    /// Write the rows as CSV, with the keys of the JSON as columns
    #[arg(long, help_heading = OUTPUT, value_name = "FILE.csv")]
    #[arg(value_parser = files::Output)]
    pub csv: Option<PathBuf>,
    /// Write a picture of the answer
    #[arg(long, help_heading = OUTPUT, value_name = "FILE.svg")]
    #[arg(value_parser = files::Output)]
    pub svg: Option<PathBuf>,
    #[command(flatten)]
    pub drawn: Pictures,
}

impl Forms {
    /// Writes `answer` to the files that are named, its picture by `draw`, and to `out`.
    pub fn write<A: Tabular>(
        &self,
        out: &mut dyn Write,
        answer: &A,
        draw: impl FnOnce(&A, Option<Width>) -> Result<String, Diagnostic>,
    ) -> Result<Verdict, Error> {
        if let Some(path) = &self.csv {
            files::write(path, answer.csv()?)?;
        }
        if let Some(path) = &self.svg {
            files::write(path, draw(answer, self.drawn.width)?)?;
        }
        match self.json {
            true => print_json(out, answer)?,
            false => print_sheet(out, &answer.sheet())?,
        }
        Ok(Verdict::Done)
    }
}
