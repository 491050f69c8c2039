//! A step of reinforcement learning.

use answer::rl::LeverRow;
use draw::pictures;
use question::rl::RlKeys;
use question::{Context, Diagnostic, object};
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

impl Request {
    /// Answers it.
    pub(crate) fn answer(self, context: &Context<'_>) -> Result<impl Serialize, Diagnostic> {
        let keys: RlKeys = table(&self.text)?;
        limits::check_rl(context, &keys)?;
        let answer = answer::rl::rl(context, &keys)?;
        let own = object(&keys)?;
        let change = |row: &LeverRow| match row.refused {
            Some(_) => Ok(None),
            None => object(&row.keys).map(|changed| Some(difference(&own, changed))),
        };
        let svg = pictures::rl::phases(&answer, None)?;
        let changes = answer.levers.iter().map(change).collect::<Result<Vec<_>, Diagnostic>>()?;
        Ok(object!(
            flat(forms) = Forms::of(answer)?,
            // A bar for each phase.
            svg = svg,
            // The keys that each change of the answer sets, and null for those that it takes away; nothing where it cannot
            // be.
            changes = changes,
        ))
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
