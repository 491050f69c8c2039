//! The answer of the planner in a sentence.

use question::format;

use super::planned::Planned;
use super::priced::Plan;
use super::quantities::{amount, days};
use super::{doubts, setup_report, tables};

impl Planned {
    /// The plan to take with its days and dollars, each with the range of 95 % of runs; that none meets deadline and
    /// budget; or each set-up that was asked for, a line each.
    #[must_use]
    pub fn headline(&self) -> String {
        let Self { question, answer, .. } = self;
        if question.is_of_one() {
            let lines = answer.plans.iter().map(|plan| {
                let name = question.clusters[plan.cluster].title();
                let own = tables::asked(question, &plan.finalist.costed().setup);
                let order = tables::order_name(plan);
                format!("{name}: {order} {own} {}; {}.", setup_report::fit(plan), cost(plan))
            });
            return lines.collect::<Vec<_>>().join("\n");
        }
        let winner = self.winner().map(|winner| {
            let which = tables::taken(question, answer, winner);
            format!("The plan to take: {which}: {}.", cost(winner))
        });
        let missed = || doubts::missed(question, &answer.plans);
        winner.or_else(missed).unwrap_or_default()
    }
}

/// Days and dollars of `plan` with three digits, and from where to where they reach in 95 % of runs.
fn cost(plan: &Plan) -> String {
    let unmeasured = if plan.error.is_none() { ", of unknown error" } else { "" };
    format!(
        "{} days{}, {} dollars{}{unmeasured}",
        rounded_days(plan.days),
        tables::between(plan.error, plan.days, rounded_days),
        rounded(plan.dollars),
        tables::between(plan.error, plan.dollars, rounded),
    )
}

fn rounded(value: f64) -> String {
    amount(format::three_digits(value))
}

fn rounded_days(value: f64) -> String {
    if value >= 100.0 { rounded(value) } else { days(format::three_digits(value)) }
}
