//! The best order under a memory limit.

use answer::search::{Row, certificate};
use draw::pictures;
use question::search::Keys;
use question::{Context, Diagnostic, keywords};
use serde::{Deserialize, Serialize};
use serde_json::Value;

use crate::request::scenario;

/// A question for [`answer::search`].
#[derive(Deserialize)]
pub(crate) struct Request {
    /// The scenario.
    text: String,
    /// The keys of the search.
    #[serde(default)]
    keys: Value,
}

/// What was found.
#[derive(Serialize)]
pub(crate) struct Answer {
    /// What the command line prints.
    #[serde(flatten)]
    answer: answer::search::Answer,
    /// The same as tables.
    table: String,
    /// The orders that were found, row by row.
    found: Vec<Found>,
}

/// An order that was found.
#[derive(Serialize)]
struct Found {
    title: String,
    /// In the text form.
    order: String,
    certificate: String,
    /// Its timeline, beside the best that was published.
    svg: String,
}

impl Found {
    fn of(row: &Row) -> Result<Self, Diagnostic> {
        Ok(Self {
            title: row.title(),
            order: row.searched.found.schedule.to_string(),
            certificate: certificate(row)?,
            svg: pictures::search::timelines([row])?,
        })
    }
}

impl Request {
    /// Answers it.
    pub(crate) fn answer(self, context: &Context<'_>) -> Result<Answer, Diagnostic> {
        let keys = match self.keys {
            Value::Null => Keys::default(),
            keys => keywords::keys(&keys.to_string())?,
        };
        let scenario =
            scenario(context, self.text)?.with(context, &question::keys::Keys::default())?;
        let answer = answer::search::search(context, &scenario, &keys)?;
        let found = answer.rows.iter().map(Found::of).collect::<Result<_, _>>()?;
        Ok(Answer { table: draw::html::sheet(&answer.sheet()), answer, found })
    }
}
