//! The result of a search, in the same words and keys for every kind of question.

use pipeline::Nanos;
use question::format;
use search::Milestone;
use serde::Serialize;

/// The best order that a search has found, and how far any other can be from it. Times are those of the objective.
#[derive(Serialize, Clone, PartialEq, Debug)]
pub struct Solution {
    /// The objective that was minimised: `span`, `makespan`, `step`, `mean`, `p95` and so on.
    pub objective: &'static str,
    /// Its value for the order found.
    pub cost_ns: u64,
    /// The lower bound on the cost of any order of the question; none where none is proved.
    pub bound_ns: Option<u64>,
    /// By how much the cost exceeds the bound, as a share of the cost; 0 is optimal among the orders searched.
    pub gap: Option<f64>,
    /// The orders that are searched and bounded, where the question leaves others out.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub among: Option<String>,
    /// Argument that proves the bound, where it has a name.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub argument: Option<String>,
    /// Whether the order keeps all memory limits.
    pub fits: bool,
    /// Steps of the search: passes placed or timed, of a joint search choices tried.
    pub steps: u64,
    /// Every improvement of the cost, and the end of the search. Costs are those that the search estimates, where the
    /// objective is one of simulations.
    pub history: Vec<MilestoneRow>,
}

/// The best cost after a number of steps.
#[derive(Serialize, Clone, Copy, PartialEq, Eq, Debug)]
pub struct MilestoneRow {
    pub steps: u64,
    /// The best cost by then.
    pub cost_ns: u64,
    /// The lower bound by then, if one was proved.
    pub bound_ns: Option<u64>,
}

impl From<&Milestone> for MilestoneRow {
    fn from(one: &Milestone) -> Self {
        let Milestone { steps, cost, bound } = *one;
        Self { steps, cost_ns: cost.0, bound_ns: bound.map(|bound| bound.0) }
    }
}

impl Solution {
    /// The result of a search that has minimised `objective` to `cost`, improvement by improvement.
    pub(crate) fn new(
        (objective, cost): (&'static str, Nanos),
        bound: Option<Nanos>,
        history: &[Milestone],
    ) -> Self {
        Self {
            objective,
            cost_ns: cost.0,
            bound_ns: bound.map(|bound| bound.0),
            gap: bound.map(|bound| gap(cost, bound)),
            among: None,
            argument: None,
            fits: true,
            steps: history.last().map_or(0, |last| last.steps),
            history: history.iter().map(MilestoneRow::from).collect(),
        }
    }

    /// How far the order is from the bound, in words.
    #[must_use]
    pub fn against_bound(&self) -> String {
        let bound = self.bound_ns.map(Nanos);
        against_bound(Nanos(self.cost_ns), bound, self.among.as_deref(), in_time)
    }
}

/// How far `cost` is from `bound`, with the time of the bound.
pub(crate) fn against_bound_in_time(cost: Nanos, bound: Option<Nanos>) -> String {
    against_bound(cost, bound, None, in_time)
}

fn in_time(bound: Nanos) -> String {
    format::time(bound).trim().to_owned()
}

/// How far `cost` is from `bound`, in the words of every headline and note. `among` are the orders that are bounded, where
/// the question leaves others out; `shown` writes the bound.
pub(crate) fn against_bound(
    cost: Nanos,
    bound: Option<Nanos>,
    among: Option<&str>,
    shown: impl Fn(Nanos) -> String,
) -> String {
    match bound {
        None => "no lower bound is proved for this objective".to_owned(),
        Some(bound) if bound >= cost => match among {
            Some(orders) => format!("proved optimal: no order of {orders} takes less"),
            None => "proved optimal".to_owned(),
        },
        Some(bound) => {
            format!("lower bound {}, {} shorter", shown(bound), format::percent(gap(cost, bound)))
        }
    }
}

/// By how much `cost` exceeds `bound`, as a share of the cost; nothing of no cost.
#[allow(clippy::cast_precision_loss)]
pub(crate) fn gap(cost: Nanos, bound: Nanos) -> f64 {
    if cost.0 == 0 { 0.0 } else { 1.0 - bound.0.min(cost.0) as f64 / cost.0 as f64 }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn an_order_of_no_time_is_optimal_and_has_no_gap() {
        let free = Solution::new(("span", Nanos(0)), Some(Nanos(0)), &[]);
        assert_eq!((free.gap, free.against_bound().as_str()), (Some(0.0), "proved optimal"));
        let found = Solution::new(("span", Nanos(200)), Some(Nanos(150)), &[]);
        assert_eq!(found.gap, Some(0.25));
        assert!(found.against_bound().ends_with("25.00 % shorter"), "{}", found.against_bound());
        let among = Some("1 chunk per stage".to_owned());
        let best = Solution { among, ..Solution::new(("span", Nanos(200)), Some(Nanos(200)), &[]) };
        let words = "proved optimal: no order of 1 chunk per stage takes less";
        assert_eq!(best.against_bound(), words);
        let open = Solution::new(("p95", Nanos(200)), None, &[]);
        assert_eq!(open.gap, None);
    }
}
