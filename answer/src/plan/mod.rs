//! Plans: the set-up to train a model with on given machines, its step time and its cost.

pub mod against;
mod answer;
pub mod assumptions;
mod choice;
mod documents;
mod experts;
pub mod export;
mod facts;
pub mod fit;
mod levers;
mod model;
mod no_plan;
mod parts;
mod priced;
mod row;
pub mod setup_report;
pub mod software;
pub mod tables;

use measured::{Contingency, ErrorBar};
use plan::Orders;
use question::plan::Question;
use question::{Context, Diagnostic};
use serde::{Serialize, Serializer};

pub use self::against::Against;
use self::answer::Planner;
pub use self::answer::{PlanAnswer, Searched, ground};
pub use self::choice::{cheapest, is_late, resolvable_difference, winner};
pub use self::documents::PackedSteps;
pub use self::experts::{AllToAllOverlap, ExpertLoad};
pub use self::facts::facts;
pub use self::levers::Lever;
pub use self::parts::Part;
pub use self::priced::{Plan, seconds};
pub use self::row::PlanRow;
pub use self::setup_report::SetupReport;
pub use self::software::ChosenSoftware;

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
    /// Whether the search was stopped: then the best of the set-ups and levers examined so far.
    pub interrupted: bool,
}

impl Planned {
    /// The plan to take.
    #[must_use]
    pub fn winner(&self) -> Option<&Plan> {
        winner(&self.question, &self.answer.plans)
    }

    /// Whether some framework runs `plan`.
    #[must_use]
    pub fn runs(&self, plan: &Plan) -> bool {
        choice::is_run(&self.question, plan)
    }
}

/// Searches the set-ups of `question`, runs the best by the event engine, and tries changes of the
/// machines of the plan to take.
///
/// # Errors
/// If there are too many set-ups, none of them fits, or none meets the deadline.
pub fn plan(context: &Context<'_>, question: Question) -> Result<Planned, Diagnostic> {
    let stop = || context.stopped();
    let orders = Orders::until(&stop);
    let answer = Planner { context, question: &question }.answer(&orders)?;
    let levers = winner(&question, &answer.plans)
        .map_or_else(Vec::new, |winner| levers::levers(context, &question, winner, &orders));
    let software = winner(&question, &answer.plans)
        .map_or_else(Vec::new, |winner| software::chosen(&question, winner));
    let interrupted = context.cut_short();
    Ok(Planned { question, answer, levers, software, interrupted })
}

impl Serialize for Planned {
    fn serialize<S: Serializer>(&self, serializer: S) -> Result<S::Ok, S::Error> {
        json(self).serialize(serializer)
    }
}

/// The answer for machines.
#[derive(Serialize)]
struct Json<'a> {
    /// All parameters of the model, and those that a token meets.
    parameters_total: u64,
    parameters_active: u64,
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
    /// Factor of published trainings over their plans, and the factor of the question.
    contingency: ContingencyJson,
    /// The omissions of the plans, a sentence each.
    assumptions: Vec<&'static str>,
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
    left_out: &'a std::collections::BTreeMap<String, u64>,
}

fn json(planned: &Planned) -> Json<'_> {
    let Planned { question, answer, levers, software, interrupted } = planned;
    let winner = planned.winner();
    let searched = question.clusters.iter().zip(&answer.searched);
    Json {
        parameters_total: question.model.parameters(),
        parameters_active: question.model.active_parameters(),
        model_assumed: &question.model_assumed,
        plans: answer.plans.iter().map(|plan| PlanRow::of(question, plan)).collect(),
        setups: setup_report::all(planned),
        errors: &answer.bars,
        contingency: ContingencyJson {
            factor: question.contingency.unwrap_or(1.0),
            published: answer.contingency,
        },
        assumptions: assumptions::of(question, answer),
        software,
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
