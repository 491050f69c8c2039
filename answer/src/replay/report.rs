//! Predicted steps as tables.

use pipeline::Nanos;
use question::format;
use question::sheet::Sheet;

use super::{ReplayAnswer, Step};

/// The steps, the error of the prediction, and the mean step after each change.
pub(super) fn sheet(answer: &ReplayAnswer) -> Sheet {
    let rows = answer.steps.iter().map(step);
    let [mean, max] = [answer.mean_abs_error, answer.max_abs_error].map(format::percent);
    Sheet::table(&["step", "measured", "predicted", "error"], rows)
        .and_text(format!("\nmean absolute error {mean}, largest {max}\n"))
        .and(changes(answer).under_a_gap())
        .and(estimates(answer))
        .headed(&answer.headline)
}

/// The answer in a sentence.
pub(super) fn headline(answer: &ReplayAnswer) -> String {
    let [mean, max] = [answer.mean_abs_error, answer.max_abs_error].map(format::percent);
    let changes = answer.what_if.iter().map(|one| (one.name.clone(), one.saved_ns));
    let stragglers = answer.stragglers.iter().map(|one| (one.to_string(), one.saved_ns));
    let most = changes.chain(stragglers).filter(|(_, saved)| *saved > 0);
    let most = most.max_by_key(|(_, saved)| *saved).map_or_else(String::new, |(name, saved)| {
        format!(
            "; the change that saves most is {name}: {} of the step",
            share(saved, answer.predicted_ns)
        )
    });
    format!(
        "A step takes {}, predicted within {mean} on average and {max} at most{most}.",
        format::time(Nanos(answer.measured_ns)).trim(),
    )
}

/// The estimate of hops, and the facts that the trace lacks.
fn estimates(answer: &ReplayAnswer) -> Sheet {
    let hops = answer.hops.as_ref().map(|hops| hops.sheet().under_a_gap());
    let lacks: String = answer.lacks.iter().map(|lack| format!("the trace has {lack}\n")).collect();
    let lacks = Sheet::default().and_text(format!("\n{lacks}"));
    match hops {
        Some(hops) => hops.and(lacks),
        None => lacks,
    }
}

fn step(step: &Step) -> Vec<String> {
    let [measured, predicted] =
        [step.measured_ns, step.predicted_ns].map(|time| format::time(Nanos(time)));
    vec![step.step.to_string(), measured, predicted, format::signed_percent(step.error())]
}

/// The changes that were asked for, and the cost of each straggler.
fn changes(answer: &ReplayAnswer) -> Sheet {
    let row = |what: String, step: u64, saved: i64| {
        let sign = if saved < 0 { "-" } else { "" };
        let time = |nanos| format::time(Nanos(nanos));
        let saved_time = format!("{sign}{}", time(saved.unsigned_abs()));
        vec![what, time(step), saved_time, share(saved, answer.predicted_ns)]
    };
    let changes = answer.what_if.iter().map(|one| row(one.name.clone(), one.step_ns, one.saved_ns));
    let stragglers = answer.stragglers.iter();
    let stragglers = stragglers.map(|one| row(one.to_string(), one.step_ns, one.saved_ns));
    let all = std::iter::once(row("as it was".to_owned(), answer.predicted_ns, 0));
    let header = ["what if", "mean step", "saves", "of the step"];
    Sheet::table(&header, all.chain(changes).chain(stragglers))
}

#[allow(clippy::cast_precision_loss)]
fn share(part: i64, whole: u64) -> String {
    format::percent(if whole == 0 { 0.0 } else { part as f64 / whole as f64 })
}
