//! The answer in words and numbers.

use std::io::Write;

use pipeline::Nanos;
use plan::{Room, Setup, Split, StageMemory};
use serde::Serialize;

use super::answer::{Answer, Plan, seconds, told_apart};
use super::assumptions;
use super::levers::Lever;
use super::question::Question;
use crate::error::Error;
use crate::format;

/// A set-up in a few letters: the sizes of its groups, ZeRO, microbatch, recomputation.
pub fn setup(setup: &Setup) -> String {
    let mut text = format!("d{} t{} p{}", setup.data, setup.tensor, setup.pipeline);
    for (letter, size) in [("c", setup.context), ("e", setup.expert), ("v", setup.chunks)] {
        if size > 1 {
            text += &format!(" {letter}{size}");
        }
    }
    text += &format!(" b{} z{} {}", setup.microbatch, setup.zero.stage(), setup.recompute.name());
    if setup.split == Split::Even && setup.pipeline > 1 {
        text += " even";
    }
    if setup.vocabulary_parallel {
        text += " vocabulary";
    }
    text
}

/// One plan for machines, and a line of the CSV.
#[derive(Serialize)]
pub struct Row {
    machine: String,
    devices: u64,
    schedule: &'static str,
    data: u64,
    tensor: u64,
    pipeline: u64,
    context: u64,
    expert: u64,
    chunks: u64,
    microbatch: u64,
    microbatches: u32,
    zero: u8,
    recompute: &'static str,
    vocabulary_parallel: bool,
    /// How stages meet between steps.
    boundary: &'static str,
    step_ns: u64,
    /// What replay says, by which set-ups are searched.
    replay_step_ns: u64,
    step_p50_ns: Option<u64>,
    step_p95_ns: Option<u64>,
    /// How far the step may be off, as a share; nothing if nothing of its kind was measured.
    error: Option<f64>,
    /// Of what kind it is, in words.
    kind: String,
    tokens_per_second: f64,
    mfu: f64,
    hfu: f64,
    bubble_rate: f64,
    /// All parameters of the model, and those that a token meets.
    parameters_total: u64,
    parameters_active: u64,
    peak_bytes: u64,
    /// What a plan may use of that device.
    device_bytes: u64,
    parameter_bytes: u64,
    gradient_bytes: u64,
    optimizer_bytes: u64,
    activation_bytes: u64,
    buffer_bytes: u64,
    goodput: f64,
    checkpoint_interval_s: f64,
    days: f64,
    dollars: f64,
    dollars_per_million_tokens: f64,
    on_front: bool,
    /// The limit that the order was made under, where the schedule takes one.
    memory_limit: Option<String>,
}

impl Row {
    pub fn of(question: &Question, plan: &Plan) -> Self {
        let cluster = &question.clusters[plan.cluster];
        let costed = plan.finalist.costed();
        let own = &costed.setup;
        let (_, held) = plan.finalist.evaluation.fullest();
        let StageMemory { parameters, gradients, optimizer, activations, buffers } = held;
        Self {
            machine: cluster.name(),
            devices: cluster.devices(),
            schedule: own.family.name(),
            data: own.data,
            tensor: own.tensor,
            pipeline: own.pipeline,
            context: own.context,
            expert: own.expert,
            chunks: own.chunks,
            microbatch: own.microbatch,
            microbatches: costed.shape.microbatches(),
            zero: own.zero.stage(),
            recompute: own.recompute.name(),
            vocabulary_parallel: own.vocabulary_parallel,
            boundary: question.recipe.boundary.name(),
            step_ns: plan.finalist.step.0,
            replay_step_ns: plan.finalist.evaluation.step.0,
            step_p50_ns: plan.percentiles.map(|[median, _]| median.0),
            step_p95_ns: plan.percentiles.map(|[_, p95]| p95.0),
            error: plan.error,
            kind: plan.kind.to_string(),
            tokens_per_second: plan.tokens_per_second,
            mfu: plan.mfu,
            hfu: plan.hfu,
            bubble_rate: plan.finalist.bubble_rate(),
            parameters_total: question.model.parameters(),
            parameters_active: question.model.active_parameters(),
            peak_bytes: held.sum().0,
            device_bytes: plan.memory()[0].0,
            memory_limit: costed.limit.map(|limit| limit.to_string()),
            parameter_bytes: parameters.0,
            gradient_bytes: gradients.0,
            optimizer_bytes: optimizer.0,
            activation_bytes: activations.0,
            buffer_bytes: buffers.0,
            goodput: plan.goodput,
            checkpoint_interval_s: plan.checkpoint_interval,
            days: plan.days,
            dollars: plan.dollars,
            dollars_per_million_tokens: plan.dollars / question.tokens * 1e6,
            on_front: plan.on_front,
        }
    }
}

