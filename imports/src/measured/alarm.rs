//! Changes of a run that is watched, with their causes.

use std::fmt::Write;

use question::format;
use serde::{Serialize, Serializer};

use super::line::Timer;

/// A change of the run.
#[derive(Clone, PartialEq, Serialize, Debug)]
pub struct Alarm {
    /// The iteration at which it was seen.
    pub iteration: u64,
    /// The step before, in seconds.
    pub before: f64,
    /// The step now, in seconds.
    pub now: f64,
    /// The samples of its global batch, if the log says them.
    #[serde(skip)]
    pub batch: Option<u64>,
    /// Why.
    pub cause: Cause,
}

/// Why a step is another one.
#[derive(Clone, PartialEq, Debug)]
pub enum Cause {
    /// The run is steady: how long a step takes is known now.
    Steady,
    /// The global batch has another size.
    Batch {
        /// Its size before.
        before: u64,
        /// Its size now.
        now: u64,
    },
    /// Some ranks compute longer, the fastest does not.
    Straggler(Change),
    /// All ranks compute longer.
    Compute(Change),
    /// Transfers between stages take longer.
    StageLink(Change),
    /// The exchange of gradients or parameters takes longer.
    Exchange(Change),
    /// Another timer takes longer.
    Other(Change),
    /// No timer says it.
    Unknown,
    /// A step takes as long as at first.
    Back,
}

/// A timer before and now.
#[derive(Clone, PartialEq, Debug)]
pub struct Change {
    pub before: Timer,
    pub now: Timer,
}

impl Serialize for Cause {
    fn serialize<S: Serializer>(&self, serializer: S) -> Result<S::Ok, S::Error> {
        serializer.serialize_str(match self {
            Self::Steady => "steady",
            Self::Batch { .. } => "batch",
            Self::Straggler(_) => "straggler",
            Self::Compute(_) => "compute",
            Self::StageLink(_) => "stage-link",
            Self::Exchange(_) => "exchange",
            Self::Other(_) => "other",
            Self::Unknown => "unknown",
            Self::Back => "back",
        })
    }
}

impl Alarm {
    /// In words: one line.
    #[must_use]
    pub fn words(&self) -> String {
        let Self { iteration, before, now, cause, .. } = self;
        let change = format::signed_percent(now / before - 1.0);
        let moved =
            format!("iteration {iteration}: {now:.3} s a step instead of {before:.3} s, {change}");
        match cause {
            Cause::Steady => format!("iteration {iteration}: steady at {now:.3} s a step"),
            Cause::Batch { before, now } => {
                format!("{moved}: the global batch is {now} instead of {before}")
            }
            Cause::Straggler(change) => {
                format!("{moved}: a straggler, for some ranks compute longer: {}", change.words())
            }
            Cause::Compute(change) => {
                format!("{moved}: all ranks compute longer, as at lower clocks: {}", change.words())
            }
            Cause::StageLink(change) => {
                format!("{moved}: a slow link between stages: {}", change.words())
            }
            Cause::Exchange(change) => {
                format!("{moved}: a slow exchange between replicas: {}", change.words())
            }
            Cause::Other(change) => format!("{moved}: {}", change.words()),
            Cause::Unknown => format!(
                "{moved}: the log does not say why; --timing-log-level 2 --timing-log-option minmax makes Megatron-LM print \
                 the times of ranks"
            ),
            Cause::Back => format!("{moved}: as at first"),
        }
    }
}

impl Change {
    fn words(&self) -> String {
        let mut text = format!("{} takes", self.now.name);
        for (word, timer) in [("", &self.now), (", before", &self.before)] {
            let _ = write!(text, "{word} {:.3} to {:.3} s", timer.least, timer.most);
        }
        text
    }
}

/// The cause that a grown timer of Megatron-LM stands for.
pub(super) fn of_timer(change: Change) -> Cause {
    let name = change.now.name.as_str();
    let has = |parts: &[&str]| parts.iter().any(|part| name.contains(part));
    if has(&["send", "recv"]) {
        return Cause::StageLink(change);
    }
    if has(&["grads", "params-all-gather", "all-gather", "all-reduce", "reduce-scatter"]) {
        return Cause::Exchange(change);
    }
    if has(&["compute"]) {
        let least = change.now.least - change.before.least;
        let most = change.now.most - change.before.most;
        return if least > most / 2.0 { Cause::Compute(change) } else { Cause::Straggler(change) };
    }
    Cause::Other(change)
}
