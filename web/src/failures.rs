//! Dead workers of data-parallel pipelines, whose passes peers run.

use answer::failures::{FailureRow, FailuresAnswer};
use pipeline::Nanos;
use question::failures::FailureKeys;
use question::keys::Keys;
use question::{Context, Diagnostic, format};
use serde::{Deserialize, Serialize};

use crate::limits;
use crate::sheet::{Part, parts};
use crate::text::{scenario, table, text};

/// A question for [`answer::failures::failures`].
#[derive(Deserialize)]
pub(crate) struct Request {
    /// The keys of dead workers, as a file.
    text: String,
    /// The scenario whose schedules are asked about.
    scenario: String,
}

/// The steps that remain.
#[derive(Serialize)]
pub(crate) struct Answer {
    /// Output of the command line.
    answer: FailuresAnswer,
    /// What it comes to, a sentence each.
    lead: Vec<String>,
    /// The same as tables.
    sheet: Vec<Part>,
    /// The rows as CSV.
    csv: String,
}

impl Request {
    /// Answers it.
    pub(crate) fn answer(self, context: &Context<'_>) -> Result<Answer, Diagnostic> {
        let keys: FailureKeys = table(&self.text)?;
        let scenario = scenario(context, self.scenario)?.with(context, &Keys::default())?;
        limits::check_failures(context, &scenario, &keys)?;
        let answer = answer::failures::failures(context, &scenario, &keys)?;
        Ok(Answer {
            lead: lead(&answer.results),
            sheet: parts(answer.sheet()),
            csv: text(answer.csv()?),
            answer,
        })
    }
}

/// The sentences about the shortest rerouted step of `rows`, and the policy that bears failures best with it.
fn lead(rows: &[FailureRow]) -> Vec<String> {
    let Some(best) = rows.iter().min_by_key(|row| row.rerouted.step.step_ns) else {
        return Vec::new();
    };
    let schedule = name(best);
    let dead = match best.dead.as_slice() {
        [one] => format!("worker {one} dead and its"),
        many => format!("workers {} dead and their", many.join(", ")),
    };
    let [rerouted, healthy] = [best.rerouted.step.step_ns, best.healthy.step_ns];
    let [after, before] = [rerouted, healthy].map(|time| format::time(Nanos(time)));
    let longer = longer(rerouted, healthy);
    let step = format!(
        "With {dead} passes rerouted to peers, {schedule} has the shortest step: {}, {} {} than the {} of all workers.",
        after.trim(),
        format::percent(longer.abs()),
        if longer < 0.0 { "shorter" } else { "longer" },
        before.trim(),
    );
    let policy = best.policies.iter().max_by(|a, b| a.goodput.total_cmp(&b.goodput));
    let policy = policy.map(|one| {
        format!(
            "In the long run the policy {} has the most goodput with it: {} of the steps of a training without \
             failures.",
            one.policy,
            format::percent(one.goodput),
        )
    });
    std::iter::once(step).chain(policy).collect()
}

/// The schedule of `row`, with its setting and how its backwards run.
fn name(row: &FailureRow) -> String {
    let setting = row.setting.iter().map(|name| format!("{name}: ")).collect::<String>();
    format!("{setting}{} with {} backwards", row.schedule, row.backward)
}

/// By how much `time` exceeds `than`, as a share of it.
#[allow(clippy::cast_precision_loss)]
fn longer(time: u64, than: u64) -> f64 {
    time as f64 / than.max(1) as f64 - 1.0
}