/// A time, or that there is none.
fn time_or_none(time: Option<Nanos>) -> String {
    time.map_or_else(|| "-".to_owned(), format::time)
}

/// The parameters that the model is believed to have, and what was assumed where it was read: a
/// line each.
pub fn model(question: &Question) -> Vec<String> {
    let billions = |count: u64| {
        let digits = if count < 1_000_000_000 { 6 } else { 3 };
        format!("{:.digits$} B", plan::number(count) / 1e9)
    };
    let model = &question.model;
    let [total, active] = [model.parameters(), model.active_parameters()].map(billions);
    let experts = match model.experts {
        Some(experts) => format!(" ({} of {} experts a layer)", experts.top_k, experts.count),
        None => String::new(),
    };
    let count = format!("parameters: {total} total, {active} active for a token{experts}");
    std::iter::once(count).chain(question.model_assumed.iter().cloned()).collect()
}

/// How far the step of `plan` may be off.
fn bar(plan: &Plan) -> String {
    plan.error.map_or_else(|| "+-?".to_owned(), |error| format!("+-{:.0} %", 100.0 * error))
}

/// What the columns of the table of plans are.
pub const HEADER: [&str; 14] = [
    "machines",
    "set-up",
    "schedule",
    "step",
    "over replay",
    "P50",
    "P95",
    "tokens/s",
    "MFU",
    "HFU",
    "bubble",
    "days",
    "dollars",
    "$/M tokens",
];

/// A line of the table of plans.
pub fn line(question: &Question, plan: &Plan) -> Vec<String> {
    let cluster = &question.clusters[plan.cluster];
    let costed = plan.finalist.costed();
    let step = format!("{} {}", format::time(plan.finalist.step), bar(plan));
    let front = if plan.on_front { " *" } else { "" };
    vec![
        format!("{} {}{front}", cluster.devices(), cluster.name()),
        setup(&costed.setup),
        costed.setup.family.name().to_owned(),
        step,
        format::signed_percent(plan.finalist.over_replay()),
        time_or_none(plan.percentiles.map(|[median, _]| median)),
        time_or_none(plan.percentiles.map(|[_, p95]| p95)),
        format::grouped(plan.tokens_per_second),
        format::percent(plan.mfu),
        format::percent(plan.hfu),
        format::percent(plan.finalist.bubble_rate()),
        format!("{:.1}", plan.days),
        format::grouped(plan.dollars),
        format!("{:.4}", plan.dollars / question.tokens * 1e6),
    ]
}

/// What the columns of the table of memory are.
pub const MEMORY: [&str; 9] = [
    "machines",
    "set-up",
    "parameters",
    "gradients",
    "optimizer",
    "activations",
    "buffers",
    "peak",
    "may use",
];

/// A line of the table of memory: the fullest device.
pub fn memory(question: &Question, plan: &Plan) -> Vec<String> {
    let cluster = &question.clusters[plan.cluster];
    let (_, held) = plan.finalist.evaluation.fullest();
    let StageMemory { parameters, gradients, optimizer, activations, buffers } = held;
    let [may, _] = plan.memory();
    let mut line = vec![
        format!("{} {}", cluster.devices(), cluster.name()),
        setup(&plan.finalist.costed().setup),
    ];
    let sizes = [parameters, gradients, optimizer, activations, buffers, held.sum(), may];
    line.extend(sizes.map(format::size));
    line
}

/// The plan to take, in words.
pub fn taken(question: &Question, winner: &Plan) -> String {
    let cluster = &question.clusters[winner.cluster];
    let own = &winner.finalist.costed().setup;
    format!(
        "{} {}, {} {}: {:.1} days, {} dollars; {:.2} % of the time is useful, with a checkpoint \
         every {:.0} s",
        cluster.devices(),
        cluster.name(),
        own.family.name(),
        setup(own),
        winner.days,
        format::grouped(winner.dollars),
        100.0 * winner.goodput,
        winner.checkpoint_interval,
    )
}

/// Why the plan to take is not the cheapest, if it is not.
pub fn roomier(question: &Question, plans: &[Plan], winner: &Plan) -> Option<String> {
    let cheapest = question.cheapest(plans).filter(|plan| !std::ptr::eq(*plan, winner))?;
    let own = &cheapest.finalist.costed().setup;
    let slower = seconds(winner.finalist.step) / seconds(cheapest.finalist.step) - 1.0;
    Some(format!(
        "it leaves {} of a device free where {} {} leaves {}; its step is {} longer, and predictions \
         do not tell steps less than {} apart",
        format::size(winner.room()),
        own.family.name(),
        setup(own),
        format::size(cheapest.room()),
        format::percent(slower),
        format::percent(told_apart(winner, cheapest)),
    ))
}

