//! A step of reinforcement learning.

use answer::rl::{LeverRow, RlAnswer};
use draw::pictures;
use question::rl::RlKeys;
use question::{Context, Diagnostic};
use serde::{Deserialize, Serialize};
use serde_json::{Map, Value};

use crate::limits;
use crate::sheet::Forms;
use crate::text::{table, unwritable};

/// A question for [`answer::rl::rl`].
#[derive(Deserialize)]
pub(crate) struct Request {
    /// Its keys, as a file.
    text: String,
}

/// The step.
#[derive(Serialize)]
pub(crate) struct Answer {
    #[serde(flatten)]
    forms: Forms<RlAnswer>,
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
            svg: pictures::rl::phases(&answer, None)?,
            changes: answer.levers.iter().map(change).collect::<Result<_, _>>()?,
            forms: Forms::of(answer)?,
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
