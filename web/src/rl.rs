//! A step of reinforcement learning.

use answer::rl::{LeverRow, PhaseRow, RlAnswer};
use draw::pictures;
use pipeline::Nanos;
use question::rl::RlKeys;
use question::{Context, Diagnostic, format};
use serde::{Deserialize, Serialize};
use serde_json::{Map, Value};

use crate::limits;
use crate::sheet::{Part, parts};
use crate::text::{table, text, unwritable};

/// A question for [`answer::rl::rl`].
#[derive(Deserialize)]
pub(crate) struct Request {
    /// Its keys, as a file.
    text: String,
}

/// The step.
#[derive(Serialize)]
pub(crate) struct Answer {
    /// Output of the command line.
    answer: RlAnswer,
    /// What it comes to, a sentence each.
    lead: Vec<String>,
    /// The same as tables.
    sheet: Vec<Part>,
    /// The phases as CSV.
    csv: String,
    /// A bar for each phase.
    svg: String,
    /// The keys that each change of the answer sets, and null for those that it takes away; nothing where it cannot be.
    changes: Vec<Option<Map<String, Value>>>,
}

impl Request {
    /// Answers it.
    pub(crate) fn answer(self, context: &Context<'_>) -> Result<Answer, Diagnostic> {
        let keys: RlKeys = table(&self.text)?;
        limits::check_rl(context, &keys)?;
        let answer = answer::rl::rl(context, &keys)?;
        let own = object(&keys)?;
        let change = |row: &LeverRow| match row.refused {
            Some(_) => Ok(None),
            None => object(&row.keys).map(|changed| Some(difference(&own, changed))),
        };
        Ok(Answer {
            lead: lead(&answer, keys.devices),
            sheet: parts(answer.sheet()),
            csv: text(answer.csv()?),
            svg: pictures::rl::phases(&answer, None)?,
            changes: answer.levers.iter().map(change).collect::<Result<_, _>>()?,
            answer,
        })
    }
}

fn object(keys: &RlKeys) -> Result<Map<String, Value>, Diagnostic> {
    match serde_json::to_value(keys).map_err(unwritable)? {
        Value::Object(all) => Ok(all),
        _ => Ok(Map::new()),
    }
}

/// What makes `after` of `before`: new values, and null for keys that are gone.
fn difference(before: &Map<String, Value>, mut after: Map<String, Value>) -> Map<String, Value> {
    let gone = before.keys().filter(|key| !after.contains_key(*key)).cloned();
    let gone: Vec<String> = gone.collect();
    after.retain(|key, value| before.get(key) != Some(value));
    after.extend(gone.into_iter().map(|key| (key, Value::Null)));
    after
}

/// What `answer`, of so many devices, says first.
fn lead(answer: &RlAnswer, devices: u64) -> Vec<String> {
    let time = format::rounded_time(Nanos(answer.step_ns));
    let longest = answer.phases.iter().max_by_key(|phase| phase.time_ns);
    let phase = longest.map_or(String::new(), |PhaseRow { phase, share, .. }| {
        format!(", of which the {phase} takes {}", format::percent(*share))
    });
    let step = format!("A step takes {} on {devices} devices{phase}.", time.trim());
    let saved = |row: &&LeverRow| row.saved.is_some_and(|saved| saved > 0.0);
    let best = answer.levers.iter().filter(saved).max_by(|a, b| {
        let [a, b] = [a, b].map(|row| row.saved.unwrap_or(0.0));
        a.total_cmp(&b)
    });
    let change = match best {
        Some(LeverRow { lever, change, saved: Some(saved), .. }) => format!(
            "The change that saves most is {lever} ({change}): {} of the time of a response.",
            format::percent(*saved)
        ),
        _ if answer.levers.is_empty() => return vec![step],
        _ => "No change that was tried saves time.".to_owned(),
    };
    vec![step, change]
}
