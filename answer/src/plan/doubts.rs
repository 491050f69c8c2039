//! Why a plan is taken, and what speaks against it, in sentences.

use planning::Question;
use question::format;

use super::choice::{
    NEEDS, cheapest, is_late, is_run, needs, resolvable_difference, winner_of_stock,
};
use super::priced::{Plan, seconds};
use super::quantities::{amount, days};
use super::setup_report;
use super::tables::{between, limits, order_name, percent_of, setup};

/// Days by tuned recipes and by the defaults of Megatron-LM, and whether the latter would take another plan: in
/// words, where the question does not say whose software runs.
#[must_use]
pub fn both_tunings(question: &Question, plans: &[Plan], winner: &Plan) -> Option<String> {
    const KEY: &str = "tuning = \"tuned\" or \"stock\" in [training] says which";
    let Some(times) = winner.stock else {
        let covers = winner.errors_of_tunings.is_some();
        return covers
            .then(|| format!("its error is that of tuned recipes and of default software: {KEY}"));
    };
    let of = |times: f64, error: Option<[f64; 2]>| {
        let own = winner.days * times;
        let range = between(error, own, days);
        format!("{} days{range} and {} dollars", days(own), amount(winner.dollars * times))
    };
    let [tuned, stock] = [0, 1].map(|at| winner.errors_of_tunings.map(|both| both[at]));
    let other = winner_of_stock(question, plans).filter(|one| !std::ptr::eq(*one, winner));
    let is_other = other.filter(|one| {
        let apart = seconds(winner.step) * times / (seconds(one.step) * one.stock.unwrap_or(1.0));
        one.cluster != winner.cluster || apart - 1.0 > resolvable_difference(one, winner)
    });
    let verdict = match is_other {
        None => "it is the plan to take of both".to_owned(),
        Some(one) => format!(
            "that would rather take {} {} on {}",
            order_name(one),
            setup(&one.finalist.costed().setup),
            question.clusters[one.cluster].title()
        ),
    };
    Some(format!(
        "by tuned recipes {}; as a first run of stock Megatron-LM {}: {verdict}; {KEY}",
        of(1.0, tuned),
        of(times, stock)
    ))
}

/// That no plan meets deadline and budget with the odds that are asked for, the best odds, and what would raise them.
#[must_use]
pub fn missed(question: &Question, plans: &[Plan]) -> Option<String> {
    if plans.is_empty() || plans.iter().any(|plan| !is_late(question, plan)) {
        return None;
    }
    let nearest = |of: fn(&Plan) -> f64| plans.iter().min_by(|a, b| of(a).total_cmp(&of(b)));
    let described = |plan: &Plan| {
        let cluster = &question.clusters[plan.cluster];
        let (days, dollars) = (days(plan.days), amount(plan.dollars));
        format!("{days} days and {dollars} dollars on {}", cluster.title())
    };
    let of_both = |plan: &&Plan| plan.odds(question).unwrap_or_default();
    let likeliest = plans.iter().max_by(|a, b| of_both(a).total_cmp(&of_both(b)))?;
    let confidence = question.confidence;
    let factor = likeliest.overrun.factor(confidence);
    let [late, dear] =
        likeliest.odds_of_limits(question).map(|odds| odds.is_some_and(|odds| odds < confidence));
    // Rounded up, so that they are met.
    let longer = late.then(|| format!("deadline-days = {}", rounded_up(likeliest.days * factor)));
    let dearer = dear.then(|| format!("budget = {}", rounded_up(likeliest.dollars * factor)));
    let lower = (100.0 * of_both(&likeliest)).floor() / 100.0;
    let lower = (lower >= 0.01).then(|| format!("confidence = {lower}"));
    let given: Vec<String> = longer.into_iter().chain(dearer).collect();
    let given = [given.join(" and ")].into_iter().chain(lower).collect::<Vec<_>>().join(", or ");
    let limits: Vec<String> = limits(question).into_iter().flatten().collect();
    Some(format!(
        "no plan keeps within {} with odds of {}: the likeliest, {}, has {}, and would need steps {:.2} times as fast; \
         the fastest takes {}, the cheapest {}; give other devices, {given}",
        limits.join(" and "),
        percent_of(confidence),
        described(likeliest),
        percent_of(of_both(&likeliest)),
        factor * overshoot(question, likeliest),
        nearest(|plan| plan.days).map(described)?,
        nearest(|plan| plan.dollars).map(described)?,
    ))
}

/// How many times the deadline or the budget `plan` takes, the larger.
fn overshoot(question: &Question, plan: &Plan) -> f64 {
    let times = |planned: f64, limit: Option<f64>| limit.map_or(0.0, |limit| planned / limit);
    times(plan.days, question.deadline_days).max(times(plan.dollars, question.budget))
}

