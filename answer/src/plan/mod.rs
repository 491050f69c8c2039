//! Plans: the set-up to train a model with on given machines, its step time and its cost.

pub mod against;
mod answer;
pub mod assumptions;
mod choice;
pub mod chunk_layers;
mod documents;
pub mod doubts;
mod experts;
pub mod export;
mod facts;
pub mod fit;
mod ground;
mod headline;
mod json;
mod levers;
mod model;
mod network;
mod no_plan;
mod parts;
mod planned;
mod priced;
pub mod quantities;
mod room;
mod row;
pub mod setup_report;
pub mod software;
pub mod tables;

use plan::Orders;
use planning::Question;
use question::{Context, Diagnostic};

pub use self::against::Against;
pub(crate) use self::answer::Planner;
pub use self::answer::{PlanAnswer, Searched};
pub use self::choice::{cheapest, is_late, resolvable_difference, winner};
pub use self::documents::PackedSteps;
pub use self::experts::{AllToAllOverlap, ExpertLoad};
pub use self::facts::facts;
pub use self::ground::ground;
pub use self::levers::Lever;
pub use self::network::MeasuredNetwork;
pub use self::parts::Part;
pub use self::planned::Planned;
pub use self::priced::{Plan, seconds};
pub use self::setup_report::SetupReport;
pub use self::software::ChosenSoftware;

/// Searches the set-ups of `question`, runs the best by the event engine, and tries changes of the
/// machines of the plan to take.
pub fn plan(context: &Context<'_>, question: Question) -> Result<Planned, Diagnostic> {
    room::check()?;
    let stop = || context.stopped();
    let orders = Orders::until(&stop);
    let answer = Planner { context, question: &question }.answer(&orders)?;
    let best = winner(&question, &answer.plans);
    let levers =
        best.map_or_else(Vec::new, |best| levers::levers(context, &question, best, &orders));
    let software = best.map_or_else(Vec::new, |best| software::chosen(&question, best));
    let network = best.and_then(|best| network::hangs_on(&question, &answer.plans, best));
    let built_in_network =
        best.and_then(|best| network::without(context, &question, best, &orders));
    let interrupted = context.cut_short();
    Ok(Planned { question, answer, levers, software, network, built_in_network, interrupted })
}

#[cfg(test)]
mod keys_tests;
