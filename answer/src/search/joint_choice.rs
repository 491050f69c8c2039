//! The choice of a joint search in words, and the published schedules that it beats.

use std::collections::BTreeSet;

use cases::{Joint, SearchedJointly};
use pipeline::{LayerLayout, Nanos, Placement, Schedule};
use question::scenario::Setting;
use question::sheet::Sheet;
use question::values::passes::Recomputed;
use question::{format, table};
use search::{BestPublished, Choice};
use serde::Serialize;

/// The choice of a joint search for a row, and the alternatives that it beats.
pub struct JointChoice {
    /// The question with the choice filled in: input of `debubble simulate` beside the order.
    pub setting: Setting,
    /// The choice itself.
    pub(super) choice: Choice,
    /// The same in words of the question.
    pub summary: ChosenSettings,
    /// Cost of the order searched with the settings of the question, if one fits.
    pub asked: Option<Nanos>,
    /// Each published schedule that fits, with its best settings, the cheapest first.
    pub published: Vec<WithSettings>,
    /// No order of any choice costs less, if that is proved for the objective.
    pub bound: Option<Nanos>,
    /// The choices tried.
    pub tried: u64,
}

/// A choice in words of the question.
#[derive(Clone, Serialize)]
pub struct ChosenSettings {
    chunks: u16,
    placement: &'static str,
    /// Layers of each chunk, if the question has any.
    pub(super) layout: Option<String>,
    /// Recomputation of each chunk; one word where all are alike.
    pub(super) recompute: String,
    /// The chunks that go to the host, if that was chosen.
    #[serde(skip_serializing_if = "Option::is_none")]
    offload: Option<Vec<u16>>,
    /// Whether F and B run in pairs, if that was chosen.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub(super) pairs: Option<bool>,
}

/// A published schedule with its best settings.
#[derive(Serialize)]
pub struct WithSettings {
    pub(super) schedule: &'static str,
    #[serde(flatten)]
    summary: ChosenSettings,
    pub(super) cost_ns: u64,
    /// By how much the answer is below it, as a share of it.
    gain: f64,
    peak_bytes: u64,
}

impl ChosenSettings {
    fn of(joint: &Joint<'_>, choice: &Choice) -> Self {
        let setting = joint.setting(choice);
        let (space, chunks) = (joint.space(), 0..);
        let hosted = |host: usize| {
            let all = chunks.zip(&choice.activations).filter(|(_, one)| **one == host);
            all.map(|(chunk, _)| chunk).collect()
        };
        let layout = setting.and_then(|setting| setting.keys.layout);
        Self {
            chunks: choice.chunks_per_stage,
            placement: match choice.placement {
                Placement::Vee => "v",
                Placement::Looped | Placement::Mirrored => "looped",
            },
            layout: layout.as_ref().map(LayerLayout::to_string),
            recompute: recomputed(&joint.recomputed(choice)),
            offload: space.host.map(hosted),
            pairs: space.chooses_pairs.then_some(choice.pairs),
        }
    }

    /// The same where the chunks that go to the host are those that `schedule` copies.
    fn copying(self, schedule: &Schedule) -> Self {
        let streams = schedule.copies().into_iter().flat_map(|copies| copies.stages());
        let chunks = streams.flatten().flatten().map(|copy| copy.chunk);
        let chunks: BTreeSet<u16> = chunks.collect();
        let offload = self.offload.map(|_| chunks.into_iter().collect());
        Self { offload, ..self }
    }

    /// The chunks that go to the host, if that was chosen; a dash where none does.
    pub(super) fn offload(&self) -> Option<String> {
        self.offload.as_deref().map(runs)
    }

