//! A record: the file form, and what of it is believed.

use std::fmt;
use std::path::{Path, PathBuf};

use certificate::{Backwards, Certificate, MAX_BYTES};
use question::{Context, Diagnostic};

use super::credit::Credit;
use super::set::RecordInstance;

/// A certificate, and who found its order and its bound, where the file says.
#[derive(Clone, PartialEq, Eq, Debug)]
pub struct Record {
    /// Order, cost and bound.
    pub certificate: Certificate,
    /// Who found the order.
    pub order: Option<Credit>,
    /// Who found the bound.
    pub bound: Option<Credit>,
}

/// The name of the file of the pipeline `name`.
#[must_use]
pub fn file_name(name: &str) -> String {
    format!("{name}.toml")
}

/// The path of the record of `one` in `folder`.
pub(super) fn path(folder: &Path, one: &RecordInstance) -> PathBuf {
    folder.join(file_name(&one.name))
}

impl Record {
    /// The record of `one` in `folder`, if there is one. What it claims of cost and bound is not checked.
    pub fn read(
        context: &Context<'_>,
        folder: &Path,
        one: &RecordInstance,
    ) -> Result<Option<Self>, Diagnostic> {
        let path = path(folder, one);
        if !context.exists(&path) {
            return Ok(None);
        }
        let wrong = |cause: &str| {
            let cure = "`debubble records --check` names every file that does not hold";
            Diagnostic::unreadable(&path, cause).with_help(cure)
        };
        let text = context.read_toml(&path, MAX_BYTES as u64)?;
        let certificate =
            Certificate::read(&text).map_err(|refusal| wrong(&refusal.to_string()))?;
        if let Some(cause) = misplaced(one, &certificate) {
            return Err(wrong(&cause));
        }
        Ok(Some(Self::with_credits(certificate, &text)))
    }

    /// The same, with all that it claims checked.
    pub fn check(
        context: &Context<'_>,
        folder: &Path,
        one: &RecordInstance,
    ) -> Result<Option<Self>, String> {
        let path = path(folder, one);
        if !context.exists(&path) {
            return Ok(None);
        }
        let text = context.read_toml(&path, MAX_BYTES as u64);
        let text = text.map_err(|error| error.to_string())?;
        let certificate = Certificate::read(&text).map_err(|refusal| refusal.to_string())?;
        if let Some(cause) = misplaced(one, &certificate) {
            return Err(cause);
        }
        if certificate.backwards == Backwards::Split {
            return Err("its bound is about split backwards alone: version 1".to_owned());
        }
        certificate::verify(&text).map_err(|refusal| refusal.to_string())?;
        Ok(Some(Self::with_credits(certificate, &text)))
    }

    fn with_credits(certificate: Certificate, text: &str) -> Self {
        let [order, bound] = ["order", "bound"].map(|what| Credit::read(text, what));
        Self { certificate, order, bound }
    }
}

/// That `certificate` is not of the pipeline `one`, if it is not.
fn misplaced(one: &RecordInstance, certificate: &Certificate) -> Option<String> {
    let differences = one.differences(certificate);
    let what = differences.join(", ");
    (!differences.is_empty()).then(|| format!("it is of another pipeline: different in {what}"))
}

impl fmt::Display for Record {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        for (what, credit) in [("order", &self.order), ("bound", &self.bound)] {
            if let Some(credit) = credit {
                writeln!(f, "# {what}: {credit}")?;
            }
        }
        self.certificate.fmt(f)
    }
}
