//! Report of a given set-up: every part of its step and of its memory.

use pipeline::Bytes;
use plan::{Finalist, Overflow, Shortage, StageMemory, number};
use planning::Question;
use question::sheet::Sheet;
use question::{format, table};
use serde::Serialize;

use super::chunk_layers::{dealt, layout};
use super::documents::PackedSteps;
use super::experts::{AllToAllOverlap, ExpertLoad};
use super::parts::{self, Part};
use super::planned::Planned;
use super::priced::{Plan, seconds};
use super::quantities::{amount, days, error, least};
use super::tables;

/// A set-up with every part of its step and of its memory.
#[derive(Serialize)]
pub struct SetupReport {
    /// The name of the machine, or of all with a plus.
    pub machine: String,
    /// Devices in all.
    pub devices: u64,
    /// Whether every device surely holds its part: with the error of predicted memory to spare.
    pub fits: bool,
    /// Whether every device holds its part if it holds no more than predicted.
    pub may_fit: bool,
    /// Odds that every device holds its part, by published peaks.
    pub fit_odds: f64,
    /// The stage that holds most.
    pub fullest_stage: usize,
    /// Shortage of the stage that lacks most, in bytes, if one does.
    pub memory_shortfall_bytes: Option<u64>,
    /// Deprecated name of `memory_shortfall_bytes`.
    pub lacks_bytes: Option<u64>,
    /// A step, in nanoseconds.
    pub step_ns: u64,
    /// Lower bound over all orders of its passes in the memory of its devices, in nanoseconds; nothing
    /// where no bound is known.
    pub step_lower_bound_ns: Option<u64>,
    /// Deprecated name of `step_lower_bound_ns`.
    pub least_step_ns: Option<u64>,
    /// Tokens a second of each device.
    pub tokens_per_second_per_device: f64,
    /// Model FLOPs a second of each device, in units of 10^12.
    pub tflops_per_device: f64,
    /// Steps with documents packed into sequences, where the question has lengths.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub documents: Option<PackedSteps>,
    /// Load of the fullest device of an expert group, where the question says how tokens choose
    /// experts.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub experts: Option<ExpertLoad>,
    /// Overlap of all-to-alls with compute, where passes of a pair share two streams.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub streams: Option<AllToAllOverlap>,
    /// The layers of each chunk, as Megatron-LM writes them.
    pub layout: Option<String>,
    /// The stage with the most work, whose time is reported.
    pub busiest_stage: usize,
    /// The parts of a step; they add up to it.
    pub time: Vec<Part>,
    /// The memory of a device of each stage.
    pub memory: Vec<StageMemoryReport>,
}

/// The memory of a device of a stage, by part.
#[derive(Serialize)]
pub struct StageMemoryReport {
    /// Which stage.
    pub stage: usize,
    pub layers: u64,
    /// Its memory by kind, in bytes.
    pub parts: Vec<MemoryItem>,
    pub bytes: u64,
    /// Bytes that may be used on the device.
    pub device_bytes: u64,
}

/// A kind of memory of a device.
#[derive(Clone, Copy, PartialEq, Eq, Serialize, Debug)]
pub struct MemoryItem {
    pub name: &'static str,
    /// Its size.
    pub bytes: u64,
}

/// The parts of `memory`, with those of graphs where some stage `has_graphs`; they add up to it.
#[must_use]
pub fn memory_items(memory: &StageMemory, has_graphs: bool) -> Vec<MemoryItem> {
    let StageMemory { parameters, gradients, optimizer, activations, graphs, buffers } = *memory;
    let all = [
        ("parameters", Some(parameters)),
        ("gradients", Some(gradients)),
        ("optimizer", Some(optimizer)),
        ("activations", Some(activations)),
        ("graphs", has_graphs.then_some(graphs)),
        ("buffers", Some(buffers)),
    ];
    let item = |(name, bytes): (_, Option<Bytes>)| Some(MemoryItem { name, bytes: bytes?.0 });
    all.into_iter().filter_map(item).collect()
}

/// Whether a stage of `plan` has static buffers of CUDA graphs.
#[must_use]
pub fn has_graphs(plan: &Plan) -> bool {
    plan.finalist.evaluation.memory.iter().any(|held| held.graphs > Bytes(0))
}

