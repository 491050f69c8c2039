//! Idle time by cause, for the page: each gap of the last step, and a table of the totals.

use std::borrow::Cow;

use pipeline::Nanos;
use serde::Serialize;
use sim::engine::Run;
use sim::explain::{Cause, Gaps};

use super::pack;

/// Why stages wait in the last step.
pub struct Idle<'a> {
    pub gaps: Cow<'a, Gaps>,
    /// In all: the lines of a table.
    pub keys: Vec<Key>,
}

/// The use of time of a stage of average idleness.
#[derive(Clone, Serialize)]
pub struct Key<C = Cause> {
    /// The name of the activity.
    pub name: String,
    /// Why, where it waits for one cause; for the script, the cause's place among those of the page.
    pub cause: Option<C>,
    /// How long, in words.
    pub time: String,
    /// Which part of the step, in words.
    pub share: String,
}

impl Key {
    /// The same for the script of a page with those `causes`.
    fn among(&self, causes: &[Cause]) -> Key<usize> {
        let Self { name, cause, time, share } = self.clone();
        let cause = cause.and_then(|cause| causes.iter().position(|one| *one == cause));
        Key { name, cause, time, share }
    }
}

impl Idle<'_> {
    /// The end of the step on the stage that ends last.
    pub(super) fn end(&self) -> u64 {
        let begin = self.gaps.begins.iter().max().copied().unwrap_or_default();
        begin.0.saturating_add(self.gaps.cost.0)
    }
}

/// The causes of a page: those of streams only where there are such, of segments or of collectives.
pub(super) fn causes([streams, collectives]: [bool; 2]) -> Vec<Cause> {
    let is_there = |cause: &Cause| match cause {
        Cause::CommunicationNotHidden => streams,
        Cause::CollectivesNotHidden => collectives,
        _ => true,
    };
    Cause::ALL.into_iter().filter(is_there).collect()
}

/// Name and colour of `causes`: apart from those of passes.
pub(super) fn keys(causes: &[Cause]) -> Vec<[&'static str; 2]> {
    let colour = |cause| match cause {
        Cause::Noise => "#d6246e",
        Cause::Synchronisation => "#7a4fb8",
        Cause::Memory => "#8c7a1e",
        Cause::SharedLinks => "#e8d43c",
        Cause::CommunicationNotHidden => "#b45fd0",
        Cause::CollectivesNotHidden => "#5fa8d0",
        Cause::Communication => "#f4a6c8",
        Cause::UnequalStages => "#b7a8e6",
        Cause::Structure => "#d9d9d9",
    };
    causes.iter().map(|&cause| [cause.name(), colour(cause)]).collect()
}

/// The data for the script.
#[derive(Serialize)]
pub(super) struct IdleData {
    /// Why nothing can be said.
    note: Option<String>,
    cost: u64,
    begins: Vec<u64>,
    /// By stage, which slot of all steps is the first of the last step.
    first: Vec<usize>,
    /// By stage, the gaps that are owed to anything, packed.
    gaps: Vec<String>,
    keys: Vec<Key<usize>>,
}

impl IdleData {
    /// As a page with those `causes` has it.
    pub(super) fn of(idle: &Result<Idle<'_>, String>, run: &Run, causes: &[Cause]) -> Self {
        let idle = match idle {
            Ok(idle) => idle,
            Err(note) => return Self::none(note.clone()),
        };
        let gaps = &idle.gaps;
        let spans = run.timeline.stages.iter().zip(&gaps.stages);
        Self {
            note: None,
            cost: gaps.cost.0,
            begins: gaps.begins.iter().map(|Nanos(begin)| *begin).collect(),
            first: spans
                .map(|(spans, gaps)| (spans.len() + 1).saturating_sub(gaps.len()))
                .collect(),
            gaps: gaps.stages.iter().map(|gaps| pack::gaps(gaps, causes)).collect(),
            keys: idle.keys.iter().map(|key| key.among(causes)).collect(),
        }
    }

    fn none(note: String) -> Self {
        let (begins, first, gaps, keys) = (Vec::new(), Vec::new(), Vec::new(), Vec::new());
        Self { note: Some(note), cost: 0, begins, first, gaps, keys }
    }
}
