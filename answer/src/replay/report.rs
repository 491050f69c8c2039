//! Predicted steps as tables.

use pipeline::Nanos;
use question::sheet::Sheet;
use question::{format, table};

use super::ReplayAnswer;

/// The steps, the error of the prediction, and the mean step after each change.
pub(super) fn sheet(answer: &ReplayAnswer) -> Sheet {
    let steps = table!(
        step = &answer.steps,
        "step" = step.step,
        "measured" = Nanos(step.measured_ns),
        "predicted" = Nanos(step.predicted_ns),
        "error" = format::signed_percent(step.error()),
    );
    let [mean, max] = [answer.mean_abs_error, answer.max_abs_error].map(format::percent);
    steps
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

/// The changes that were asked for, and the cost of each straggler.
fn changes(answer: &ReplayAnswer) -> Sheet {
    let changes = answer.what_if.iter().map(|one| (one.name.clone(), one.step_ns, one.saved_ns));
    let stragglers = answer.stragglers.iter();
    let stragglers = stragglers.map(|one| (one.to_string(), one.step_ns, one.saved_ns));
    let was = [("as it was".to_owned(), answer.predicted_ns, 0)];
    table!(
        (what, step, saved) = was.into_iter().chain(changes).chain(stragglers),
        "what if" = what,
        "mean step" = Nanos(step),
        "saves" = {
            let sign = if saved < 0 { "-" } else { "" };
            format!("{sign}{}", format::time(Nanos(saved.unsigned_abs())))
        },
        "of the step" = share(saved, answer.predicted_ns),
    )
}

#[allow(clippy::cast_precision_loss)]
fn share(part: i64, whole: u64) -> String {
    format::percent(if whole == 0 { 0.0 } else { part as f64 / whole as f64 })
}