/// `value` in few digits, and no less.
fn rounded_up(value: f64) -> String {
    let scale = if value < 10.0 { 1e4 } else { 1.0 };
    format!("{}", (value * scale).ceil() / scale)
}

/// That nothing is measured on `machine`.
pub(crate) fn unmeasured_step(machine: &str) -> String {
    format!(
        "nothing is measured on {machine} like this: its step is what data sheets promise, not what was seen"
    )
}

/// That nothing is measured on the devices of the plan to take, that no framework runs it, or that a cheaper one is
/// left for that: a sentence each.
#[must_use]
pub fn doubts(question: &Question, plans: &[Plan], winner: &Plan) -> Vec<String> {
    let name = |plan: &Plan| question.clusters[plan.cluster].name();
    let cheaper = |is: &dyn Fn(&Plan) -> bool| {
        let mut plans = plans.iter().filter(|plan| plan.shortage.is_none() && is(plan));
        plans.find(|plan| plan.dollars < winner.dollars)
    };
    let unmeasured = match winner.error {
        None => Some(unmeasured_step(&name(winner))),
        Some(_) => cheaper(&|plan| plan.error.is_none()).map(|plan| {
            format!(
                "{} would be cheaper by its data sheet, {} dollars, and nothing is measured on it",
                name(plan),
                amount(plan.dollars)
            )
        }),
    };
    let not_run = match is_run(question, winner) {
        false => Some("neither Megatron-LM nor torchtitan runs it".to_owned()),
        true => cheaper(&|plan| !is_run(question, plan) && plan.error.is_some()).map(|plan| {
            format!(
                "{} would be cheaper, {} dollars, and neither Megatron-LM nor torchtitan runs it",
                order_name(plan),
                amount(plan.dollars)
            )
        }),
    };
    let unsure = unsure(question, plans, winner);
    unsure.into_iter().chain(unmeasured).chain(not_run).collect()
}

/// That the plan to take may not fit, or that a faster or cheaper one may fit: by how much, and with which odds.
fn unsure(question: &Question, plans: &[Plan], winner: &Plan) -> Option<String> {
    if winner.shortage.is_some() {
        return Some(format!("nothing surely fits; this one {}", setup_report::fit(winner)));
    }
    let is_unsure = |plan: &&Plan| plan.shortage.is_some() && plan.dollars < winner.dollars;
    let plan = plans.iter().filter(is_unsure).min_by(|a, b| a.dollars.total_cmp(&b.dollars))?;
    let on = match plan.cluster == winner.cluster {
        true => String::new(),
        false => format!(" on {}", question.clusters[plan.cluster].title()),
    };
    Some(format!(
        "{} {}{on} would take {}, {} dollars less, and may fit, with odds of {}: worth a first try",
        order_name(plan),
        setup(&plan.finalist.costed().setup),
        format::time(plan.step),
        amount(winner.dollars - plan.dollars),
        setup_report::odds(plan),
    ))
}

/// Why the plan to take is not the cheapest, if it is not, and what that would gain.
#[must_use]
pub fn simpler(question: &Question, plans: &[Plan], winner: &Plan) -> Option<String> {
    let cheapest = cheapest(question, plans).filter(|plan| !std::ptr::eq(*plan, winner))?;
    let [own, other] = [winner, cheapest].map(|plan| needs(question, plan));
    let more = NEEDS.into_iter().zip(own.into_iter().zip(other));
    let more: Vec<&str> =
        more.filter(|(_, (own, other))| other > own).map(|(need, _)| need).collect();
    let why = match more.is_empty() {
        true => "as stock Megatron-LM it is slower".to_owned(),
        false => format!("it needs {}", more.join(", ")),
    };
    Some(format!(
        "{} {} would be {} faster and {} dollars cheaper, but {why}, and predictions do not tell steps less than {} apart",
        order_name(cheapest),
        setup(&cheapest.finalist.costed().setup),
        format::percent(1.0 - seconds(cheapest.step) / seconds(winner.step)),
        amount(winner.dollars - cheapest.dollars),
        format::percent(resolvable_difference(winner, cheapest)),
    ))
}

/// By how much measured iterations would make the steps of set-ups better, in words, where all machines are built in.
#[must_use]
pub fn calibration(question: &Question) -> Option<String> {
    let mut machines = question.clusters.iter().flat_map(|cluster| &cluster.parts);
    let are_built_in = machines.all(|(machine, _)| {
        scenarios::MACHINES.get(&machine.name).is_some() && machine.measured.is_none()
    });
    let words = || crate::advise::calibration_helps().ok();
    are_built_in.then(words).flatten()
}
