//! The answer of a planner for machines.

use std::collections::BTreeMap;

use measured::{Contingency, ErrorBar};
use serde::{Serialize, Serializer};

use super::assumptions;
use super::network::MeasuredNetwork;
use super::parts::Part;
use super::planned::Planned;
use super::priced::Plan;
use super::row::PlanRow;
use super::setup_report::{self, SetupReport};
use super::software::ChosenSoftware;

impl Serialize for Planned {
    fn serialize<S: Serializer>(&self, serializer: S) -> Result<S::Ok, S::Error> {
        json(self).serialize(serializer)
    }
}

/// The answer for machines.
#[derive(Serialize)]
struct Json<'a> {
    headline: String,
    /// All parameters of the model, and those that a token meets.
    parameters_total: u64,
    parameters_active: u64,
    /// Only where some are frozen.
    #[serde(skip_serializing_if = "Option::is_none")]
    parameters_trained: Option<u64>,
    /// The assumptions made when the model was read.
    model_assumed: &'a [String],
    plans: Vec<PlanRow>,
    /// Of set-ups that were asked for, every part: in the order of the plans.
    #[serde(skip_serializing_if = "Vec::is_empty")]
    setups: Vec<SetupReport>,
    /// The plan to take, by its place among the plans.
    winner: Option<usize>,
    /// Where a step of the plan to take goes, on the stage that works longest.
    time_breakdown: Vec<Part>,
    levers: Vec<LeverJson<'a>>,
    /// The software that the search turned on for the plan to take.
    #[serde(skip_serializing_if = "<[ChosenSoftware]>::is_empty")]
    software: &'a [ChosenSoftware],
    searched: Vec<SearchedJson<'a>>,
    /// How far steps of each kind among the plans may be off.
    errors: &'a [ErrorBar],
    /// The odds with which a plan to take meets deadline and budget.
    confidence: f64,
    /// Factor of published trainings over their plans, and the factor of the question.
    contingency: ContingencyJson,
    /// The omissions of the plans, a sentence each.
    assumptions: Vec<&'static str>,
    /// Whether another plan would be the fastest with half or twice the network between nodes, where that was not measured.
    #[serde(skip_serializing_if = "Option::is_none")]
    network: Option<&'a str>,
    /// The networks that were measured.
    #[serde(skip_serializing_if = "Vec::is_empty")]
    networks: Vec<MeasuredNetwork>,
    /// The plan to take with the networks of the machines' files, where others were measured.
    #[serde(skip_serializing_if = "Option::is_none")]
    built_in_network: Option<&'a str>,
    /// Absent unless a Ctrl-C cut the answer short.
    #[serde(skip_serializing_if = "Option::is_none")]
    interrupted: Option<bool>,
}

#[derive(Serialize)]
struct ContingencyJson {
    /// Days, hours and dollars are so many times those of the steps.
    factor: f64,
    published: Contingency,
}

#[derive(Serialize)]
struct LeverJson<'a> {
    name: &'a str,
    step_ns: u64,
    dollars_saved: f64,
}

#[derive(Serialize)]
struct SearchedJson<'a> {
    machine: String,
    devices: u64,
    setups: usize,
    simulated: u64,
    left_out: &'a BTreeMap<String, u64>,
}

fn json(planned: &Planned) -> Json<'_> {
    let Planned { question, answer, levers, software, network, built_in_network, interrupted } =
        planned;
    let winner = planned.winner();
    let searched = question.clusters.iter().zip(&answer.searched);
    Json {
        headline: planned.headline(),
        parameters_total: question.model.parameters(),
        parameters_active: question.model.active_parameters(),
        parameters_trained: (!question.model.frozen().is_none())
            .then(|| question.model.trained_parameters()),
        model_assumed: &question.model_assumed,
        plans: answer.plans.iter().map(|plan| PlanRow::of(question, plan)).collect(),
        setups: setup_report::all(planned),
        errors: &answer.bars,
        confidence: question.confidence,
        contingency: ContingencyJson {
            factor: question.contingency.unwrap_or(1.0),
            published: answer.contingency,
        },
        assumptions: assumptions::of(question, answer),
        software,
        network: network.as_deref(),
        networks: planned.networks(),
        built_in_network: built_in_network.as_deref(),
        interrupted: interrupted.then_some(true),
        winner: winner
            .and_then(|winner| answer.plans.iter().position(|plan| std::ptr::eq(plan, winner))),
        time_breakdown: winner.map_or_else(Vec::new, Plan::parts),
        levers: levers
            .iter()
            .map(|lever| LeverJson {
                name: &lever.name,
                step_ns: lever.step.0,
                dollars_saved: lever.saved,
            })
            .collect(),
        searched: searched
            .map(|(cluster, one)| SearchedJson {
                machine: cluster.name(),
                devices: cluster.devices(),
                setups: one.setups,
                simulated: one.found.simulated,
                left_out: &one.found.left_out,
            })
            .collect(),
    }
}
