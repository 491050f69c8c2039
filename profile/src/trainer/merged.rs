//! One profile of several recordings of the same model.

use super::{Backward, RecordedChunk, RecordedError, TrainerProfile};
use crate::quantity::Quantity;

impl TrainerProfile {
    /// The profile of all samples of `others` and of this one, such as of a schedule whose backwards are split and of one
    /// in which they are whole. Machine, microbatches and sizes are those of the first in which they are known.
    ///
    /// # Errors
    /// [`RecordedError::Differ`] if the chunks of another profile are not those of this one.
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
        let forward = joined(Some(self.forward.clone()), Some(other.forward));
        let [(input, weight, whole), (others_input, others_weight, others_whole)] =
            [self.backward, other.backward].map(Backward::parts);
        let (input, weight) = (joined(input, others_input), joined(weight, others_weight));
        let whole = joined(whole, others_whole);
        let backward = match (input.zip(weight), whole) {
            (Some((input, weight)), whole) => Backward::Split { input, weight, whole },
            (None, Some(whole)) => Backward::Whole(whole),
            // Every chunk has a backward of one form or the other.
            (None, None) => Backward::Whole(self.forward.clone()),
        };
        Self {
            forward: forward.unwrap_or(self.forward),
            backward,
            footprint: smallest(self.footprint, other.footprint),
        }
    }
}

impl Backward {
    /// B, W and BW, where they were recorded.
    fn parts(self) -> (Option<Quantity>, Option<Quantity>, Option<Quantity>) {
        match self {
            Self::Whole(whole) => (None, None, Some(whole)),
            Self::Split { input, weight, whole } => (Some(input), Some(weight), whole),
        }
    }
}

/// The samples of both.
fn joined(one: Option<Quantity>, other: Option<Quantity>) -> Option<Quantity> {
    let (Some(first), Some(second)) = (&one, &other) else { return one.or(other) };
    Quantity::of([first.samples(), second.samples()].concat())
}

/// A recording without W does not tell what is held until W: the one that holds less there tells more.
fn smallest(
    one: Option<pipeline::Footprint>,
    other: Option<pipeline::Footprint>,
) -> Option<pipeline::Footprint> {
    one.into_iter().chain(other).min_by_key(|held| held.until_weight)
}
