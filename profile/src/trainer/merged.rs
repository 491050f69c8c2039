//! One profile of several recordings of the same model.

use super::{Backward, RecordedChunk, RecordedError, TrainerProfile};
use crate::quantity::Quantity;

impl TrainerProfile {
    /// The profile of the pooled samples of this profile and `others`, such as of a schedule whose backwards are split and
    /// of one in which they are whole. Machine, microbatches and sizes are those of the first in which they are known.
    pub fn merged(self, others: Vec<Self>) -> Result<Self, RecordedError> {
        others.into_iter().try_fold(self, Self::merged_with)
    }

    fn merged_with(mut self, other: Self) -> Result<Self, RecordedError> {
        let what = [
            ("other chunks", self.chunks.len() == other.chunks.len()),
            ("other stages", self.stages == other.stages),
            ("another placement", self.placement == other.placement),
        ];
        if let Some((what, _)) = what.into_iter().find(|(_, same)| !same) {
            let (first, other) = (self.schedule, other.schedule);
            return Err(RecordedError::Differ { first, other, what });
        }
        if self.schedule != other.schedule {
            self.schedule = format!("{} and {}", self.schedule, other.schedule);
        }
        self.one_device &= other.one_device;
        self.message = self.message.or(other.message);
        self.hop = joined(self.hop, other.hop);
        self.overhead = joined(self.overhead, other.overhead);
        let chunks = self.chunks.into_iter().zip(other.chunks);
        self.chunks = chunks.map(|(one, other)| one.merged_with(other)).collect();
        Ok(self)
    }
}

impl RecordedChunk {
    fn merged_with(self, other: Self) -> Self {
        Self {
            forward: both(self.forward, &other.forward),
            backward: self.backward.merged_with(other.backward),
            footprint: smallest(self.footprint, other.footprint),
            resident: self.resident.or(other.resident),
        }
    }
}

impl Backward {
    fn merged_with(self, other: Self) -> Self {
        match (self, other) {
            (Self::Whole(one), Self::Whole(other)) => Self::Whole(both(one, &other)),
            (Self::Split { input, weight, whole }, Self::Whole(more))
            | (Self::Whole(more), Self::Split { input, weight, whole }) => {
                Self::Split { input, weight, whole: joined(whole, Some(more)) }
            }
            (
                Self::Split { input, weight, whole },
                Self::Split { input: i, weight: w, whole: bw },
            ) => Self::Split {
                input: both(input, &i),
                weight: both(weight, &w),
                whole: joined(whole, bw),
            },
        }
    }
}

/// The samples of both.
fn both(one: Quantity, other: &Quantity) -> Quantity {
    // Neither is without samples.
    Quantity::of([one.samples(), other.samples()].concat()).unwrap_or(one)
}

/// The samples of those that there are.
fn joined(one: Option<Quantity>, other: Option<Quantity>) -> Option<Quantity> {
    match (one, other) {
        (Some(one), Some(other)) => Some(both(one, &other)),
        (one, other) => one.or(other),
    }
}

/// A recording without W does not tell what is held until W: the one that holds less there tells more.
fn smallest(
    one: Option<pipeline::Footprint>,
    other: Option<pipeline::Footprint>,
) -> Option<pipeline::Footprint> {
    one.into_iter().chain(other).min_by_key(|held| held.until_weight)
}
