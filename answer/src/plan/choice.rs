//! Which of the plans to take, and which of them no other one beats.

use question::plan::Question;

use super::priced::{Plan, seconds};
use crate::front::{Candidate, standings};

/// The plan to take: of the cheapest that fits and meets deadline and budget, and of those of its kind on its
/// cluster whose steps nobody can tell from its, the one that leaves most of a device free. Steps
/// of another kind are off by something else, so that nothing is known of the difference.
#[must_use]
pub fn winner<'a>(question: &Question, plans: &'a [Plan]) -> Option<&'a Plan> {
    let cheapest = cheapest(question, plans)?;
    let alike = |plan: &&Plan| {
        let apart = seconds(plan.step) / seconds(cheapest.step) - 1.0;
        let is_comparable = plan.cluster == cheapest.cluster && plan.kind == cheapest.kind;
        is_comparable && apart.abs() <= told_apart(cheapest)
    };
    // Of those that leave as much, the faster.
    let room = |plan: &&Plan| (plan.room(), std::cmp::Reverse(plan.step));
    plans.iter().filter(|plan| is_takeable(question, plan)).filter(alike).max_by_key(room)
}

/// The cheapest plan of those that meet deadline and budget: where something is measured on the devices of any of them, of
/// these alone.
#[must_use]
pub fn cheapest<'a>(question: &Question, plans: &'a [Plan]) -> Option<&'a Plan> {
    let may = || plans.iter().filter(|plan| is_takeable(question, plan));
    let dollars = |a: &&Plan, b: &&Plan| a.dollars.total_cmp(&b.dollars);
    let measured = may().filter(|plan| plan.error.is_some()).min_by(dollars);
    measured.or_else(|| may().min_by(dollars))
}

fn is_takeable(question: &Question, plan: &Plan) -> bool {
    plan.lacks.is_none() && !is_late(question, plan)
}

/// Whether `plan` misses the deadline or the budget.
#[must_use]
pub fn is_late(question: &Question, plan: &Plan) -> bool {
    question.deadline_days.is_some_and(|days| plan.days > days)
        || question.budget.is_some_and(|budget| plan.dollars > budget)
}

/// By how much two steps must differ to be told apart where nothing was measured of their kind: an
/// assumption, about the mean error on measured steps of other kinds.
const UNMEASURED: f64 = 0.05;

/// By how much the step of another plan of the kind of `plan` must differ from its to be told apart,
/// as a share: what 95 % of the errors of its kind do not exceed.
pub fn told_apart(plan: &Plan) -> f64 {
    plan.apart.unwrap_or(UNMEASURED)
}

/// Marks the plans that no other one beats in both time and money.
pub(super) fn mark_front(plans: &mut [Plan]) {
    let candidate = |plan: &Plan| Candidate::new((plan.days, plan.dollars), None);
    let all: Vec<Candidate> = plans.iter().map(candidate).collect();
    for (plan, standing) in plans.iter_mut().zip(standings(&all)) {
        plan.on_front = standing.is_on_front();
    }
}