impl SetupReport {
    /// Of `plan`, which answers `question`.
    #[must_use]
    pub fn of(question: &Question, plan: &Plan) -> Self {
        let cluster = &question.clusters[plan.cluster];
        let devices = cluster.devices();
        let costed = plan.finalist.costed();
        let rate = plan.tokens_per_second / number(devices);
        let (fullest_stage, _) = plan.finalist.evaluation.fullest();
        let shortfall = plan.shortage.map(|one| one.overflow.needs.0 - one.overflow.has.0);
        let lower_bound = plan.least_step.map(|least| least.0);
        Self {
            machine: cluster.name(),
            devices,
            fits: plan.shortage.is_none(),
            may_fit: plan.shortage.is_none_or(|shortage| shortage.may_hold.is_some()),
            fit_odds: plan.fit_odds,
            fullest_stage: plan.shortage.map_or(fullest_stage, |shortage| shortage.overflow.stage),
            memory_shortfall_bytes: shortfall,
            lacks_bytes: shortfall,
            step_ns: plan.step.0,
            step_lower_bound_ns: lower_bound,
            least_step_ns: lower_bound,
            tokens_per_second_per_device: rate,
            tflops_per_device: rate * question.model.model_flops() / 1e12,
            documents: plan.documents.clone(),
            experts: ExpertLoad::of(question, plan),
            streams: AllToAllOverlap::of(&plan.finalist),
            layout: layout(plan).map(|layout| layout.to_string()),
            busiest_stage: parts::busiest(&plan.finalist),
            time: plan.all_parts(),
            memory: (0..costed.shape.stages()).map(|stage| of_stage(plan, stage)).collect(),
        }
    }
}

/// Memory of a device of `stage`.
fn of_stage(plan: &Plan, stage: usize) -> StageMemoryReport {
    let costed = plan.finalist.costed();
    let memory = &plan.finalist.evaluation.memory[stage];
    let placement = costed.setup.family.about().placement;
    let chunks = placement.chunks_of(costed.shape, stage);
    StageMemoryReport {
        stage,
        layers: chunks.map(|chunk| costed.layers[usize::from(chunk)]).sum(),
        parts: memory_items(memory, has_graphs(plan)),
        bytes: memory.sum().0,
        device_bytes: costed.capacities[stage].0,
    }
}

/// The report of every given set-up; none of a search.
pub(super) fn all(planned: &Planned) -> Vec<SetupReport> {
    let Planned { question, answer, .. } = planned;
    if !question.is_of_one() {
        return Vec::new();
    }
    answer.plans.iter().map(|plan| SetupReport::of(question, plan)).collect()
}

/// The least odds of what is said to fit without them: a memory cap alone leaves less.
const SURE: f64 = 0.95;

/// The odds that `plan` fits, in words.
pub(super) fn odds(plan: &Plan) -> String {
    format!("{:.0} %", (100.0 * plan.fit_odds).clamp(1.0, 99.0))
}

/// Whether `plan` fits, in words.
#[must_use]
pub fn fit(plan: &Plan) -> String {
    let words = fit_of(&plan.finalist, plan.shortage);
    match plan.shortage {
        None if plan.fit_odds < SURE => {
            words.replacen("fits", &format!("fits, with odds of {}", odds(plan)), 1)
        }
        Some(Shortage { may_hold: Some(_), .. }) => {
            format!("{words}; odds of {} by published peaks", odds(plan))
        }
        _ => words,
    }
}

/// Whether `finalist`, which is short of `shortage`, fits, in words.
pub(crate) fn fit_of(finalist: &Finalist, shortage: Option<Shortage>) -> String {
    let Some(shortage) = shortage else {
        let (stage, held) = finalist.evaluation.fullest();
        let [holds, may] = [held.sum(), finalist.costed().capacities[stage]].map(format::size);
        return format!("fits: stage {stage} holds most, {holds} of {may}");
    };
    let Shortage { overflow: Overflow { stage, needs, has }, may_hold } = shortage;
    let [needs, has] = [needs, has].map(format::size);
    match may_hold.map(format::size) {
        Some(holds) => format!(
            "may fit: {needs} are predicted on stage {stage}, of {holds}; only up to {has} are sure, since \
             predicted memory may be off, either way"
        ),
        None if fits_without_graphs(finalist) => {
            format!(
                "does not fit: stage {stage} needs {needs} of {has}, and fits without CUDA graphs"
            )
        }
        None => format!("does not fit: stage {stage} needs {needs} of {has}"),
    }
}

