//! Dead workers of data-parallel pipelines, whose passes peers run.

use draw::pictures;
use question::failures::FailureKeys;
use question::keys::Keys;
use question::{Context, Diagnostic, object};
use serde::{Deserialize, Serialize};

use crate::limits;
use crate::sheet::Forms;
use crate::text::{scenario, table};

/// A question for [`answer::failures::failures`].
#[derive(Deserialize)]
pub(crate) struct Request {
    /// The keys of dead workers, as a file.
    text: String,
    /// The scenario whose schedules are asked about.
    scenario: String,
}

impl Request {
    /// Answers it.
    pub(crate) fn answer(self, context: &Context<'_>) -> Result<impl Serialize, Diagnostic> {
        let keys: FailureKeys = table(&self.text)?;
        let scenario = scenario(context, self.scenario)?.with(context, &Keys::default())?;
        limits::check_failures(context, &scenario, &keys)?;
        let answer = answer::failures::failures(context, &scenario, &keys)?;
        let svg = pictures::failures::steps(&answer, None).ok();
        // The steps as bars; nothing where none fits.
        Ok(object!(flat(forms) = Forms::of(answer)?, some(svg) = svg))
    }
}
