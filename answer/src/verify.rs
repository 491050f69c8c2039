//! A certificate, checked from scratch.

use std::path::Path;

use certificate::{MAX_BYTES, Refusal, Verdict};
use question::kinds::{self, Kind};
use question::{Context, Diagnostic};
use serde::{Serialize, Serializer};

/// The result of checking a certificate: all of it holds, or something in it does not.
#[derive(Debug)]
pub struct Answer(pub Result<Verdict, Refusal>);

impl Answer {
    /// Whether all of the certificate holds.
    #[must_use]
    pub const fn holds(&self) -> bool {
        self.0.is_ok()
    }
}

impl Serialize for Answer {
    fn serialize<S: Serializer>(&self, serializer: S) -> Result<S::Ok, S::Error> {
        json(&self.0).serialize(serializer)
    }
}

/// Checks the certificate in the file at `path`.
///
/// # Errors
/// If the file cannot be read, or is no certificate.
pub fn verify(context: &Context<'_>, path: &Path) -> Result<Answer, Diagnostic> {
    let text = context.read_toml(path, MAX_BYTES as u64)?;
    match certificate::verify(&text) {
        Err(refusal) if refusal.is_unreadable() => {
            let error = Diagnostic::unreadable(path, &refusal.to_string());
            Err(kinds::misplaced(path, &text, &[Kind::Certificate], error))
        }
        other => Ok(Answer(other)),
    }
}

#[derive(Serialize)]
struct Json {
    holds: bool,
    /// Why it does not.
    #[serde(skip_serializing_if = "Option::is_none")]
    refused: Option<String>,
    #[serde(flatten, skip_serializing_if = "Option::is_none")]
    found: Option<Found>,
}

#[derive(Serialize)]
struct Found {
    passes: usize,
    objective: &'static str,
    cost_ns: u64,
    bound_ns: u64,
    gap_ns: u64,
    optimal: bool,
    argument: &'static str,
    stages: Vec<usize>,
    peak_bytes: Vec<u64>,
}

impl From<&Verdict> for Found {
    fn from(verified: &Verdict) -> Self {
        let Verdict { passes, peaks, objective, cost, bound, argument, .. } = verified;
        Self {
            passes: *passes,
            objective: objective.name(),
            cost_ns: cost.0,
            bound_ns: bound.0,
            gap_ns: verified.gap().0,
            optimal: verified.is_optimal(),
            argument: argument.name(),
            stages: argument.stages(),
            peak_bytes: peaks.iter().map(|peak| peak.0).collect(),
        }
    }
}

fn json(verified: &Result<Verdict, Refusal>) -> Json {
    match verified {
        Ok(verified) => Json { holds: true, refused: None, found: Some(verified.into()) },
        Err(refusal) => Json { holds: false, refused: Some(refusal.to_string()), found: None },
    }
}