/// What may be used of a device, in words.
pub fn room(question: &Question) -> String {
    let Room { error, cap } = question.recipe.room;
    let cap = cap.map_or_else(String::new, |cap| {
        format!("; no more than the memory-cap of {}", format::size(cap))
    });
    format!(
        "may use: what frameworks see of a device, less the reserve of its file, less {} by which \
         predicted memory is off at most on published peaks{cap}",
        format::percent(error)
    )
}

/// Where the winner's time goes, largest first.
pub fn parts(plan: &Plan) -> Vec<Vec<String>> {
    let mut parts = plan.parts();
    parts.sort_by(|a, b| b.seconds.total_cmp(&a.seconds));
    let step = seconds(plan.finalist.step);
    let line = |part: super::answer::Part| {
        let share = format::percent(part.seconds / step);
        vec![part.name.to_owned(), format!("{:.3} s", part.seconds), share]
    };
    parts.into_iter().map(line).collect()
}

/// What changes would be worth to the winner.
pub fn worth(levers: &[Lever]) -> Vec<Vec<String>> {
    let line = |lever: &Lever| {
        let saved = format::grouped(lever.saved);
        vec![lever.name.to_owned(), format::time(lever.step), saved]
    };
    levers.iter().map(line).collect()
}

/// Why set-ups are not among the plans: a line for each reason of each cluster.
pub fn reasons(question: &Question, answer: &Answer) -> Vec<Vec<String>> {
    let mut rows = Vec::new();
    for (cluster, searched) in question.clusters.iter().zip(&answer.searched) {
        let name = format!("{} {}", cluster.devices(), cluster.name());
        let found = &searched.found;
        rows.push(vec![name.clone(), "set-ups".to_owned(), searched.setups.to_string()]);
        rows.push(vec![name.clone(), "simulated".to_owned(), found.simulated.to_string()]);
        for (reason, count) in &found.left_out {
            rows.push(vec![name.clone(), reason.clone(), count.to_string()]);
        }
    }
    rows
}

/// What the words of the tables mean.
pub const DEFINITIONS: &str = "\
set-up: d replicas, t devices to a product, p stages, c to a sequence, e to the experts, v chunks to a
stage, b sequences to a microbatch, z stage of ZeRO; what is computed again; where the layers are dealt
evenly, even; where the vocabulary is on all stages, vocabulary.
MFU: model FLOPs, 3 forwards with all pairs of tokens, over peak; HFU: with what is computed again.
step: of the event engine, whose transfers share wires; +-: the error on measured iterations of the same
kind, +-? where nothing is measured of this kind; over replay: how much longer that is than by
replay, which searched the set-ups and counts transfers with the passes.
P50, P95: of the engine under the question's noise, the slowest replica.
days and dollars: the P50 step for all tokens, with checkpoints at the best interval and failures.
*: on the Pareto front of days and dollars. Prices are assumptions of the machines' files.";

/// Prints the answer.
pub fn print(
    out: &mut dyn Write,
    question: &Question,
    answer: &Answer,
    levers: &[Lever],
) -> Result<(), Error> {
    writeln!(out, "{}\n", model(question).join("\n"))?;
    let plans = &answer.plans;
    let lines = plans.iter().map(|plan| line(question, plan));
    writeln!(out, "{}", format::table(&HEADER, lines))?;
    let lines = plans.iter().map(|plan| memory(question, plan));
    writeln!(out, "{}", format::table(&MEMORY, lines))?;
    let rows = reasons(question, answer);
    writeln!(out, "{}", format::table(&["machines", "what became of set-ups", "how many"], rows))?;
    if let Some(winner) = question.winner(plans) {
        writeln!(out, "the plan to take: {}", taken(question, winner))?;
        if let Some(why) = roomier(question, plans, winner) {
            writeln!(out, "{why}")?;
        }
        let header = ["where its time goes, on the busiest stage", "a step", "share"];
        writeln!(out, "\n{}", format::table(&header, parts(winner)))?;
        let header = ["what would be worth most", "step", "dollars saved"];
        writeln!(out, "{}", format::table(&header, worth(levers)))?;
    }
    for bar in &answer.bars {
        writeln!(out, "{}", bar.source())?;
    }
    writeln!(out, "{}", room(question))?;
    writeln!(out, "what these answers leave out:")?;
    for line in assumptions::of(question, answer) {
        writeln!(out, "- {line}")?;
    }
    writeln!(out, "{DEFINITIONS}")?;
    Ok(())
}

/// All plans as CSV.
pub fn csv(question: &Question, answer: &Answer) -> Result<Vec<u8>, Error> {
    let mut writer = csv::Writer::from_writer(Vec::new());
    for plan in &answer.plans {
        let row = Row::of(question, plan);
        writer.serialize(row).map_err(|error| Error::question(error.to_string()))?;
    }
    writer.into_inner().map_err(|error| Error::question(error.to_string()))
}
