//! Schedules side by side, with their timelines.

use answer::outcome;
use answer::simulate::{Answers, Wants};
use pipeline::{Span, Timeline};
use question::keys::Keys;
use question::{Context, Diagnostic};
use serde::{Deserialize, Serialize};

use crate::request::scenario;

/// A question for [`answer::simulate`].
#[derive(Deserialize)]
pub(crate) struct Request {
    /// The scenario.
    text: String,
    /// The schedules, in place of those of the scenario.
    #[serde(default)]
    schedules: Option<Vec<String>>,
    /// Whether to say why stages wait.
    #[serde(default)]
    explain: bool,
    /// Whether to say which schedules nothing beats in bubble and memory.
    #[serde(default)]
    front: bool,
    /// Whether to give the timelines.
    #[serde(default)]
    timelines: bool,
}

/// The answers, and their timelines.
#[derive(Serialize)]
pub(crate) struct Answer {
    /// What the command line prints.
    #[serde(flatten)]
    answers: Answers,
    /// The timelines of all results, if they were asked for.
    timelines: Vec<Columns>,
}

/// A timeline, slot by slot.
#[derive(Serialize, Default)]
struct Columns {
    title: String,
    stage: Vec<usize>,
    slot: Vec<String>,
    start: Vec<u64>,
    end: Vec<u64>,
}

impl Columns {
    fn of(title: String, timeline: &Timeline) -> Self {
        let mut all = Self { title, ..Self::default() };
        for (stage, spans) in timeline.stages.iter().enumerate() {
            spans.iter().for_each(|span| all.add(stage, span));
        }
        all
    }

    fn add(&mut self, stage: usize, span: &Span) {
        self.stage.push(stage);
        self.slot.push(span.slot.to_string());
        self.start.push(span.start.0);
        self.end.push(span.end.0);
    }
}

impl Request {
    /// Answers it.
    pub(crate) fn answer(self, context: &Context<'_>) -> Result<Answer, Diagnostic> {
        let scenario = scenario(context, self.text)?;
        let flags = Keys { schedule: self.schedules, ..Keys::default() };
        let scenario = scenario.with(context, &flags)?;
        let wants = Wants { explanation: self.explain, front: self.front, ..Wants::default() };
        let answers = answer::simulate::simulate(context, &scenario, wants)?;
        let drawn = answers.outcomes.iter().filter(|_| self.timelines);
        let columns = |one| Ok(Columns::of(outcome::title(one), &*outcome::timeline(one)?));
        let timelines = drawn.map(columns).collect::<Result<_, Diagnostic>>()?;
        Ok(Answer { answers, timelines })
    }
}
