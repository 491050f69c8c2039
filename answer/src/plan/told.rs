//! A set-up that was asked for: every part of its step and of its memory.

use pipeline::{Bytes, LayerLayout};
use plan::{Lacks, Overflow, StageMemory, number};
use question::format;
use question::plan::Question;
use serde::Serialize;

use super::experts::{OfExperts, OfStreams};
use super::parts::{self, Part};
use super::priced::{Plan, seconds};
use super::tables::{amount, days, dealt, error, least};
use super::{OfDocuments, Planned};

/// A set-up with every part of its step and of its memory.
#[derive(Serialize)]
pub struct Told {
    /// The name of the machine, or of all with a plus.
    pub machine: String,
    /// Devices in all.
    pub devices: u64,
    /// Whether every device surely holds its part: with the error of predicted memory to spare.
    pub fits: bool,
    /// Whether every device holds its part if it holds no more than predicted.
    pub may_fit: bool,
    /// The stage that holds most.
    pub fullest_stage: usize,
    /// The memory that the stage which lacks most lacks, if one does.
    pub lacks_bytes: Option<u64>,
    /// A step, in nanoseconds.
    pub step_ns: u64,
    /// What no order of its passes undercuts in the memory of its devices, in nanoseconds; nothing where no bound is
    /// known.
    pub least_step_ns: Option<u64>,
    /// Tokens a second of each device.
    pub tokens_per_second_per_device: f64,
    /// Model FLOPs a second of each device, in units of 10^12.
    pub tflops_per_device: f64,
    /// Where documents are packed into sequences, what they make of a step.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub documents: Option<OfDocuments>,
    /// Where the question says how experts are chosen, what the fullest device has to do.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub experts: Option<OfExperts>,
    /// Where passes of a pair share two streams, what all-to-alls do beside compute.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub streams: Option<OfStreams>,
    /// The layers of each chunk, as Megatron-LM writes them.
    pub layout: Option<String>,
    /// The stage that works longest, of which the time is told.
    pub busiest_stage: usize,
    /// The parts of a step; they add up to it.
    pub time: Vec<Part>,
    /// The memory of a device of each stage.
    pub memory: Vec<OfStage>,
}

/// The memory of a device of a stage, by part.
#[derive(Serialize)]
pub struct OfStage {
    /// Which stage.
    pub stage: usize,
    /// Its layers.
    pub layers: u64,
    /// What it holds, by name, in bytes.
    pub parts: Vec<Held>,
    /// All of it.
    pub bytes: u64,
    /// What may be used of the device.
    pub device_bytes: u64,
}

/// A part of what a device holds.
#[derive(Clone, Copy, PartialEq, Eq, Serialize, Debug)]
pub struct Held {
    /// Its name.
    pub name: &'static str,
    /// Its size.
    pub bytes: u64,
}

/// The parts of `memory`; they add up to it.
#[must_use]
pub fn held(memory: &StageMemory) -> Vec<Held> {
    let StageMemory { parameters, gradients, optimizer, activations, buffers } = *memory;
    let all = [
        ("parameters", parameters),
        ("gradients", gradients),
        ("optimizer", optimizer),
        ("activations", activations),
        ("buffers", buffers),
    ];
    all.map(|(name, Bytes(bytes))| Held { name, bytes }).to_vec()
}

impl Told {
    /// Of `plan`, which answers `question`.
    #[must_use]
    pub fn of(question: &Question, plan: &Plan) -> Self {
        let cluster = &question.clusters[plan.cluster];
        let devices = cluster.devices();
        let costed = plan.finalist.costed();
        let rate = plan.tokens_per_second / number(devices);
        let (fullest_stage, _) = plan.finalist.evaluation.fullest();
        Self {
            machine: cluster.name(),
            devices,
            fits: plan.lacks.is_none(),
            may_fit: plan.lacks.is_none_or(|lacks| lacks.may_hold.is_some()),
            fullest_stage: plan.lacks.map_or(fullest_stage, |lacks| lacks.overflow.stage),
            lacks_bytes: plan.lacks.map(|lacks| lacks.overflow.needs.0 - lacks.overflow.has.0),
            step_ns: plan.step.0,
            least_step_ns: plan.least_step.map(|least| least.0),
            tokens_per_second_per_device: rate,
            tflops_per_device: rate * question.model.model_flops() / 1e12,
            documents: plan.documents.clone(),
            experts: OfExperts::of(question, plan),
            streams: OfStreams::of(&plan.finalist),
            layout: layout(question, plan).map(|layout| layout.to_string()),
            busiest_stage: parts::busiest(&plan.finalist),
            time: plan.all_parts(),
            memory: (0..costed.shape.stages()).map(|stage| of_stage(plan, stage)).collect(),
        }
    }
}

/// What a device of `stage` holds.
fn of_stage(plan: &Plan, stage: usize) -> OfStage {
    let costed = plan.finalist.costed();
    let memory = &plan.finalist.evaluation.memory[stage];
    let placement = costed.setup.family.about().placement;
    let chunks = placement.chunks_of(costed.shape, stage);
    OfStage {
        stage,
        layers: chunks.map(|chunk| costed.layers[usize::from(chunk)]).sum(),
        parts: held(memory),
        bytes: memory.sum().0,
        device_bytes: costed.capacities[stage].0,
    }
}

