//! The network between nodes: its rates where they were measured, and whether the order of plans hangs on it where they are
//! those of a data sheet.

mod measured;

use pipeline::Nanos;
use plan::Cluster;
use planning::Question;
use planning::network::Network;
use question::format;

use super::ground::ground;
use super::priced::{Plan, seconds};
use super::tables;

pub use self::measured::MeasuredNetwork;
pub(super) use self::measured::{all, without};

/// The rates that are tried, in units of that of the machine, and their words.
const RATES: [(f64, &str); 2] = [(0.5, "half"), (2.0, "twice")];
/// Share of a step by which another plan must be faster.
const APART: f64 = 0.01;

/// The step of `plan` on a network of so many times the rate.
fn step_at(question: &Question, cluster: &Cluster, plan: &Plan, rate: f64) -> Option<Nanos> {
    let mut changed = cluster.clone();
    changed.parts.iter_mut().for_each(|(machine, _)| machine.network *= rate);
    ground(question, &changed).again(&plan.finalist).ok().map(|one| one.step)
}

/// Whether another of `plans` on the cluster of `winner` would be the fastest with half or twice the network, where that
/// was not measured. Plans keep their orders.
pub(super) fn hangs_on(question: &Question, plans: &[Plan], winner: &Plan) -> Option<String> {
    let cluster = &question.clusters[winner.cluster];
    let measured = question.networks.get(winner.cluster).and_then(Option::as_ref);
    let is_measured = measured.is_some_and(Network::is_over_nodes)
        || cluster.parts.iter().any(|(machine, _)| !machine.calibrated.is_empty());
    if is_measured || cluster.parts.iter().all(|(machine, _)| cluster.devices() <= machine.domain) {
        return None;
    }
    let plans =
        || plans.iter().filter(|plan| plan.cluster == winner.cluster && plan.shortage.is_none());
    plans().nth(1)?;
    let fastest = plans().min_by_key(|plan| plan.finalist.step)?;
    let words = |plan: &Plan| {
        let setup = &plan.finalist.costed().setup;
        format!("{} {}", setup.schedule_name(), tables::setup(setup))
    };
    let at = |(rate, _): (f64, &str)| -> Vec<(Nanos, &Plan)> {
        let steps = plans().map(|plan| Some((step_at(question, cluster, plan, rate)?, plan)));
        steps.flatten().collect()
    };
    let tried = RATES.map(at);
    let faster = RATES.into_iter().zip(&tried).find_map(|((_, word), steps)| {
        let (step, other) = steps.iter().min_by_key(|(step, _)| *step)?;
        let (known, _) = steps.iter().find(|(_, plan)| std::ptr::eq(*plan, fastest))?;
        let gain = seconds(*known) / seconds(*step) - 1.0;
        (gain > APART).then(|| {
            format!(
                "the order of these plans depends on the network of {}, which is from its file: at {word} its \
                 rate {} is {} faster than {}, the fastest here; measure it",
                cluster.name(),
                words(other),
                format::percent(gain),
                words(fastest),
            )
        })
    });
    let count = plans().count();
    let stays = || {
        format!(
            "the network of {} is from its file: at half and at twice its rate {} stays the fastest of these plans, \
             within {}",
            cluster.name(),
            words(fastest),
            format::percent(APART),
        )
    };
    faster.or_else(|| tried.iter().all(|steps| steps.len() == count).then(stays))
}
