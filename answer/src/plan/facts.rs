//! Facts about the plan to take besides its cost.

use super::network::MeasuredNetwork;
use super::planned::Planned;
use super::priced::Plan;
use super::{chunk_layers, doubts, quantities, software, tables};

/// The software that `winner` needs, the change that saves most, useful time, contingency, the order, its memory,
/// whether it hangs on the network, and the rates of that where they were measured: a line each.
#[must_use]
pub fn facts(planned: &Planned, winner: &Plan) -> Vec<String> {
    let Planned { question, answer, levers, .. } = planned;
    let had = levers.iter().filter(|lever| lever.can_be_had && lever.saved >= 0.5);
    let best = had.max_by(|a, b| a.saved.total_cmp(&b.saved)).map(|lever| {
        format!("would save most: {}, {} dollars", lever.name, quantities::amount(lever.saved))
    });
    let lines = [
        Some(tables::contingency(question, answer, winner)),
        doubts::both_tunings(question, &answer.plans, winner),
        doubts::simpler(question, &answer.plans, winner),
        software::in_words(winner, &planned.software),
        best,
        tables::scarce(winner),
        Some(tables::useful(winner)),
        quantities::least(winner),
        chunk_layers::dealt(winner),
        planned.network.clone(),
    ];
    let networks = planned.networks();
    let measured = networks.iter().flat_map(MeasuredNetwork::in_words);
    let lines = lines.into_iter().flatten().chain(measured);
    lines.chain(planned.built_in_network.clone()).collect()
}
