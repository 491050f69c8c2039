//! A schedule for other tools.

use answer::export;
use draw::pictures::simulate::Traced;
use question::export::Form;
use question::keys::Keys;
use question::{Context, Diagnostic};
use serde::{Deserialize, Serialize};

use crate::limits;
use crate::request::{scenario, text};

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

/// The file.
#[derive(Serialize)]
pub(crate) struct Answer {
    /// All of it.
    content: String,
}

impl Request {
    /// Answers it.
    pub(crate) fn answer(self, context: &Context<'_>) -> Result<Answer, Diagnostic> {
        let schedule = self.schedule.map(|name| vec![name]);
        let flags = Keys { schedule, ..Keys::default() };
        let scenario = scenario(context, self.text)?.with(context, &flags)?;
        limits::check_schedules(context, &scenario)?;
        let needs_times = self.form == Form::Chrome;
        let case = export::export(context, scenario, needs_times)?;
        let content = match self.form {
            Form::Text => case.schedule.to_string(),
            Form::TorchCsv => export::torch_csv(context, &case)?,
            Form::Chrome => {
                let outcome = export::run(case)?;
                text(Traced::of(&outcome, &outcome.case.name)?.bytes()?)
            }
        };
        Ok(Answer { content })
    }
}
