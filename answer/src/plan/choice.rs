//! The plan to take, and the plans on the Pareto front.

use planning::{Framework, Question};

use super::priced::{Plan, seconds};
use crate::front::{Candidate, standings};

/// The plan to take: of the cheapest plan that may be taken and the plans of its kind on its cluster
/// whose steps cannot be separated from its own, the one with most headroom. Steps of another kind have
/// other errors, so the difference to them is not known.
#[must_use]
pub fn winner<'a>(question: &Question, plans: &'a [Plan]) -> Option<&'a Plan> {
    let cheapest = cheapest(question, plans)?;
    let alike = |plan: &&Plan| {
        let apart = seconds(plan.step) / seconds(cheapest.step) - 1.0;
        let is_comparable = plan.cluster == cheapest.cluster && plan.kind == cheapest.kind;
        is_comparable && apart.abs() <= resolvable_difference(cheapest)
    };
    // Of equal headroom, the faster.
    let headroom = |plan: &&Plan| (plan.headroom(), std::cmp::Reverse(plan.step));
    candidates(question, plans).into_iter().filter(alike).max_by_key(headroom)
}

/// The cheapest of the plans that may be taken.
#[must_use]
pub fn cheapest<'a>(question: &Question, plans: &'a [Plan]) -> Option<&'a Plan> {
    let dollars = |a: &&Plan, b: &&Plan| a.dollars.total_cmp(&b.dollars);
    candidates(question, plans).into_iter().min_by(dollars)
}

/// The plans that may be taken: those that meet deadline and budget; of these, where there are any, those that surely
/// fit, in place of those that a search found as likely to fit as not; of these, those on devices of which something is
/// measured; and of these those that some framework runs.
fn candidates<'a>(question: &Question, plans: &'a [Plan]) -> Vec<&'a Plan> {
    let all: Vec<&Plan> = plans.iter().filter(|plan| is_takeable(question, plan)).collect();
    let sure = narrowed(all, |plan| plan.shortage.is_none());
    let measured = narrowed(sure, |plan| plan.error.is_some());
    narrowed(measured, |plan| is_run(question, plan))
}

/// Those of `plans` for which `is` holds, or all where there are none.
fn narrowed(plans: Vec<&Plan>, is: impl Fn(&Plan) -> bool) -> Vec<&Plan> {
    let own: Vec<&Plan> = plans.iter().copied().filter(|plan| is(plan)).collect();
    if own.is_empty() { plans } else { own }
}

/// Whether some framework runs `plan`.
#[must_use]
pub(super) fn is_run(question: &Question, plan: &Plan) -> bool {
    Framework::that_runs(&plan.finalist.costed().setup, &question.recipe).is_some()
}

fn is_takeable(question: &Question, plan: &Plan) -> bool {
    (plan.shortage.is_none() || !question.is_of_one()) && !is_late(question, plan)
}

/// Whether `plan` misses the deadline or the budget.
#[must_use]
pub fn is_late(question: &Question, plan: &Plan) -> bool {
    question.deadline_days.is_some_and(|days| plan.days > days)
        || question.budget.is_some_and(|budget| plan.dollars > budget)
}

/// Smallest relative difference of two steps that can be resolved where nothing was measured of their
/// kind: an assumption, about the mean error on measured steps of other kinds.
const UNMEASURED: f64 = 0.05;

/// Smallest relative difference that can be resolved between the step of `plan` and that of another
/// plan of its kind: the 95th percentile of the errors of its kind.
pub fn resolvable_difference(plan: &Plan) -> f64 {
    plan.apart.unwrap_or(UNMEASURED)
}

/// Marks the plans on the Pareto front of time and money.
pub(super) fn mark_front(plans: &mut [Plan]) {
    let fits = |plan: &Plan| plan.shortage.is_none();
    let is_sure = plans.iter().any(fits);
    let candidate =
        |plan: &Plan| Candidate::new((plan.days, plan.dollars), is_sure.then(|| fits(plan)));
    let all: Vec<Candidate> = plans.iter().map(candidate).collect();
    for (plan, standing) in plans.iter_mut().zip(standings(&all)) {
        plan.on_front = standing.is_on_front();
    }
}
