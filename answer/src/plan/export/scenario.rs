//! The scenario that reproduces a plan here, and the part of a cluster that it runs on.

use std::fmt::Write;

use pipeline::{Bandwidth, Bytes, Nanos, PassTimes};
use planning::Question;
use sim::cluster::ClusterSpec;

use super::super::priced::Plan;

/// Whether a scenario can describe the passes: it has no keys for the further work of chunks with
/// segments.
pub(super) fn is_scenario(plan: &Plan) -> bool {
    plan.finalist.costs.overlap().is_none()
}

/// The scenario whose simulation is this plan: its step is the plan's, to the nanosecond.
pub(super) fn scenario(question: &Question, plan: &Plan) -> String {
    let costed = plan.finalist.costed();
    let chunks = plan.finalist.costs.chunks();
    let times = |of: fn(&PassTimes) -> Nanos| times(chunks.iter().map(of));
    let held = costed.held_by_microbatch();
    let footprints = || (0..costed.shape.chunks()).map(|chunk| held.of(chunk));
    let layout = &plan.finalist.layout;
    let seats: Vec<String> = layout.devices.iter().map(usize::to_string).collect();
    let shape = costed.shape;
    let mut text = format!(
        "# Written by `debubble plan`: {} on {} {}, {}.\n# The step on hardware is the plan's; \
         under noise, that of one replica.\n",
        question.title.replace(['\r', '\n'], " "),
        question.clusters[plan.cluster].devices(),
        question.clusters[plan.cluster].name(),
        super::super::tables::setup(&costed.setup),
    );
    let mut add = |key: &str, value: String| {
        // Writing to a string cannot fail.
        let _ = writeln!(text, "{key} = {value}");
    };
    add(
        "schedule",
        format!("[\"{}\"]", order_file(plan).unwrap_or(costed.setup.schedule_name().to_owned())),
    );
    add("stages", shape.stages().to_string());
    add("microbatches", shape.microbatches().to_string());
    add("chunks", shape.chunks_per_stage().to_string());
    add("forward", times(|one| one.forward));
    add("backward-input", times(|one| one.backward_input));
    add("backward-weight", times(|one| one.backward_weight));
    if plan.finalist.costs.has_whole() {
        add("backward", times(|one| one.whole_backward()));
    }
    add("cluster", "\"cluster.toml\"".to_owned());
    add("seating", format!("\"{}\"", seats.join(",")));
    add("message", format!("\"{}B\"", plan.finalist.message().0));
    add("communication", "\"blocking\"".to_owned());
    for (key, value) in vocabulary(plan) {
        add(key, value);
    }
    add("activation", sizes(footprints().map(|one| one.until_backward)));
    add("activation-until-weight", sizes(footprints().map(|one| one.until_weight)));
    add("resident", sizes(plan.finalist.resident.iter().copied()));
    add("device-memory", sizes(layout.by_device(&costed.capacities).into_iter()));
    let crossing = plan.finalist.crossing();
    add("steps", plan.finalist.steps().to_string());
    add("boundary", format!("\"{}\"", question.recipe.boundary.name()));
    add("gradient-reduction", format!("\"{}ns\"", crossing.reduction.time.0));
    add("exchange", format!("\"{}ns\"", crossing.exchange.0));
    add("optimizer", format!("\"{}ns\"", crossing.optimizer.0));
    text
}

/// The file with the order of `plan`, beside the scenario, where it depends on times: it was made for
/// others than the scenario's, the same on all links, or by a search.
pub(super) fn order_file(plan: &Plan) -> Option<String> {
    let setup = &plan.finalist.costed().setup;
    let is_made = setup.searched || setup.family.depends_on_times();
    is_made.then(|| format!("{}.txt", setup.schedule_name()))
}

/// The keys about the vocabulary on all stages, if it is there.
fn vocabulary(plan: &Plan) -> Vec<(&'static str, String)> {
    let (shards, waits) = (plan.finalist.costs.shards(), plan.finalist.costs.collectives());
    if shards.is_empty() {
        return Vec::new();
    }
    let [behind_s, behind_t] = [waits.statistics, waits.hidden_gradient];
    vec![
        ("vocab-s", times(shards.iter().map(|one| one.before))),
        ("vocab-t", times(shards.iter().map(|one| one.after))),
        ("vocab-barrier", format!("\"{}ns,{}ns\"", behind_s.0, behind_t.0)),
        ("vocab-broadcast", format!("\"{}ns\"", waits.broadcast.0)),
        ("vocab-activation", sizes(plan.finalist.costed().footprints.shards().iter().copied())),
    ]
}

/// A list of times.
fn times(values: impl Iterator<Item = Nanos>) -> String {
    let all: Vec<String> = values.map(|one| format!("\"{}ns\"", one.0)).collect();
    format!("[{}]", all.join(", "))
}

/// A list of sizes.
fn sizes(values: impl Iterator<Item = Bytes>) -> String {
    let all: Vec<String> = values.map(|one| format!("\"{}B\"", one.0)).collect();
    format!("[{}]", all.join(", "))
}

/// The part of the cluster that the scenario runs on: one device of each stage.
pub(super) fn cluster(question: &Question, plan: &Plan) -> String {
    let ClusterSpec { nodes, devices_per_node, intra, inter, host, .. } = plan.finalist.layout.spec;
    let host = host.map_or_else(String::new, |host| {
        let (rate, devices) = (host.bandwidth.bytes_per_second(), host.devices_per_link);
        format!("\n[host]\nbandwidth = \"{rate}B/s\"\ndevices-per-link = {devices}\n")
    });
    let wire = |bandwidth: Bandwidth, latency: Nanos| {
        let rate = bandwidth.bytes_per_second();
        format!("bandwidth = \"{rate}B/s\"\nlatency = \"{}ns\"\n", latency.0)
    };
    format!(
        "# Written by `debubble plan`: one device of each stage of {}, at the rates that transfers \
         reach.\nnodes = {nodes}\ndevices-per-node = {devices_per_node}\n\n[intra]\n{}\n[inter]\n\
         nics = {}\n{}{host}",
        question.clusters[plan.cluster].name(),
        wire(intra.bandwidth, intra.latency),
        inter.nics,
        wire(inter.bandwidth, inter.latency),
    )
}
