//! Published figures that stand in a text: files of `claim,figure`.

use std::path::PathBuf;

use question::Diagnostic;
use serde::Deserialize;

use super::sources::{Sources, error_in};

/// A published figure that stands in a text.
#[derive(Deserialize)]
#[serde(deny_unknown_fields)]
struct Claim {
    claim: String,
    figure: f64,
}

pub(super) struct Claims {
    path: PathBuf,
    all: Vec<Claim>,
}

impl Claims {
    /// The claims of the file `name`.
    pub(super) fn read(sources: &Sources<'_>, name: &str) -> Result<Self, Diagnostic> {
        let (path, all) = sources.records(name)?;
        Ok(Self { path, all })
    }

    /// The same, or those that are built in if the folder has no such file.
    pub(super) fn read_or_built_in(sources: &Sources<'_>, name: &str) -> Result<Self, Diagnostic> {
        let (path, all) = sources.records_or_built_in(name)?;
        Ok(Self { path, all })
    }

    /// The figure of the claim `name`.
    pub(super) fn named(&self, name: &str) -> Result<f64, Diagnostic> {
        let found = self.all.iter().find(|one| one.claim == name && one.figure.is_finite());
        let missing = || error_in(&self.path, None, &format!("there is no figure `{name}`"));
        found.map(|one| one.figure).ok_or_else(missing)
    }
}
