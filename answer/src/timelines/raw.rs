//! The file: JSON, version 1.
//!
//! ```text
//! {"version": 1, "source": "simulated" | "measured", "device": "...",
//!  "schedule": {"name": "zb-h1", "order": ["F0.0 F0.1 B0.0 ...", ...]},
//!  "costs": {"forward_ns": [...], "backward_input_ns": [...], "backward_weight_ns": [...],
//!            "hop_ns": 0},
//!  "steps": [{"loss": 1.5, "began_ns": 0, "stages": [{"end_ns": 9, "slots": [
//!    {"slot": "F1.0", "start_ns": 3, "end_ns": 5,
//!     "arrived": {"value": "output", "chunk": 0, "microbatch": 0, "at_ns": 3}}]}]}]}
//! ```
//!
//! `order` has the text form of each stage; `slots` stand in that order. `arrived` is the last value
//! that came from another stage or of which several stages made their part. Of a schedule with S and
//! T the first line of `order` is `vocabulary 1` or `vocabulary 2`, and `costs` has `shards`:
//! `{"before_ns": [...], "after_ns": [...], "broadcast_ns": 0, "statistics_ns": 0,
//! "hidden_gradient_ns": 0}`. `began_ns` counts from the beginning of the first step, all other
//! times of a step from its own. Where chunks recompute, `costs` has `recompute_ns`, by chunk the time of R
//! or null. `hop_ns` is a list, one for each link, where links differ. Where microbatches differ, `costs` has
//! `microbatch_work`, for each the factors of F, B and W. `costs` are by chunk, and may be missing, as may `loss`. A recording of
//! a trainer also has `recording`, see [`recording`](super::recording).

use pipeline::{
    Collectives, Costs, Measurement, MicrobatchWork, Nanos, PassTimes, ShardTimes, Step, Value,
};
use serde::{Deserialize, Serialize};

use super::bounded::bounded;
use super::hops::RawHops;
use super::recording::RawRecording;
use super::{Recorded, Source};

/// The version that is written.
pub(super) const VERSION: u32 = 1;

/// The whole file.
#[derive(Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub(super) struct Raw {
    version: u32,
    pub(super) source: Source,
    pub(super) device: String,
    pub(super) schedule: RawSchedule,
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub(super) costs: Option<RawCosts>,
    #[serde(deserialize_with = "bounded")]
    pub(super) steps: Vec<RawStep>,
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub(super) recording: Option<RawRecording>,
}

#[derive(Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub(super) struct RawSchedule {
    pub(super) name: String,
    #[serde(deserialize_with = "bounded")]
    pub(super) order: Vec<String>,
}

#[derive(Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub(super) struct RawCosts {
    #[serde(deserialize_with = "bounded")]
    pub(super) forward_ns: Vec<u64>,
    #[serde(deserialize_with = "bounded")]
    pub(super) backward_input_ns: Vec<u64>,
    #[serde(deserialize_with = "bounded")]
    pub(super) backward_weight_ns: Vec<u64>,
    #[serde(default, skip_serializing_if = "Vec::is_empty", deserialize_with = "bounded")]
    pub(super) backward_ns: Vec<u64>,
    pub(super) hop_ns: RawHops,
    #[serde(default, skip_serializing_if = "Vec::is_empty", deserialize_with = "bounded")]
    pub(super) recompute_ns: Vec<Option<u64>>,
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub(super) shards: Option<RawShards>,
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub(super) microbatch_work: Vec<[f64; 3]>,
}

#[derive(Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub(super) struct RawShards {
    #[serde(deserialize_with = "bounded")]
    pub(super) before_ns: Vec<u64>,
    #[serde(deserialize_with = "bounded")]
    pub(super) after_ns: Vec<u64>,
    pub(super) broadcast_ns: u64,
    pub(super) statistics_ns: u64,
    pub(super) hidden_gradient_ns: u64,
}

/// By chunk the time of R; empty where nothing is recomputed.
fn recompute(costs: &Costs) -> Vec<Option<u64>> {
    if !costs.has_recompute() {
        return Vec::new();
    }
    let chunks = (0u16..).zip(costs.chunks());
    chunks.map(|(chunk, _)| costs.recompute(chunk).map(|time| time.0)).collect()
}

/// The factors of F, B and W of each microbatch.
fn factors(work: &MicrobatchWork) -> Vec<[f64; 3]> {
    work.each().iter().map(|work| work.factors()).collect()
}

