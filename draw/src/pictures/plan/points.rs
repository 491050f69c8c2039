//! The answer as a picture: days against dollars.

use crate::Width;
use crate::plot::Scale;
use crate::plot::scatter;
use crate::plot::scatter::{Details, Mark, Scatter, ScatterPanel};
use answer::front::Standing;
use answer::plan::{Plan, PlanAnswer, tables};
use planning::Question;
use question::Diagnostic;

/// Days against dollars: a point for each plan, with its number, and a series for each cluster, or for
/// each schedule where there is one cluster, in a picture of that `width`.
pub fn svg(
    question: &Question,
    answer: &PlanAnswer,
    width: Option<Width>,
) -> Result<String, Diagnostic> {
    let mut series: Vec<String> = Vec::new();
    let mut points: Vec<Vec<Mark>> = Vec::new();
    let mut details = Details { labels: Vec::new(), notes: vec![errors(&answer.plans)] };
    let dearest = answer.plans.iter().map(|plan| plan.dollars).fold(0.0, f64::max);
    let units = [(1e9, "B"), (1e6, "M"), (1e3, "k")];
    let unit = units.into_iter().find(|(size, _)| dearest >= 2.0 * size).unwrap_or((1.0, ""));
    let is_one = answer.plans.iter().all(|plan| plan.cluster == answer.plans[0].cluster);
    for (number, plan) in (1..).zip(&answer.plans) {
        let setup = &plan.finalist.costed().setup;
        let machines = question.clusters[plan.cluster].title();
        let schedule = setup.schedule_name().to_owned();
        let (name, label) = match is_one {
            true => (schedule, format!("{number}: {}", tables::setup(setup))),
            false => (machines, format!("{number}: {schedule}")),
        };
        let at = series.iter().position(|one| *one == name).unwrap_or_else(|| {
            series.push(name);
            points.push(Vec::new());
            details.labels.push(Vec::new());
            series.len() - 1
        });
        let standing = if plan.on_front { Standing::OnFront } else { Standing::Beaten };
        points[at].push(Mark { x: plan.days, y: plan.dollars / unit.0, standing });
        details.labels[at].push(label);
    }
    let one = match (is_one, answer.plans.first()) {
        (true, Some(plan)) => question.clusters[plan.cluster].title(),
        _ => "time against money, by number of plan".to_owned(),
    };
    let scatter = Scatter {
        title: question.title.clone(),
        x_label: "days for all tokens".to_owned(),
        y_label: "dollars for all tokens".to_owned(),
        scale: Scale::Dollars(unit.1),
        series,
        columns: 1,
        named: false,
        not_compared: String::new(),
        width,
        panels: vec![ScatterPanel { title: one, series: points, limit: None }],
    };
    Ok(scatter::svg_with(&scatter, &details)?)
}

/// By how much the days and dollars of `plans` may be off: one factor changes both.
fn errors(plans: &[Plan]) -> String {
    let known: Vec<[f64; 2]> = plans.iter().filter_map(|plan| plan.error).collect();
    let most = |end: usize| known.iter().map(|error| error[end]).fold(0.0, f64::max) * 100.0;
    match known.len() {
        0 => "nothing measured of this kind: the error of days and dollars is unknown".to_owned(),
        count => format!(
            "95 % of measured runs are within -{:.0} to +{:.0} % of these days, and of these dollars with them{}",
            most(0),
            most(1),
            if count < plans.len() { "; of some plans, nothing measured of this kind" } else { "" }
        ),
    }
}
