//! A plan for those who run it: scripts and configurations of Megatron-LM and torchtitan, and the scenario
//! that reproduces it here. What a file lacks of the plan stands in it as a comment, and in the notes.

mod megatron;
mod scenario;
mod torch_order;
mod torchtitan;

use planning::{Framework, Question};
use question::Diagnostic;

use self::megatron::Route;
use self::torch_order::TorchOrder;
use super::choice::is_late;
use super::planned::Planned;
use super::priced::Plan;
use super::setup_report::fit;

/// The order of the plan as torch reads it, beside the configurations of torchtitan that name it.
const SCHEDULE_CSV: &str = "schedule.csv";

/// The files of a plan, and what they lack of it.
pub struct Exported {
    /// Name and content of each file.
    pub files: Vec<(String, String)>,
    /// What is missing or said otherwise, a sentence each.
    pub notes: Vec<String>,
    /// Whether some framework runs the plan.
    pub runs: bool,
}

/// The files of the plan to take or, where one set-up is asked for, of that set-up if it may fit.
pub fn exported(planned: &Planned) -> Result<Exported, Diagnostic> {
    let (question, plan) = (&planned.question, to_export(planned)?);
    let runs = planned.runs(plan);
    Ok(Exported { files: files(question, plan), notes: notes(question, plan), runs })
}

/// The plan whose files are written.
fn to_export(planned: &Planned) -> Result<&Plan, Diagnostic> {
    if let Some(winner) = planned.winner() {
        return Ok(winner);
    }
    if !planned.question.is_of_one() {
        let message = "an export needs a recommended plan, and there is none";
        return Err(Diagnostic::new(message)
            .with_help("name one as [setup] in the question: its files are written then"));
    }
    let plans = &planned.answer.plans;
    let may_fit = |plan: &&Plan| plan.shortage.is_none_or(|shortage| shortage.may_hold.is_some());
    let dollars = |a: &&Plan, b: &&Plan| a.dollars.total_cmp(&b.dollars);
    plans.iter().filter(may_fit).min_by(dollars).ok_or_else(|| {
        let reason = plans.first().map_or_else(|| "does not fit".to_owned(), fit);
        let message = format!("an export has a set-up that may fit, and this one {reason}");
        Diagnostic::new(message).with_help(
            "recompute more, or take more devices, tensor groups, stages or shards (zero)",
        )
    })
}

/// The files that `plan` is run from, by name: in Megatron-LM, in torchtitan, and here.
#[must_use]
pub fn files(question: &Question, plan: &Plan) -> Vec<(String, String)> {
    let (route, order) = (Route::of(question, plan), TorchOrder::of(plan));
    let mut files = settings_with(question, plan, &route, &order);
    let order_file = match route {
        Route::Runner(name) => Some(name),
        Route::Own | Route::No(_) => scenario::order_file(plan),
    };
    files.extend(order_file.map(|name| (name, plan.finalist.schedule().to_string())));
    if let TorchOrder::File { csv, .. } = order {
        files.push((SCHEDULE_CSV.to_owned(), csv));
    }
    files
}

/// What the [`files`] lack of `plan`, a sentence each: why there is no `megatron.sh`, and the comments of the
/// files for the framework of the question, or for both.
#[must_use]
pub fn notes(question: &Question, plan: &Plan) -> Vec<String> {
    let mut notes = Vec::new();
    if question.framework != Framework::Torchtitan {
        match Route::of(question, plan) {
            Route::No(reason) => notes.push(format!("there is no megatron.sh: {reason}")),
            route => notes.extend(
                megatron::comments(question, plan, &route)
                    .map(|line| format!("megatron.sh: {line}")),
            ),
        }
    }
    if question.framework != Framework::Megatron {
        let order = TorchOrder::of(plan);
        let [old, main] = torchtitan::comments(question, plan, &order);
        let both = |line: &String| old.contains(line);
        notes.extend(old.iter().map(|line| match main.contains(line) {
            true => format!("torchtitan.toml and torchtitan.sh: {line}"),
            false => format!("torchtitan.toml: {line}"),
        }));
        notes.extend(
            main.iter().filter(|line| !both(line)).map(|line| format!("torchtitan.sh: {line}")),
        );
    }
    if !scenario::is_scenario(plan) {
        notes.push(
            "there is no scenario.toml: a scenario has no keys for the work of pairs on two streams"
                .to_owned(),
        );
    }
    if is_late(question, plan) {
        notes.push("the plan misses the deadline or the budget".to_owned());
    }
    notes
}

/// That memory may not suffice, if it may not.
fn unsure(plan: &Plan) -> Option<String> {
    plan.shortage.map(|_| fit(plan))
}

/// Keys about gradients and optimizer that neither framework has as the plan has them, a line each.
fn state(question: &Question) -> impl Iterator<Item = String> {
    let own = &question.recipe;
    let (optimizer, gradients) = (own.optimizer, own.gradient_bytes);
    let keys = [
        ("gradient-bytes", gradients, 4, gradients != 4),
        ("optimizer-bytes", optimizer.bytes[0], 12, optimizer.is_unusual()),
    ];
    keys.into_iter().filter(|(.., is_unusual)| *is_unusual).map(|(key, bytes, usual, _)| {
        format!("{key} = {bytes}: these settings leave it to the framework, by default {usual}")
    })
}

/// The arguments of Megatron-LM for `plan`, a line each, where it runs the plan; those that begin with # are
/// comments.
#[must_use]
pub fn megatron_arguments(question: &Question, plan: &Plan) -> Option<Vec<String>> {
    let route = Route::of(question, plan);
    matches!(route, Route::Own).then(|| megatron::arguments(question, plan, &route))
}

/// The [`files`] that are short enough to be shown: all but orders.
#[must_use]
pub fn settings(question: &Question, plan: &Plan) -> Vec<(String, String)> {
    settings_with(question, plan, &Route::of(question, plan), &TorchOrder::of(plan))
}

fn settings_with(
    question: &Question,
    plan: &Plan,
    route: &Route,
    order: &TorchOrder,
) -> Vec<(String, String)> {
    let mut all = vec![
        ("torchtitan.toml", torchtitan::toml(question, plan, order)),
        ("torchtitan.sh", torchtitan::script(question, plan, order)),
    ];
    if !matches!(route, Route::No(_)) {
        all.insert(0, ("megatron.sh", megatron::script(question, plan, route)));
    }
    if scenario::is_scenario(plan) {
        all.push(("scenario.toml", scenario::scenario(question, plan)));
        all.push(("cluster.toml", scenario::cluster(question, plan)));
    }
    all.into_iter().map(|(name, file)| (name.to_owned(), file)).collect()
}

/// A script of bash that sets the array `name` to the arguments in `lines`, of which those that begin with #
/// are comments, under the lines `head`.
fn array(head: &str, name: &str, lines: &[String]) -> String {
    let lines: String = lines.iter().map(|line| format!("  {line}\n")).collect();
    format!(
        "#!/bin/bash\n{head}# shellcheck disable=SC2034 # Used by the script that sources this file.\n{name}=(\n{lines})\n"
    )
}