impl RawShards {
    /// None where the costs say nothing of shards.
    fn of(costs: &Costs) -> Option<Self> {
        let Collectives { broadcast, statistics, hidden_gradient } = costs.collectives();
        let by_stage = |of: fn(&ShardTimes) -> Nanos| -> Vec<u64> {
            costs.shards().iter().map(|times| of(times).0).collect()
        };
        (!costs.shards().is_empty()).then(|| Self {
            before_ns: by_stage(|times| times.before),
            after_ns: by_stage(|times| times.after),
            broadcast_ns: broadcast.0,
            statistics_ns: statistics.0,
            hidden_gradient_ns: hidden_gradient.0,
        })
    }
}

#[derive(Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub(super) struct RawStep {
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub(super) loss: Option<f64>,
    #[serde(default)]
    pub(super) began_ns: u64,
    #[serde(deserialize_with = "bounded")]
    pub(super) stages: Vec<RawStage>,
}

#[derive(Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub(super) struct RawStage {
    pub(super) end_ns: u64,
    pub(super) slots: Vec<RawSlot>,
}

#[derive(Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub(super) struct RawSlot {
    pub(super) slot: String,
    pub(super) start_ns: u64,
    pub(super) end_ns: u64,
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub(super) arrived: Option<RawArrival>,
}

#[derive(Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub(super) struct RawArrival {
    value: RawKind,
    chunk: u16,
    microbatch: u32,
    pub(super) at_ns: u64,
}

#[derive(Serialize, Deserialize)]
#[serde(rename_all = "lowercase")]
enum RawKind {
    Output,
    Gradient,
    Statistics,
    #[serde(rename = "hidden gradient")]
    HiddenGradient,
}

impl RawArrival {
    fn of((value, at): (Value, Nanos)) -> Self {
        let (kind, chunk, microbatch) = match value {
            Value::Output { chunk, microbatch } => (RawKind::Output, chunk, microbatch),
            Value::Gradient { chunk, microbatch } => (RawKind::Gradient, chunk, microbatch),
            Value::Statistics { microbatch } => (RawKind::Statistics, 0, microbatch),
            Value::HiddenGradient { microbatch } => (RawKind::HiddenGradient, 0, microbatch),
        };
        Self { value: kind, chunk, microbatch, at_ns: at.0 }
    }

    pub(super) const fn value(&self) -> Value {
        let Self { chunk, microbatch, .. } = *self;
        match self.value {
            RawKind::Output => Value::Output { chunk, microbatch },
            RawKind::Gradient => Value::Gradient { chunk, microbatch },
            RawKind::Statistics => Value::Statistics { microbatch },
            RawKind::HiddenGradient => Value::HiddenGradient { microbatch },
        }
    }
}

impl Raw {
    pub(super) fn of(recorded: &Recorded) -> Self {
        let text = recorded.schedule.to_string();
        let costs = recorded.costs.as_ref().map(|costs| {
            let by_chunk = |of: fn(&PassTimes) -> Nanos| {
                costs.chunks().iter().map(|times| of(times).0).collect()
            };
            RawCosts {
                forward_ns: by_chunk(|times| times.forward),
                backward_input_ns: by_chunk(|times| times.backward_input),
                backward_weight_ns: by_chunk(|times| times.backward_weight),
                backward_ns: match costs.has_whole() {
                    true => by_chunk(PassTimes::whole_backward),
                    false => Vec::new(),
                },
                hop_ns: RawHops::of(costs.hops()),
                recompute_ns: recompute(costs),
                shards: RawShards::of(costs),
                microbatch_work: costs.microbatch_work().map_or_else(Vec::new, factors),
            }
        });
        Self {
            version: VERSION,
            source: recorded.source,
            device: recorded.device.clone(),
            schedule: RawSchedule {
                name: recorded.name.clone(),
                order: text.lines().map(str::to_owned).collect(),
            },
            costs,
            steps: recorded.steps.iter().map(RawStep::of).collect(),
            recording: RawRecording::of(recorded),
        }
    }
}

impl RawStep {
    fn of(step: &Step) -> Self {
        let slot = |one: &Measurement| RawSlot {
            slot: one.slot.to_string(),
            start_ns: one.start.0,
            end_ns: one.end.0,
            arrived: one.arrived.map(RawArrival::of),
        };
        let stages = step.stages.iter().zip(&step.ends).map(|(slots, end)| RawStage {
            end_ns: end.0,
            slots: slots.iter().map(slot).collect(),
        });
        // JSON has no word for NaN.
        let loss = step.loss.filter(|loss| loss.is_finite());
        Self { loss, began_ns: step.began.0, stages: stages.collect() }
    }
}
