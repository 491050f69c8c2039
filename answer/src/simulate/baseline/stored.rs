//! An earlier answer read from a file.

use std::path::Path;

use pipeline::{Bytes, Nanos};
use question::kinds;
use question::{Context, Diagnostic, quote};
use serde::Deserialize;

use super::{Figures, Name};

/// The largest file that is read, in bytes.
const MAX_FILE: u64 = 1 << 28;

const CURE: &str = "store one with `debubble simulate SCENARIO.toml --json > baseline.json`";

/// An answer, as far as it is read.
#[derive(Deserialize)]
struct Stored {
    results: Vec<StoredOutcome>,
    #[serde(default)]
    interrupted: bool,
}

#[derive(Deserialize)]
struct StoredOutcome {
    setting: Option<String>,
    schedule: String,
    span_ns: u64,
    bubble_rate: f64,
    peak_activation_bytes: Option<Vec<u64>>,
    peak_in_flight: Vec<u32>,
    monte_carlo: Option<StoredReplicas>,
}

#[derive(Deserialize)]
struct StoredReplicas {
    span_ns: StoredDistribution,
}

#[derive(Deserialize)]
struct StoredDistribution {
    mean: f64,
}

impl StoredOutcome {
    fn figures(self) -> (Name, Figures) {
        let peak = |stages: Vec<u64>| Bytes(stages.into_iter().max().unwrap_or_default());
        let figures = Figures {
            span: Nanos(self.span_ns),
            mean_span: self.monte_carlo.map(|all| all.span_ns.mean),
            bubble_rate: self.bubble_rate,
            peak: self.peak_activation_bytes.map(peak),
            in_flight: self.peak_in_flight.into_iter().max().unwrap_or_default(),
        };
        (Name { setting: self.setting, schedule: self.schedule }, figures)
    }
}

/// Reads the schedules of the answer in the file at `path`, and their figures.
pub(super) fn read(context: &Context<'_>, path: &Path) -> Result<Vec<(Name, Figures)>, Diagnostic> {
    let text = context.read_text(path, MAX_FILE)?;
    parse(path, &text)
}

/// The schedules of the answer `text`, read from `path`.
pub(super) fn parse(path: &Path, text: &str) -> Result<Vec<(Name, Figures)>, Diagnostic> {
    let wrong = |cause: &str| {
        let file = quote::path(path);
        let message = format!("{file} is not an answer of `debubble simulate --json`: {cause}");
        Diagnostic::file(path, quote::brief(&message)).with_help(CURE)
    };
    let stored: Stored = serde_json::from_str(text)
        .map_err(|error| kinds::misplaced(path, text, &[], wrong(&error.to_string())))?;
    if stored.interrupted {
        return Err(wrong("it was cut short, and lacks schedules"));
    }
    if stored.results.is_empty() {
        return Err(wrong("it has no results"));
    }
    Ok(stored.results.into_iter().map(StoredOutcome::figures).collect())
}
