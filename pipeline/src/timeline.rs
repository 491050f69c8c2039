//! When passes ran, predicted or measured, and what can be said about it.

use crate::pass::Slot;
use crate::units::Nanos;

/// One slot in time.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
#[cfg_attr(feature = "serde", derive(serde::Serialize, serde::Deserialize))]
pub struct Span {
    /// The slot that ran.
    pub slot: Slot,
    /// When it began.
    #[cfg_attr(feature = "serde", serde(rename = "start_ns", with = "crate::nanoseconds"))]
    pub start: Nanos,
    /// When it ended.
    #[cfg_attr(feature = "serde", serde(rename = "end_ns", with = "crate::nanoseconds"))]
    pub end: Nanos,
}

/// All slots of a step in time, by stage, each stage in order. Time 0 is the start of the step.
#[derive(Clone, PartialEq, Eq, Debug)]
#[cfg_attr(feature = "serde", derive(serde::Serialize, serde::Deserialize))]
pub struct Timeline {
    /// The spans of each stage.
    pub stages: Vec<Vec<Span>>,
}

/// When a stage worked.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
#[cfg_attr(feature = "serde", derive(serde::Serialize, serde::Deserialize))]
pub struct StageTimes {
    /// Start of its first slot.
    #[cfg_attr(feature = "serde", serde(rename = "first_start_ns", with = "crate::nanoseconds"))]
    pub first_start: Nanos,
    /// End of its last slot.
    #[cfg_attr(feature = "serde", serde(rename = "last_end_ns", with = "crate::nanoseconds"))]
    pub last_end: Nanos,
    /// Sum of its slots.
    #[cfg_attr(feature = "serde", serde(rename = "busy_ns", with = "crate::nanoseconds"))]
    pub busy: Nanos,
}

/// How long a step took and how much of it was bubble.
#[derive(Clone, PartialEq, Eq, Debug)]
#[cfg_attr(feature = "serde", derive(serde::Serialize, serde::Deserialize))]
pub struct Metrics {
    /// When each stage worked.
    pub stages: Vec<StageTimes>,
}

impl Metrics {
    /// The metrics of a predicted or measured timeline; a stage without slots never worked.
    #[must_use]
    pub fn of(timeline: &Timeline) -> Self {
        let stage = |spans: &Vec<Span>| StageTimes {
            first_start: spans.first().map_or(Nanos(0), |span| span.start),
            last_end: spans.last().map_or(Nanos(0), |span| span.end),
            busy: spans.iter().map(|span| span.end - span.start).sum(),
        };
        Self { stages: timeline.stages.iter().map(stage).collect() }
    }

    /// Absolute end of the last slot of any stage.
    #[must_use]
    #[inline]
    pub fn makespan(&self) -> Nanos {
        self.stages.iter().map(|stage| stage.last_end).max().unwrap_or_default()
    }

    /// The longest time from the start of the first to the end of the last slot of one stage, each as soon as it
    /// can. With a step boundary that does not synchronise the stages, a step takes no longer, and less where a stage
    /// can begin later without delaying another one.
    #[must_use]
    pub fn span(&self) -> Nanos {
        let spans = self.stages.iter().map(|stage| stage.last_end - stage.first_start);
        spans.max().unwrap_or_default()
    }

    /// Busy time of the average stage, rounded down.
    #[must_use]
    pub fn work(&self) -> Nanos {
        mean_busy(self.stages.len(), self.total_busy())
    }

    /// Share of [`Self::span`] in which the average stage waits: (span - work) / span.
    #[must_use]
    pub fn bubble_rate(&self) -> f64 {
        self.bubble_rate_of(self.span())
    }

    /// Share of [`Self::makespan`] in which the average stage waits: (makespan - work) / makespan.
    #[must_use]
    pub fn bubble_rate_makespan(&self) -> f64 {
        self.bubble_rate_of(self.makespan())
    }

    /// Share of `cost` in which the average stage waits, (cost - work) / cost; 0 of nothing.
    #[must_use]
    pub fn bubble_rate_of(&self, cost: Nanos) -> f64 {
        bubble_rate(cost, self.stages.len(), self.total_busy())
    }

    /// Sum of all slots of all stages, in nanoseconds.
    #[must_use]
    pub fn total_busy(&self) -> u128 {
        self.stages.iter().map(|stage| u128::from(stage.busy.0)).sum()
    }
}

/// Busy time of the average of `stages` that are `busy` for so many nanoseconds together, rounded down.
#[must_use]
pub fn mean_busy(stages: usize, busy: u128) -> Nanos {
    Nanos(u64::try_from(busy / stages.max(1) as u128).unwrap_or(u64::MAX))
}

/// Share of `cost` in which the average of `stages` waits that are `busy` for so many nanoseconds together; 0 of nothing.
#[must_use]
#[allow(clippy::cast_precision_loss)]
pub fn bubble_rate(cost: Nanos, stages: usize, busy: u128) -> f64 {
    let available = u128::from(cost.0) * stages as u128;
    if available == 0 {
        return 0.0;
    }
    available.saturating_sub(busy) as f64 / available as f64
}
