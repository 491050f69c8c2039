//! The parts of a step, on the stage that works longest. They add up to it, to the nanosecond.

use pipeline::overlap::Stream;
use pipeline::{Nanos, Order, Placement};
use plan::{Boundary, Costed, Finalist, Part as LayerPart, PartTimes};
use question::object;
use serde::{Serialize, Serializer};
use sim::streams::{StreamTimes, Streams};

use super::documents::PackedSteps;
use super::priced::{Plan, seconds};

/// The output layer, the loss and multi-token prediction.
const HEAD: &str = "head and loss";

/// A part of a step.
#[derive(Clone, Copy, PartialEq, Debug)]
pub struct Part {
    pub name: &'static str,
    /// Nanoseconds of a step; negative where a part that was counted separately is hidden behind other
    /// parts.
    pub nanos: i64,
    /// Its share of the step.
    pub share: f64,
}

impl Part {
    /// Seconds of a step.
    #[must_use]
    #[allow(clippy::cast_precision_loss)] // Of years alone.
    pub fn seconds(&self) -> f64 {
        self.nanos as f64 / 1e9
    }
}

impl Serialize for Part {
    fn serialize<S: Serializer>(&self, serializer: S) -> Result<S::Ok, S::Error> {
        let Self { name, share, .. } = *self;
        object!(name = name, seconds = self.seconds(), share = share).serialize(serializer)
    }
}

impl Plan {
    /// The parts of the step, on the stage that works longest; they add up to it.
    #[must_use]
    pub fn parts(&self) -> Vec<Part> {
        of(self, false)
    }

    /// The same, the longest first.
    #[must_use]
    pub fn longest_parts(&self) -> Vec<Part> {
        let mut parts = self.parts();
        parts.sort_by_key(|part| std::cmp::Reverse(part.nanos));
        parts
    }

    /// Those of [`Self::parts`] with the bubble before, between and after the passes of that stage as separate parts.
    #[must_use]
    pub fn all_parts(&self) -> Vec<Part> {
        of(self, true)
    }
}

/// The stage that works longest in a step of `finalist`.
pub(super) fn busiest(finalist: &Finalist) -> usize {
    let stages = finalist.metrics.stages.iter().enumerate();
    stages.max_by_key(|(_, times)| times.busy).map_or(0, |(stage, _)| stage)
}

/// The parts of the step of `plan`; with `apart`, the bubble is split into fill, drain and the rest.
pub(super) fn of(plan: &Plan, apart: bool) -> Vec<Part> {
    let mut parts = of_run(&plan.finalist, plan.boundary, apart);
    parts.extend(plan.documents.iter().flat_map(PackedSteps::parts));
    let whole = seconds(plan.step);
    let part = |(name, nanos): (&'static str, i64)| {
        let part = Part { name, nanos, share: 0.0 };
        Part { share: part.seconds() / whole, ..part }
    };
    parts.into_iter().map(part).collect()
}

/// The parts of the step that `finalist` ran, in nanoseconds.
pub(super) fn of_run(
    finalist: &Finalist,
    boundary: Boundary,
    apart: bool,
) -> Vec<(&'static str, i64)> {
    let costed = finalist.costed();
    let stage = busiest(finalist);
    let times = finalist.metrics.stages[stage];
    let mut parts = of_passes(costed, stage);
    let [busy, sending, step, exchange, optimizer, latency] = [
        times.busy,
        finalist.sending.get(stage).copied().unwrap_or_default(),
        finalist.step,
        costed.exchange,
        costed.optimizer,
        costed.latency,
    ]
    .map(signed);
    if let Some(streams) = of_streams(finalist, stage) {
        share_streams(&mut parts, streams, travel(finalist, stage));
    }
    let known: i64 = parts.iter().map(|(_, time)| time).sum();
    parts.push(("kernel launches and waits for parameters", busy - known));
    parts.push(("transfers between stages", sending));
    let passes = step - exchange - optimizer - latency;
    let bubble = passes - busy - sending;
    // Only where all stages meet before a step does its clock begin at the first of them.
    if apart && boundary == Boundary::Barrier {
        let fill = signed(times.first_start);
        // Sends after the last pass are counted with all sends.
        let drain = (passes - signed(times.last_end)).min(bubble - fill).max(0);
        parts.push(("bubble: until the first pass comes", fill));
        parts.push(("bubble: between passes", bubble - fill - drain));
        parts.push(("bubble: after the last pass", drain));
    } else {
        parts.push(("bubble", bubble));
    }
    parts.push(("gradient exchange and tied embedding", exchange));
    parts.push(("optimizer", optimizer));
    if latency > 0 {
        parts.push(("once a step, and the slowest of many devices", latency));
    }
    parts
}

