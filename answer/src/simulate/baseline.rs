//! An answer held against an earlier one: whether the step, the bubble or the memory of a schedule grew.

mod growth;
mod stored;
#[cfg(test)]
mod tests;

use std::collections::{BTreeMap, BTreeSet};
use std::path::Path;
use std::str::FromStr;

use pipeline::{Bytes, Nanos};
use question::{Context, Diagnostic};

use super::Answers;
use crate::outcome::Outcome;
pub use growth::{Change, Figure, Growth, GrowthRow};

/// An earlier answer of [`simulate`](super::simulate), as its JSON was stored.
#[derive(Debug)]
pub struct Baseline {
    schedules: Vec<(Name, Figures)>,
}

/// A schedule of a setting.
#[derive(Clone, PartialEq, Eq, PartialOrd, Ord, Debug)]
struct Name {
    setting: Option<String>,
    schedule: String,
}

/// A name, and the number of equal names before it.
type Key = (Name, usize);

/// The figures of a schedule that are held against each other.
#[derive(Clone, Copy, PartialEq, Debug)]
struct Figures {
    span: Nanos,
    /// The mean span over all replicas in nanoseconds, where there are some.
    mean_span: Option<f64>,
    bubble_rate: f64,
    /// The largest peak of any stage, where the sizes of activations are known.
    peak: Option<Bytes>,
    /// The largest number of chunk activations on any stage.
    in_flight: u32,
}

impl Figures {
    fn of(outcome: &Outcome) -> Self {
        Self {
            span: outcome.metrics.span(),
            mean_span: outcome.monte_carlo.as_ref().map(|all| all.span.mean),
            bubble_rate: outcome.metrics.bubble_rate(),
            peak: outcome.case.has_footprints.then(|| outcome.worst().1),
            in_flight: outcome.in_flight.iter().copied().max().unwrap_or_default(),
        }
    }
}

impl Baseline {
    /// Reads the answer that `simulate --json` wrote into the file at `path`.
    pub fn read(context: &Context<'_>, path: &Path) -> Result<Self, Diagnostic> {
        Ok(Self { schedules: stored::read(context, path)? })
    }

    /// Holds `answers` against this earlier one. Schedules are found by their names and those of their
    /// settings; of several with one name, the first is held against the first.
    #[must_use]
    pub fn held_against(&self, answers: &Answers, tolerance: Tolerance) -> Growth {
        let now = answers.outcomes.iter().map(|outcome| {
            let (setting, schedule) = (outcome.case.setting.clone(), outcome.case.name.clone());
            (Name { setting, schedule }, Figures::of(outcome))
        });
        self.held_against_figures(now, tolerance)
    }

    fn held_against_figures(
        &self,
        now: impl Iterator<Item = (Name, Figures)>,
        tolerance: Tolerance,
    ) -> Growth {
        let now = numbered(now);
        let before = numbered(self.schedules.iter().cloned());
        let known: BTreeMap<&Key, &Figures> = before.iter().map(|(key, one)| (key, one)).collect();
        let kept: BTreeSet<&Key> = now.iter().map(|(key, _)| key).collect();
        let rows = now.iter().map(|(key, one)| match known.get(key) {
            Some(before) => GrowthRow::held(&key.0, before, one, tolerance),
            None => GrowthRow::alone(&key.0, Change::New),
        });
        let gone = before.iter().filter(|(key, _)| !kept.contains(key));
        let gone = gone.map(|(key, _)| GrowthRow::alone(&key.0, Change::Gone));
        Growth::of(tolerance, rows.chain(gone).collect())
    }
}

/// `all` with the number of equal names before each.
fn numbered(all: impl Iterator<Item = (Name, Figures)>) -> Vec<(Key, Figures)> {
    let mut counts: BTreeMap<Name, usize> = BTreeMap::new();
    let number = |(name, figures): (Name, Figures)| {
        let count = counts.entry(name.clone()).or_default();
        *count += 1;
        ((name, *count - 1), figures)
    };
    all.map(number).collect()
}

/// Allowed growth of figures: relative for a time or a size, absolute for a bubble rate, which is a
/// share itself. Written in percent: `0.1%`.
#[derive(Clone, Copy, PartialEq, Default, Debug)]
pub struct Tolerance(f64);

impl Tolerance {
    /// As a share: 0.001 for `0.1%`.
    #[must_use]
    pub const fn share(self) -> f64 {
        self.0
    }

    /// Whether `now` exceeds `before` by more than this share.
    #[allow(clippy::cast_precision_loss)]
    fn is_exceeded(self, before: u64, now: u64) -> bool {
        now > before && (now - before) as f64 > self.0 * before as f64
    }
}

impl FromStr for Tolerance {
    type Err = String;

    fn from_str(text: &str) -> Result<Self, String> {
        const FORM: &str = "it must be a percentage, such as 0.1%";
        let number = text.strip_suffix('%').ok_or(FORM)?;
        let percent: f64 = number.trim_end().parse().map_err(|_| FORM)?;
        match percent.is_finite() && percent >= 0.0 {
            true => Ok(Self(percent / 100.0)),
            false => Err("it must be 0% or more".to_owned()),
        }
    }
}
