//! A question of a planner with its answer.

use planning::Question;

use super::answer::PlanAnswer;
use super::choice::{self, winner};
use super::levers::Lever;
use super::network::{self, MeasuredNetwork};
use super::priced::Plan;
use super::software::ChosenSoftware;

/// A question with all that a planner says to it.
pub struct Planned {
    /// The question, whole and checked.
    pub question: Question,
    /// The plans, and the results of all set-ups.
    pub answer: PlanAnswer,
    /// Changes of software and machines, with the savings of each for the plan to take.
    pub levers: Vec<Lever>,
    /// The software that the search turned on for the plan to take.
    pub software: Vec<ChosenSoftware>,
    /// Whether another plan would be the fastest with half or twice the network between nodes, where that was not measured.
    pub network: Option<String>,
    /// The plan to take with the networks of the machines' files, where others were measured.
    pub built_in_network: Option<String>,
    /// Whether the search was stopped: then the best of the set-ups and levers examined so far.
    pub interrupted: bool,
}

impl Planned {
    /// The plan to take.
    #[must_use]
    pub fn winner(&self) -> Option<&Plan> {
        winner(&self.question, &self.answer.plans)
    }

    /// The networks that were measured for its clusters, each once.
    #[must_use]
    pub fn networks(&self) -> Vec<MeasuredNetwork> {
        network::all(&self.question)
    }

    /// Whether some framework runs `plan`.
    #[must_use]
    pub fn runs(&self, plan: &Plan) -> bool {
        choice::is_run(&self.question, plan)
    }
}
