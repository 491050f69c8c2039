//! Networks that were measured, in words, and the plan to take without them.

use plan::Orders;
use planning::Question;
use planning::network::{Fitted, Network};
use question::{Context, format};
use serde::Serialize;

use super::super::answer::Planner;
use super::super::choice;
use super::super::ground::ground;
use super::super::priced::{Plan, seconds};
use super::super::tables;

/// The network of a machine as a file has it.
#[derive(Serialize)]
pub struct MeasuredNetwork {
    /// The name of the machine.
    pub machine: String,
    #[serde(flatten)]
    pub network: Network,
}

/// The networks that were measured for the clusters of `question`, each once.
pub(in super::super) fn all(question: &Question) -> Vec<MeasuredNetwork> {
    let mut all: Vec<MeasuredNetwork> = Vec::new();
    for (cluster, network) in question.clusters.iter().zip(&question.networks) {
        let Some(network) = network else { continue };
        let machine = cluster.name();
        if !all.iter().any(|one| one.machine == machine && one.network == *network) {
            all.push(MeasuredNetwork { machine, network: network.clone() });
        }
    }
    all
}

impl MeasuredNetwork {
    /// The rates that were measured with their residuals, those that were not, and runs without use: a line each.
    #[must_use]
    pub fn in_words(&self) -> Vec<String> {
        let Network { file, devices, rates, latencies, kept, left_out, .. } = &self.network;
        let on = match devices.is_empty() {
            true => String::new(),
            false => format!(", measured on {}", devices.join(", ")),
        };
        let alike = |one: &Fitted, other: &Fitted| {
            (one.ranks, one.nodes, &one.collectives)
                == (other.ranks, other.nodes, &other.collectives)
        };
        let mut words: Vec<String> = rates.chunk_by(alike).map(rates_of_runs).collect();
        words.extend(latencies.iter().map(|(key, seconds)| format!("{key} {}", micros(*seconds))));
        let mut lines =
            vec![format!("network of {} from {file}{on}: {}", self.machine, words.join("; "))];
        let named = |follows: bool| {
            let own = kept.iter().filter(|one| one.follows.is_some() == follows);
            own.map(|one| one.rate).collect::<Vec<_>>().join(", ")
        };
        let rest = [
            ("as in the machine's file", named(false)),
            ("in proportion to measured ones", named(true)),
        ];
        let rest: Vec<String> = rest
            .into_iter()
            .filter(|(_, names)| !names.is_empty())
            .map(|(how, names)| format!("{how}: {names}"))
            .collect();
        lines.extend((!rest.is_empty()).then(|| format!("not measured, {}", rest.join("; "))));
        let impossible = kept.iter().filter(|one| one.impossible_bytes_per_second.is_some());
        lines.extend(impossible.map(|one| format!("{} stays: {}", one.rate, one.reason)));
        if !left_out.is_empty() {
            lines.push(format!("runs of {file} without use: {}", left_out.join("; ")));
        }
        lines
    }
}

/// Rates that the same runs give, in words.
fn rates_of_runs(rates: &[Fitted]) -> String {
    let gigabytes = |rate: f64| format::three_digits(rate / 1e9);
    let values = rates.iter().map(|one| {
        let [own, file] = [one.bytes_per_second, one.built_in_bytes_per_second].map(gigabytes);
        format!("{} {own} GB/s a device (built-in {file})", one.rate)
    });
    let values: Vec<String> = values.collect();
    let Some(one) = rates.first() else { return String::new() };
    let collectives: Vec<&str> =
        one.collectives.iter().map(|collective| collective.name()).collect();
    let size = |bytes: u64| format::size(pipeline::Bytes(bytes));
    let sizes = match one.sizes {
        1 => format!("one size, {}", size(one.most_bytes)),
        count => {
            format!("{count} sizes from {} to {}", size(one.least_bytes), size(one.most_bytes))
        }
    };
    let latency =
        one.latency.map_or(String::new(), |seconds| format!(", latency {}", micros(seconds)));
    format!(
        "{} by {} on {} devices of {} nodes, {sizes}, residual {}, largest {}{latency}",
        values.join(", "),
        collectives.join(" and "),
        one.ranks,
        one.nodes,
        format::percent(one.median_residual),
        format::percent(one.largest_residual),
    )
}

fn micros(seconds: f64) -> String {
    format!("{} us", format::three_digits(seconds * 1e6))
}

/// The plan to take with the networks of the machines' files, in words; nothing where no network was measured, or only
/// one set-up is asked for.
pub(in super::super) fn without(
    context: &Context<'_>,
    question: &Question,
    winner: &Plan,
    orders: &Orders<'_>,
) -> Option<String> {
    let built_in = question.with_built_in_networks().filter(|question| !question.is_of_one())?;
    let answer = Planner { context, question: &built_in }.answer(orders).ok()?;
    if context.stopped() {
        return None;
    }
    let other = choice::winner(&built_in, &answer.plans)?;
    let cluster = &question.clusters[other.cluster];
    let words = |plan: &Plan| {
        let cluster = &question.clusters[plan.cluster];
        let setup = tables::setup(&plan.finalist.costed().setup);
        format!("{} {}, {} {setup}", cluster.devices(), cluster.name(), tables::order_name(plan))
    };
    if words(other) == words(winner) {
        return Some(
            "with the network of the machine's file the plan to take is the same".to_owned(),
        );
    }
    let here = ground(question, cluster).again(&other.finalist).ok();
    let slower = here.filter(|_| other.cluster == winner.cluster).map(|here| {
        let change = seconds(here.step) / seconds(winner.finalist.step) - 1.0;
        format!(", which takes {} more a step on the measured one", format::percent(change))
    });
    Some(format!(
        "with the network of the machine's file the plan to take would be {}{}",
        words(other),
        slower.unwrap_or_default()
    ))
}