    /// The rest of the choice, in words.
    pub(super) fn besides(&self) -> String {
        let host = self.offload.as_deref().map(|chunks| match chunks {
            [] => ", nothing to the host".to_owned(),
            [chunk] => format!(", chunk {chunk} to the host"),
            chunks => format!(", chunks {} to the host", runs(chunks)),
        });
        let pairs = self.pairs.map(|pairs| match pairs {
            true => ", F and B in pairs on two streams".to_owned(),
            false => ", passes one after the other".to_owned(),
        });
        host.into_iter().chain(pairs).collect()
    }

    /// Chunks per stage and their placement, in a sentence.
    pub(super) fn chunks_in_words(&self) -> String {
        match (self.chunks, self.placement) {
            (1, _) => "1 chunk a stage".to_owned(),
            (own, "v") => format!("{own} chunks a stage in a V"),
            (own, _) => format!("{own} chunks a stage, looped"),
        }
    }

    /// Chunks per stage, and their placement.
    pub(super) fn chunks(&self) -> String {
        match self.chunks {
            1 => "1".to_owned(),
            own if self.placement == "v" => format!("{own} in a V"),
            own => format!("{own} looped"),
        }
    }
}

/// The published schedules with their settings, and the gain of the answer over each.
pub(super) fn table(published: &[WithSettings]) -> Sheet {
    let first = published.first().map(|one| &one.summary);
    table!(
        one = published,
        "published" = one.schedule,
        "v" = one.summary.chunks(),
        "layers" = one.summary.layout,
        "recompute" = one.summary.recompute,
        "to the host"[first.is_some_and(|first| first.offload.is_some())] = one.summary.offload(),
        "in pairs"[first.is_some_and(|first| first.pairs.is_some())] = one.summary.pairs,
        "cost" = Nanos(one.cost_ns),
        "saved" = format::percent(one.gain),
    )
}

impl JointChoice {
    pub(super) fn of(joint: &Joint<'_>, done: &SearchedJointly) -> Self {
        let found = &done.found;
        let cost = found.found.cost;
        let published = |one: &BestPublished| WithSettings {
            schedule: one.family.name(),
            summary: ChosenSettings::of(joint, &one.choice),
            cost_ns: one.cost.0,
            gain: gain(cost, one.cost),
            peak_bytes: one.peak.0,
        };
        Self {
            setting: done.setting.clone(),
            choice: found.choice.clone(),
            summary: ChosenSettings::of(joint, &found.choice).copying(&found.found.schedule),
            asked: found.asked,
            published: found.published.iter().map(published).collect(),
            bound: Some(found.bound),
            tried: found.tried,
        }
    }

    /// The choice where its costs were those of the first table, and the objective is one of simulations of `setting`.
    pub(super) fn simulated(self, setting: Setting) -> Self {
        Self { setting, bound: None, ..self }
    }
}

/// `chunks`, which ascend, those that follow one another as a range; a dash where there are none.
fn runs(chunks: &[u16]) -> String {
    let mut runs: Vec<[u16; 2]> = Vec::new();
    for &chunk in chunks {
        match runs.last_mut() {
            Some([_, last]) if *last + 1 == chunk => *last = chunk,
            _ => runs.push([chunk; 2]),
        }
    }
    let ranges = runs.into_iter().map(|[first, last]| match first == last {
        true => first.to_string(),
        false => format!("{first}-{last}"),
    });
    let ranges: Vec<String> = ranges.collect();
    if ranges.is_empty() { "-".to_owned() } else { ranges.join(",") }
}

/// Recomputation of each chunk, separated by commas; once where all are alike.
fn recomputed(parts: &[Recomputed]) -> String {
    match parts {
        [first, rest @ ..] if rest.iter().all(|one| one == first) => first.to_string(),
        all => all.iter().map(Recomputed::to_string).collect::<Vec<_>>().join(","),
    }
}

/// By how much `cost` is below `other`, as a share of that.
#[allow(clippy::cast_precision_loss)] // For a share.
pub(super) fn gain(cost: Nanos, other: Nanos) -> f64 {
    1.0 - cost.0 as f64 / other.0.max(1) as f64
}
