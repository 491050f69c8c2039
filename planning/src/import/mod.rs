//! Questions of the planner from the files that people have: launch scripts of Megatron-LM, and logs that begin with
//! its arguments. Nothing of them is run.

mod arguments;
pub mod edit;
mod harmless;
pub mod measured;
mod megatron;
mod shell;
#[cfg(test)]
mod tests;

use std::collections::BTreeMap;
use std::path::Path;

use question::diagnostic::Diagnostic;
use question::host::Context;
use question::quote;

use self::arguments::{Arguments, Wrong};
pub use self::measured::Measured;
use crate::document::Document;

/// The largest file that is read.
const MOST_BYTES: u64 = 256 << 20;

/// The bytes at the start of a file that are looked at.
const HEAD: usize = 4 << 20;

/// What a script or a log does not say.
#[derive(Clone, Default, Debug)]
pub struct Given {
    /// The machine: one that is built in, or a file.
    pub machine: Option<String>,
    /// The number of devices.
    pub devices: Option<u64>,
    /// The tokens to train on.
    pub tokens: Option<f64>,
    /// The size of the vocabulary.
    pub vocabulary: Option<u64>,
    /// Values of variables of a script.
    pub variables: BTreeMap<String, String>,
}

/// A question that a file asks.
pub struct Imported {
    /// The question.
    pub document: Document,
    /// What was assumed, or left out though it matters, a sentence each.
    pub notes: Vec<String>,
    /// The iterations that a log has.
    pub measured: Option<Measured>,
    /// Arguments that are not known to be harmless, and that the question does not have.
    pub left_out: Vec<String>,
}

impl Imported {
    /// The arguments that are left out, in a sentence.
    #[must_use]
    pub fn left_out_in_words(&self) -> Option<String> {
        let names: Vec<String> =
            self.left_out.iter().map(|name| format!("--{}", quote::clip(name))).collect();
        (!names.is_empty())
            .then(|| format!("left out, since a plan does not know them: {}", names.join(", ")))
    }

    /// The question as a file, with the notes in front.
    ///
    /// # Errors
    /// If it cannot be written down.
    pub fn to_toml(&self) -> Result<String, String> {
        let notes = self.notes.iter().cloned().chain(self.left_out_in_words());
        let mut text: String =
            notes.map(|note| format!("# {}\n", note.replace(['\n', '\r'], " "))).collect();
        text += &toml::to_string(&self.document).map_err(|error| error.to_string())?;
        Ok(text)
    }
}

/// Whether `text` is of a kind that [`read`] reads: a script with arguments of Megatron-LM, or a log with a dump of
/// them.
#[must_use]
pub fn is_known(text: &str) -> bool {
    is_dump(text) || text.contains("--num-layers") || text.contains("--hybrid-layer-pattern")
}

/// Whether `text` has a dump of arguments.
fn is_dump(text: &str) -> bool {
    let of = |name: &str| text.lines().filter_map(arguments::dumped).any(|(own, _)| own == name);
    of("num_layers") && of("hidden_size")
}

/// Reads the script or the log in `path`.
///
/// # Errors
/// If it cannot be read, is of no known kind, or lacks what a question needs.
pub fn read(context: &Context<'_>, path: &Path, given: &Given) -> Result<Imported, Diagnostic> {
    let bytes = context.read_bytes(path, MOST_BYTES)?;
    // What follows is the log of steps, in which anything may stand.
    let head = String::from_utf8_lossy(bytes.get(..HEAD).unwrap_or(&bytes));
    of_text(path, &head, given)
}

/// The run that the file `path` describes: a question of the planner, or a file that [`read`] reads.
///
/// # Errors
/// If the file cannot be read, or is neither.
pub fn read_run(context: &Context<'_>, path: &Path, given: &Given) -> Result<Imported, Diagnostic> {
    let bytes = context.read_bytes(path, MOST_BYTES)?;
    let is_small = bytes.len() as u64 <= crate::MAX_FILE;
    let text = std::str::from_utf8(&bytes).ok().filter(|_| is_small);
    if let Some(text) = text
        && toml::from_str::<toml::Table>(text).is_ok_and(|table| table.contains_key("model"))
    {
        let text = context.read_toml(path, crate::MAX_FILE)?;
        let document: Document =
            toml::from_str(&text).map_err(|error| Diagnostic::toml(path, &text, &error, &[]))?;
        return Ok(Imported { document, notes: Vec::new(), measured: None, left_out: Vec::new() });
    }
    of_text(path, &String::from_utf8_lossy(&bytes), given)
}

/// The iterations of the log `path`, of `tokens` of each device a step; `None` without enough steady ones.
///
/// # Errors
/// If the file cannot be read.
pub fn read_measured(
    context: &Context<'_>,
    path: &Path,
    tokens: f64,
) -> Result<Option<Measured>, Diagnostic> {
    let bytes = context.read_bytes(path, MOST_BYTES)?;
    Ok(Measured::of(&String::from_utf8_lossy(&bytes), tokens))
}

/// The text of `path`, if it is a launch script with arguments of Megatron-LM.
///
/// # Errors
/// If the file cannot be read.
pub fn script(context: &Context<'_>, path: &Path) -> Result<Option<String>, Diagnostic> {
    let bytes = context.read_bytes(path, MOST_BYTES)?;
    let text = String::from_utf8(bytes).ok();
    Ok(text.filter(|text| text.contains("--num-layers") && !is_dump(text)))
}

/// The question of the `text` in `path`.
///
/// # Errors
/// Those of [`read`].
pub fn of_text(path: &Path, text: &str, given: &Given) -> Result<Imported, Diagnostic> {
    let arguments = if is_dump(text) {
        Arguments::of_dump(text)
    } else if is_known(text) {
        let script = shell::read(text, &given.variables);
        Arguments::of_script(&script.map_err(|why| about(path, &why))?)
    } else {
        let message =
            "it has no arguments of Megatron-LM: no --num-layers, and no dump of them".to_owned();
        let cure = "give the script that starts the training, or a log from its first line on";
        return Err(about(path, &message).with_help(cure));
    };
    let wrong = |Wrong { name, message, cure }: Wrong| {
        let wrong = about(path, &format!("--{name}: {message}"));
        cure.into_iter().fold(wrong, Diagnostic::with_help)
    };
    let mut imported = megatron::question(path, &arguments, given).map_err(wrong)?;
    imported.measured = Measured::of(text, tokens_per_device(&imported.document));
    imported.notes.extend(imported.measured.as_ref().map(Measured::in_words));
    Ok(imported)
}

/// The tokens of a step over all devices of `document`.
#[allow(clippy::cast_precision_loss)] // Some 10^7.
#[must_use]
pub fn tokens_per_device(document: &Document) -> f64 {
    let devices: u64 = document.cluster.iter().flat_map(|one| &one.devices).flatten().sum();
    document.batch as f64 * document.sequence.unwrap_or(0) as f64 / devices.max(1) as f64
}

/// An error about the file `path`.
fn about(path: &Path, message: &str) -> Diagnostic {
    Diagnostic::file(path, format!("{}: {message}", quote::path(path)))
}
