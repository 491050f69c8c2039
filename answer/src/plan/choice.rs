//! The plan to take, and the plans on the Pareto front.

use measured::{CalibratedErrors, Change};
use plan::Split;
use planning::{Framework, Question};

use super::priced::{Plan, seconds};
use crate::front::{Candidate, standings};

/// The plan to take: of the cheapest plan that may be taken and the plans of its kind on its cluster whose steps cannot be
/// separated from its own, the one that needs least, of equals the fastest. Where the question does not say whose software
/// runs, it is so for tuned recipes and for stock Megatron-LM, if there is one such plan.
#[must_use]
pub fn winner<'a>(question: &Question, plans: &'a [Plan]) -> Option<&'a Plan> {
    let tuned = unresolved(candidates(question, plans), |_| Some(1.0));
    let stock = unresolved(candidates(question, plans), |plan| plan.stock);
    let both = |plan: &&Plan| stock.iter().any(|one| std::ptr::eq(*one, *plan));
    let needs = |plan: &&Plan| (needs(question, plan), plan.step);
    narrowed(tuned, |plan| both(&plan)).into_iter().min_by_key(needs)
}

/// The plan to take as a first run of stock Megatron-LM, if that runs any.
#[must_use]
pub(super) fn winner_of_stock<'a>(question: &Question, plans: &'a [Plan]) -> Option<&'a Plan> {
    let needs = |plan: &&Plan| (needs(question, plan), plan.step);
    unresolved(candidates(question, plans), |plan| plan.stock).into_iter().min_by_key(needs)
}

/// Of the plans of `all` that take so many `times` as long, where that is known: the cheapest, and those of its kind on
/// its cluster that are not resolvably slower.
fn unresolved(mut all: Vec<&Plan>, times: impl Fn(&Plan) -> Option<f64>) -> Vec<&Plan> {
    all.retain(|plan| times(plan).is_some());
    let cost = |plan: &Plan, of_one: f64| of_one * times(plan).unwrap_or(1.0);
    let dollars = |plan: &Plan| cost(plan, plan.dollars);
    let cheapest = all.iter().copied().min_by(|a, b| dollars(a).total_cmp(&dollars(b)));
    let alike = |plan: &&Plan| {
        cheapest.is_some_and(|cheapest| {
            let is_comparable = plan.cluster == cheapest.cluster && plan.kind == cheapest.kind;
            let [own, least] = [*plan, cheapest].map(|one| cost(one, seconds(one.step)));
            is_comparable && own / least - 1.0 <= resolvable_difference(plan, cheapest)
        })
    };
    all.retain(alike);
    all
}

/// Properties of a plan that another may do without, the hardest first, each with the words for more of it.
pub(super) const NEEDS: [&str; 4] =
    ["another framework", "a searched order", "layers that are not even", "more software keys"];

/// How much of each of [`NEEDS`] `plan` has. Times are those of Megatron-LM unless the question names a framework.
pub(super) fn needs(question: &Question, plan: &Plan) -> [usize; 4] {
    let framework = match question.framework {
        Framework::Any => Framework::Megatron,
        named => named,
    };
    let setup = &plan.finalist.costed().setup;
    let split = match setup.split {
        _ if setup.pipeline == 1 => 0,
        Split::Even => 0,
        Split::Balanced | Split::Layout => 1,
        Split::Searched => 2,
    };
    let keys = question.keys(setup.options, &question.clusters[plan.cluster]).len();
    [usize::from(!plan.runs_in(framework, question)), usize::from(setup.searched), split, keys]
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

/// Whether `plan` meets deadline and budget with lower odds than are asked for.
#[must_use]
pub fn is_late(question: &Question, plan: &Plan) -> bool {
    plan.odds(question).is_some_and(|odds| odds < question.confidence)
}

/// Smallest relative difference of the steps of two plans that can be resolved: the mean error on published pairs of
/// set-ups with such a change.
#[must_use]
pub fn resolvable_difference(one: &Plan, other: &Plan) -> f64 {
    let [one, other] = [one, other].map(|plan| &plan.finalist.costed().setup);
    CalibratedErrors::of(Change::of(one, other)).map_or(0.0, |errors| errors.mean)
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
