//! The software options that a search turns on, with the savings of each.

use std::collections::BTreeSet;

use pipeline::Nanos;
use plan::{Cluster, Finalist, Inputs, Offload, Options, number};
use planning::{Question, SoftwareKey};
use serde::Serialize;

use super::ground::ground;
use super::priced::{Plan, seconds};
use super::quantities::ranges;

/// The least share of a step that a key of software must save to be among those of a plan.
const LEAST: f64 = 0.001;

/// A key of `[training]` that the search turned on for a plan.
#[derive(Clone, PartialEq, Debug, Serialize)]
pub struct ChosenSoftware {
    pub key: &'static str,
    pub value: &'static str,
    /// The step of the same set-up and order without it, in nanoseconds; absent if that does not fit.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub step_without_ns: Option<u64>,
}

/// `finalist` without the software that saves next to nothing of its step.
pub(super) fn trimmed(ground: &Inputs<'_>, mut finalist: Finalist) -> Finalist {
    for one in finalist.costed().setup.options.each() {
        let options = finalist.costed().setup.options.without(one);
        let Ok(without) = ground.again_with(&finalist, options) else { continue };
        if is_needless(finalist.step, without.step) {
            finalist = without;
        }
    }
    finalist
}

/// Whether a step that takes `without` is worth no key that makes it `with`.
fn is_needless(with: Nanos, without: Nanos) -> bool {
    number(without.0) <= (1.0 + LEAST) * number(with.0)
}

/// The software that the search turned on for `plan`, the key that saves most first.
#[must_use]
pub fn chosen(question: &Question, plan: &Plan) -> Vec<ChosenSoftware> {
    let cluster = &question.clusters[plan.cluster];
    let even = question.recipe.as_likely_as_not();
    // A plan that may fit is held to the memory of its own class.
    let recipe = if plan.shortage.is_some() { &even } else { &question.recipe };
    let inputs = Inputs { recipe, ..ground(question, cluster) };
    let setup = &plan.finalist.costed().setup;
    let one = |SoftwareKey { key, value, options }| {
        let rest = setup.options.without(options);
        let without = inputs.again_with(&plan.finalist, rest).ok();
        ChosenSoftware { key, value, step_without_ns: without.map(|without| without.step.0) }
    };
    let keys = question.keys(setup.options, cluster);
    let mut all: Vec<ChosenSoftware> = keys.into_iter().map(one).collect();
    // The plan does not fit without those that have no such step.
    all.sort_by_key(|one| std::cmp::Reverse(one.step_without_ns.unwrap_or(u64::MAX)));
    all
}

/// The software that the search turned on for `plan`, as lines of `[training]` with commas between.
#[must_use]
pub fn line(question: &Question, plan: &Plan) -> String {
    let keys = question.keys(options(plan), &question.clusters[plan.cluster]);
    keys.iter().map(SoftwareKey::line).collect::<Vec<_>>().join(", ")
}

fn options(plan: &Plan) -> Options {
    plan.finalist.costed().setup.options
}

/// The software that plans need: a line for each that some have, with their numbers.
#[must_use]
pub fn needed(question: &Question, plans: &[Plan]) -> Vec<String> {
    let mut all: Vec<(String, Vec<usize>)> = Vec::new();
    for (number, plan) in (1..).zip(plans) {
        let own = line(question, plan);
        match all.iter_mut().find(|(known, _)| *known == own) {
            Some((_, numbers)) => numbers.push(number),
            None => all.push((own, vec![number])),
        }
    }
    all.retain(|(own, _)| !own.is_empty());
    let one = |(own, numbers): &(String, Vec<usize>)| match numbers[..] {
        [only] => format!("plan {only} needs in [training]: {own}"),
        _ => format!("plans {} need in [training]: {own}", ranges(numbers)),
    };
    all.iter().map(one).collect()
}

/// The changes that a search does not try, in words.
#[must_use]
pub fn untried(question: &Question) -> Option<String> {
    if question.is_of_one() {
        return None;
    }
    let machines = || question.clusters.iter().flat_map(|cluster| &cluster.parts);
    let experts = question.model.experts.is_some();
    let streams = question.recipe.software.streams.is_some();
    let low = machines().all(|(machine, _)| machine.peak_fp8.is_some());
    let unknown = machines_where(question, |cluster| !question.searches_software(cluster));
    let all = [
        unknown.map(|unknown| format!("software on {unknown}")),
        (low && !question.recipe.precision.is_low()).then(|| "precision".to_owned()),
        (experts && !streams).then(|| "two-streams".to_owned()),
        offload_untried(question),
    ];
    let all: Vec<String> = all.into_iter().flatten().collect();
    (!all.is_empty()).then(|| format!("not tried: {}", all.join(", ")))
}

/// The clusters with host links on which copies to the host are not tried, in words.
fn offload_untried(question: &Question) -> Option<String> {
    if question.recipe.offload != Offload::NONE {
        return None;
    }
    let is_tried = |cluster: &Cluster| question.searches_offload(cluster);
    let has_links =
        |cluster: &Cluster| cluster.parts.iter().all(|(machine, _)| machine.host.is_some());
    let names = machines_where(question, |cluster| has_links(cluster) && !is_tried(cluster))?;
    let is_tried = question.clusters.iter().any(is_tried);
    Some(if is_tried { format!("offload on {names}") } else { "offload".to_owned() })
}

/// The names of the machines of the clusters that `are`, if there are any.
fn machines_where(question: &Question, are: impl Fn(&Cluster) -> bool) -> Option<String> {
    let clusters = question.clusters.iter().filter(|cluster| are(cluster));
    let names: BTreeSet<String> = clusters.map(Cluster::name).collect();
    (!names.is_empty()).then(|| names.into_iter().collect::<Vec<_>>().join(", "))
}

/// The software that the search turned on for the plan to take, in words.
#[must_use]
pub fn in_words(plan: &Plan, chosen: &[ChosenSoftware]) -> Option<String> {
    let one = |one: &ChosenSoftware| {
        let key = SoftwareKey::line_of(one.key, one.value);
        let Some(without) = one.step_without_ns else {
            return format!("{key} (without it the plan does not fit)");
        };
        let saved = 1.0 - seconds(plan.finalist.step) / (number(without) / 1e9);
        format!("{key} ({} of the step)", question::format::percent(saved))
    };
    let all: Vec<String> = chosen.iter().map(one).collect();
    (!all.is_empty()).then(|| format!("software that it needs: {}", all.join(", ")))
}
