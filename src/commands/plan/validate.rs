//! `debubble plan --validate`: every published measurement predicted, row by row.

use std::io::Write;
use std::path::{Path, PathBuf};

use draw::Width;
use draw::pictures::validate as pictures;
use measured::{ValidationQuestion, validate};
use question::Context;

use crate::commands::{Verdict, note, note_all, print_json, print_sheet};
use crate::error::Error;
use crate::files;
use crate::host::Host;
use crate::interrupt;

/// Default folder of published measurements, beside a checkout.
const MEASURED: &str = "../shared/measured";

/// Published measurements by other groups in [`MEASURED`].
const OTHERS: [&str; 2] = ["vtrain_ground_truth_single.csv", "vtrain_ground_truth_multi.csv"];

/// The measurements to hold the planner against, and how.
pub(super) struct Options<'a> {
    /// Files or folders of measurements; those built in, and [`MEASURED`], if there are none.
    pub paths: &'a [PathBuf],
    /// Whether a bar that does not hold is a failure.
    pub check: bool,
    /// Whether to print one JSON object.
    pub json: bool,
    /// The file to write all rows to as CSV.
    pub csv: Option<&'a Path>,
    /// The file to draw predicted steps against measured ones to.
    pub svg: Option<&'a Path>,
    /// The width of that picture.
    pub width: Option<Width>,
}

/// Predicts all measurements and prints how far off the predictions are.
pub(super) fn run(options: &Options, out: &mut dyn Write) -> Result<Verdict, Error> {
    interrupt::end_with(
        "interrupted: errors are those of all measurements together, and none is kept",
    );
    let host = Host::default();
    let question =
        ValidationQuestion { built_in: options.paths.is_empty(), files: files(options.paths) };
    let context = Context::new(&host);
    let validated = validate(&context, &question)?;
    note_all(&context);
    if let Some(path) = options.csv {
        files::write(path, validated.csv()?)?;
    }
    if let Some(path) = options.svg {
        files::write(path, pictures::steps(&validated, options.width)?)?;
    }
    match options.json {
        true => print_json(out, &validated)?,
        false => print_sheet(out, &validated.sheet())?,
    }
    Ok(if options.check && !validated.holds() { Verdict::Missed } else { Verdict::Done })
}

/// The files to read: those named, those of known names in folders, or those of the default folder.
fn files(paths: &[PathBuf]) -> Vec<PathBuf> {
    let in_folder = |folder: &Path| OTHERS.map(|name| folder.join(name));
    let mut all = Vec::new();
    if paths.is_empty() {
        for path in in_folder(Path::new(MEASURED)) {
            match path.is_file() {
                true => all.push(path),
                false => {
                    let skipped = path.display();
                    note(&format!("{skipped} is not there: its measurements are left out"));
                }
            }
        }
    }
    for path in paths {
        let named: Vec<PathBuf> = match path.is_dir() {
            true => in_folder(path).into_iter().filter(|file| file.is_file()).collect(),
            false => vec![path.clone()],
        };
        if named.is_empty() {
            note(&format!("{} has no measurements of a known name", path.display()));
        }
        all.extend(named);
    }
    all
}