/// The layers of the chunks of `plan` in model order, with those of multi-token prediction; none where
/// Megatron-LM has no words for them.
pub(super) fn layout(question: &Question, plan: &Plan) -> Option<LayerLayout> {
    plan.finalist.costed().layout(&question.model)
}

/// Every set-up that was asked for; none of a search.
pub(super) fn all(planned: &Planned) -> Vec<Told> {
    let Planned { question, answer, .. } = planned;
    if !question.is_of_one() {
        return Vec::new();
    }
    answer.plans.iter().map(|plan| Told::of(question, plan)).collect()
}

/// Whether `plan` fits, in words.
#[must_use]
pub fn room(plan: &Plan) -> String {
    let Some(lacks) = plan.lacks else {
        let (stage, held) = plan.finalist.evaluation.fullest();
        let [may, _] = plan.memory();
        let holds = format::size(held.sum());
        return format!("fits: stage {stage} holds most, {holds} of {}", format::size(may));
    };
    let Lacks { overflow: Overflow { stage, needs, has }, may_hold } = lacks;
    let [needs, has] = [needs, has].map(format::size);
    match may_hold.map(format::size) {
        Some(holds) => format!(
            "may fit: {needs} are predicted on stage {stage}, of {holds}; only up to {has} are sure, since \
             predicted memory may be off, either way"
        ),
        None => format!("does not fit: stage {stage} needs {needs} of {has}"),
    }
}

/// How fast `plan` is and what it costs, in words: a line each.
#[must_use]
pub fn figures(question: &Question, plan: &Plan) -> Vec<String> {
    let told = Told::of(question, plan);
    let mut lines = vec![format!(
        "a step takes {} (error: {}), of {} tokens",
        format::time(plan.step),
        error(plan),
        format::grouped(plan.tokens_per_second * seconds(plan.step)),
    )];
    lines.extend(least(plan));
    lines.extend(dealt(question, plan));
    lines.extend(plan.documents.iter().flat_map(OfDocuments::lines));
    lines.extend(told.experts.into_iter().flat_map(OfExperts::lines));
    lines.extend(told.streams.map(OfStreams::line));
    if let Some([median, p95]) = plan.percentiles {
        let [median, p95] = [median, p95].map(format::time);
        lines.push(format!("under noise half of all steps take at most {median}, 95 % {p95}"));
    }
    lines.push(format!(
        "{} tokens/s per device, {:.1} TFLOP/s per device, MFU {}, HFU {} of the {} peak",
        format::grouped(told.tokens_per_second_per_device),
        told.tflops_per_device,
        format::percent(plan.mfu),
        format::percent(plan.hfu),
        question.recipe.precision.name(),
    ));
    lines.push(format!(
        "{} days, {} GPU-hours, {} dollars; {:.2} % of the time is useful",
        days(plan.days),
        amount(plan.gpu_hours),
        amount(plan.dollars),
        100.0 * plan.goodput,
    ));
    let late = question.deadline_days.filter(|deadline| plan.days > *deadline);
    lines.extend(late.map(|deadline| format!("the deadline of {deadline:?} days is missed")));
    lines
}

/// The columns of [`time`].
pub const TIME: [&str; 3] = ["part of a step", "seconds", "share"];

/// The parts of a step, and the step.
#[must_use]
pub fn time(plan: &Plan) -> Vec<Vec<String>> {
    let line = |name: &str, seconds: f64, share: f64| {
        vec![name.to_owned(), format!("{seconds:.4}"), format::percent(share)]
    };
    let parts = plan.all_parts();
    let parts = parts.iter().map(|part| line(part.name, part.seconds(), part.share));
    parts.chain([line("all", seconds(plan.step), 1.0)]).collect()
}

/// The columns of [`memory`].
#[must_use]
pub fn memory_columns() -> Vec<&'static str> {
    let parts = held(&StageMemory::default());
    let names = parts.into_iter().map(|one| one.name);
    ["stage", "layers"].into_iter().chain(names).chain(["all", "may use"]).collect()
}

/// The memory of the stages of `plan` in GiB: stages beside each other that are alike share a line.
#[must_use]
pub fn memory(plan: &Plan) -> Vec<Vec<String>> {
    let stages: Vec<OfStage> =
        (0..plan.finalist.costed().shape.stages()).map(|stage| of_stage(plan, stage)).collect();
    let key = |one: &OfStage| (one.layers, one.parts.clone(), one.device_bytes);
    let alike = stages.chunk_by(|one, next| key(one) == key(next));
    let gib = |bytes: u64| format!("{:.2}", number(bytes) / f64::from(1 << 30));
    let line = |run: &[OfStage]| {
        let [first, ..] = run else { return Vec::new() };
        let stages = match run {
            [.., last] if last.stage > first.stage => format!("{}-{}", first.stage, last.stage),
            _ => first.stage.to_string(),
        };
        let parts = first.parts.iter().map(|one| gib(one.bytes));
        [stages, first.layers.to_string()]
            .into_iter()
            .chain(parts)
            .chain([gib(first.bytes), gib(first.device_bytes)])
            .collect()
    };
    alike.map(line).collect()
}