/// Times of both streams of `stage` in a step of `finalist`, where passes share two.
pub(super) fn of_streams(finalist: &Finalist, stage: usize) -> Option<StreamTimes> {
    let orders = finalist.schedule().orders();
    Streams::of(&finalist.costs).zip(orders.get(stage)).map(|(mut all, order)| all.order(order))
}

/// How long all-to-alls of `stage` take in a step, alone.
fn travel(finalist: &Finalist, stage: usize) -> i64 {
    let slots = finalist.schedule().orders().get(stage).into_iter().flat_map(Order::slots);
    let overlap = finalist.costs.overlap();
    let of = |slot| overlap.map_or(Nanos(0), |one| one.work(slot, Stream::Communication));
    signed(slots.map(of).sum())
}

/// Turns `parts` of passes that run one after the other into those of passes that share two streams,
/// where a part of the all-to-alls, `travel` in all, is hidden. All-to-alls of multi-token prediction
/// are counted with the head.
fn share_streams(parts: &mut Vec<(&'static str, i64)>, streams: StreamTimes, travel: i64) {
    let name = LayerPart::AllToAll.name();
    let reported: i64 = parts.iter().filter(|part| part.0 == name).map(|part| part.1).sum();
    for (part, time) in parts.iter_mut() {
        match *part {
            part if part == name => *time = signed(streams.exposed),
            HEAD => *time = (*time - (travel - reported)).max(0),
            _ => {}
        }
    }
    parts.push(("compute slowed by overlapped all-to-alls", signed(streams.stretched)));
}

/// Times of the passes of `stage` in a step: layers, part by part, and the head.
fn of_passes(costed: &Costed, stage: usize) -> Vec<(&'static str, i64)> {
    let microbatches = f64::from(costed.shape.microbatches());
    let placement = costed.setup.family.about().placement;
    let chunks = placement.chunks_of(costed.shape, stage);
    let own: Vec<usize> = chunks.map(usize::from).collect();
    let halves = if placement == Placement::Mirrored { 0.5 } else { 1.0 };
    let layers = own.iter().fold(PartTimes::default(), |sum, &chunk| sum.plus(costed.parts[chunk]));
    let layers = layers.times(microbatches * halves);
    let head: f64 = own.iter().map(|&chunk| costed.ends[chunk].sum()).sum();
    let shard = costed.apart.shards().get(stage).copied().unwrap_or_default();
    let head = (head * halves + seconds(shard.before + shard.after)) * microbatches;
    // Host time is reported with the rest that is not a kernel.
    let kernels = LayerPart::ALL.into_iter().filter(|part| *part != LayerPart::Host);
    let kernels = kernels.map(|part| (part.name(), whole(layers.of(part))));
    // Parts that a model or a set-up does not have are left out.
    kernels.filter(|(_, time)| *time > 0).chain([(HEAD, whole(head))]).collect()
}

/// Whole nanoseconds.
#[allow(clippy::cast_possible_truncation)] // A cast of floats saturates.
pub(super) fn whole(seconds: f64) -> i64 {
    (seconds * 1e9).round() as i64
}

fn signed(time: Nanos) -> i64 {
    i64::try_from(time.0).unwrap_or(i64::MAX)
}
