//! The answer of a planner for machines.

use question::object;
use serde::{Serialize, Serializer};

use super::assumptions;
use super::planned::Planned;
use super::priced::Plan;
use super::row::row;
use super::setup_report;

/// The answer for machines.
impl Serialize for Planned {
    fn serialize<S: Serializer>(&self, serializer: S) -> Result<S::Ok, S::Error> {
        let Self { question, answer, levers, software, network, built_in_network, interrupted } =
            self;
        let winner = self.winner();
        let graphs = answer.plans.iter().any(setup_report::has_graphs);
        let setups = Some(setup_report::all(self)).filter(|all| !all.is_empty());
        let networks = Some(self.networks()).filter(|all| !all.is_empty());
        let levers = levers.iter().map(|lever| {
            object!(name = &lever.name, step_ns = lever.step.0, dollars_saved = lever.saved)
        });
        let searched = question.clusters.iter().zip(&answer.searched).map(|(cluster, one)| {
            object!(
                (machine, devices) = (cluster.name(), cluster.devices()),
                (setups, simulated) = (one.setups, one.found.simulated),
                left_out = &one.found.left_out,
            )
        });
        object!(
            headline = self.headline(),
            // All parameters of the model, and those that a token meets; the trained ones where some are frozen.
            (parameters_total, parameters_active) =
                (question.model.parameters(), question.model.active_parameters()),
            some(parameters_trained) =
                (!question.model.frozen().is_none()).then(|| question.model.trained_parameters()),
            // The assumptions made when the model was read.
            model_assumed = &question.model_assumed,
            [plans] = answer.plans.iter().map(|plan| row(question, plan, graphs)),
            // Of set-ups that were asked for, every part: in the order of the plans.
            some(setups) = setups,
            // The plan to take, by its place among the plans.
            winner = winner
                .and_then(|winner| answer.plans.iter().position(|plan| std::ptr::eq(plan, winner))),
            // Where a step of the plan to take goes, on the stage that works longest.
            time_breakdown = winner.map_or_else(Vec::new, Plan::parts),
            [levers] = levers,
            // The software that the search turned on for the plan to take.
            some(software) = Some(software).filter(|all| !all.is_empty()),
            [searched] = searched,
            // How far steps of each kind among the plans may be off.
            errors = &answer.bars,
            // The odds with which a plan to take meets deadline and budget.
            confidence = question.confidence,
            // Factor of published trainings over their plans, and the factor of the question.
            contingency = object!(
                factor = question.contingency.unwrap_or(1.0),
                published = answer.contingency,
            ),
            // The omissions of the plans, a sentence each.
            assumptions = assumptions::of(question, answer),
            // Whether another plan would be the fastest with half or twice the network between nodes, where that was
            // not measured.
            some(network) = network.as_deref(),
            // The networks that were measured.
            some(networks) = networks,
            // The plan to take with the networks of the machines' files, where others were measured.
            some(built_in_network) = built_in_network.as_deref(),
            // Absent unless a Ctrl-C cut the answer short.
            some(interrupted) = interrupted.then_some(true),
        )
        .serialize(serializer)
    }
}