/// Whether every stage of `finalist`, which does not fit, holds its part but for static buffers of graphs.
fn fits_without_graphs(finalist: &Finalist) -> bool {
    let mut stages = finalist.evaluation.memory.iter().zip(&finalist.costed().capacities);
    stages.all(|(held, may)| held.sum().0.saturating_sub(held.graphs.0) <= may.0)
}

/// Speed and cost of `plan`, in words: a line each.
#[must_use]
pub fn figures(question: &Question, plan: &Plan) -> Vec<String> {
    let report = SetupReport::of(question, plan);
    let mut lines = vec![format!(
        "a step takes {} (error: {}), of {} tokens",
        format::time(plan.step),
        error(plan),
        format::grouped(plan.tokens_per_second * seconds(plan.step)),
    )];
    lines.extend(least(plan));
    lines.extend(dealt(plan));
    lines.extend(plan.documents.iter().flat_map(PackedSteps::lines));
    lines.extend(report.experts.into_iter().flat_map(ExpertLoad::lines));
    lines.extend(report.streams.map(AllToAllOverlap::line));
    if let Some([median, p95]) = plan.percentiles {
        let [median, p95] = [median, p95].map(format::time);
        lines.push(format!("under noise half of all steps take at most {median}, 95 % {p95}"));
    }
    lines.push(format!(
        "{} tokens/s per device, {:.1} TFLOP/s per device, {}, HFU {}",
        format::grouped(report.tokens_per_second_per_device),
        report.tflops_per_device,
        tables::utilisation(question, plan),
        format::percent(plan.hfu),
    ));
    lines.push(format!(
        "{} days, {} GPU-hours, {} dollars; goodput {:.2} %",
        days(plan.days),
        amount(plan.gpu_hours),
        amount(plan.dollars),
        100.0 * plan.goodput,
    ));
    lines.push(tables::done_by(question, plan));
    lines
}

/// The parts of a step, and the step.
#[must_use]
pub fn time(plan: &Plan) -> Sheet {
    let all = ("all", seconds(plan.step), 1.0);
    let parts = plan.all_parts();
    table!(
        (name, seconds, share) =
            parts.iter().map(|part| (part.name, part.seconds(), part.share)).chain([all]),
        "part of a step" = name,
        "seconds" = format!("{seconds:.4}"),
        "share" = format::percent(share),
    )
}

/// The memory of the stages of `plan` in GiB: equal stages beside each other share a line.
#[must_use]
pub fn memory(plan: &Plan) -> Sheet {
    let stages: Vec<StageMemoryReport> =
        (0..plan.finalist.costed().shape.stages()).map(|stage| of_stage(plan, stage)).collect();
    let key = |one: &StageMemoryReport| (one.layers, one.parts.clone(), one.device_bytes);
    let alike = stages.chunk_by(|one, next| key(one) == key(next));
    let gib = |bytes: u64| format!("{:.2}", number(bytes) / f64::from(1 << 30));
    let parts =
        memory_items(&StageMemory::default(), has_graphs(plan)).into_iter().map(|one| one.name);
    let header = ["stage", "layers"].into_iter().chain(parts).chain(["all", "may use"]);
    let row = |run: &[StageMemoryReport]| {
        let [first, ..] = run else { return Vec::new() };
        let stages = match run {
            [.., last] if last.stage > first.stage => format!("{}-{}", first.stage, last.stage),
            _ => first.stage.to_string(),
        };
        let sizes =
            first.parts.iter().map(|one| one.bytes).chain([first.bytes, first.device_bytes]);
        [stages, first.layers.to_string()].into_iter().chain(sizes.map(gib)).collect()
    };
    Sheet::table(header, alike.map(row))
}
