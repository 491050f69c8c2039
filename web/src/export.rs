//! A question for other tools: its order, its timelines as a picture, its figures as CSV.

use std::path::PathBuf;

use answer::export;
use answer::simulate::{Wants, simulate};
use draw::pictures::simulate::{Traced, timelines};
use question::export::Form;
use question::keys::Keys;
use question::sweep::grid::Grid;
use question::{Context, Diagnostic, object};
use serde::{Deserialize, Serialize};

use crate::limits;
use crate::text::{scenario, text};

/// A question for [`answer::export`].
#[derive(Deserialize)]
pub(crate) struct Request {
    /// The scenario.
    text: String,
    /// The schedule, in place of those of the scenario.
    #[serde(default)]
    schedule: Option<String>,
    /// The form of the file.
    form: Form,
}

impl Request {
    /// Answers it.
    pub(crate) fn answer(self, context: &Context<'_>) -> Result<impl Serialize, Diagnostic> {
        let schedule = self.schedule.map(|name| vec![name]);
        let flags = Keys { schedule, ..Keys::default() };
        let scenario = scenario(context, self.text)?.with(context, &flags)?;
        limits::check_schedules(context, &scenario)?;
        let needs_times = self.form == Form::Chrome;
        let case = export::export(context, scenario, needs_times)?;
        let content = match self.form {
            Form::Text | Form::TorchCsv | Form::Primus => export::order(context, &case, self.form)?,
            Form::Chrome => {
                let outcome = export::run(case)?;
                text(Traced::of(&outcome, &outcome.case.name)?.bytes()?)
            }
        };
        Ok(object!(content = content))
    }
}

/// The most questions of a sweep.
const MOST_QUESTIONS: u64 = 100_000;

/// A scenario whose timelines are wanted as one picture.
#[derive(Deserialize)]
pub(crate) struct Picture {
    text: String,
}

impl Picture {
    /// Draws it.
    pub(crate) fn answer(self, context: &Context<'_>) -> Result<impl Serialize, Diagnostic> {
        let scenario = scenario(context, self.text)?.with(context, &Keys::default())?;
        limits::check_schedules(context, &scenario)?;
        let wants = Wants { runs: true, ..Wants::default() };
        let answers = simulate(context, &scenario, wants)?;
        Ok(object!(content = timelines(&answers.outcomes)?))
    }
}

/// A scenario, with axes or without, whose figures are wanted as CSV.
#[derive(Deserialize)]
pub(crate) struct Sweep {
    /// The name of its file.
    file: PathBuf,
}

impl Sweep {
    /// Answers it.
    pub(crate) fn answer(self, context: &Context<'_>) -> Result<impl Serialize, Diagnostic> {
        let grid = Grid::read(context, &self.file, &Keys::default())?;
        let questions = grid.questions;
        if questions > MOST_QUESTIONS {
            let message = format!("{questions} questions: this page answers {MOST_QUESTIONS}");
            return Err(Diagnostic::new(message).with_help("ask `debubble sweep`"));
        }
        let answer::sweep::SweepAnswer { csv, rows, interrupted } =
            answer::sweep::sweep(context, &grid)?;
        Ok(object!(
            csv = text(csv),
            (rows, questions, interrupted) = (rows, questions, interrupted),
        ))
    }
}
