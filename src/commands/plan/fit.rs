//! `debubble plan --fit`: a machine fitted to a few measured iterations.

use std::io::Write;
use std::path::Path;

use answer::plan::fit;
use question::Context;

use crate::commands::{Verdict, note, note_all, print_json, print_sheet};
use crate::error::Error;
use crate::files;
use crate::host::Host;

/// Input and output of a fit.
pub(super) struct Options<'a> {
    /// The table of iterations.
    pub measured: &'a Path,
    /// The machine to begin with; by default that of the table.
    pub machine: Option<&'a str>,
    /// The file to write the machine to.
    pub output: Option<&'a Path>,
    /// Whether to print one JSON object.
    pub json: bool,
}

/// Fits a machine, prints how far off its predictions are, and writes it.
pub(super) fn run(options: &Options<'_>, out: &mut dyn Write) -> Result<Verdict, Error> {
    let host = Host::listening();
    let context = Context::new(&host);
    let question = fit::read(&context, options.measured, options.machine)?;
    let fitted = fit::fit(&context, &question)?;
    note_all(&context);
    match options.json {
        true => print_json(out, &fitted)?,
        false => print_sheet(out, &fitted.sheet())?,
    }
    match options.output {
        Some(path) => files::write(path, fitted.machine.as_bytes())?,
        None => note("the machine is not written: name a file with --output"),
    }
    Ok(Verdict::Done)
}
