//! An encoder in front of a language model, by placement and schedule.

use answer::encoder::{EncoderAnswer, operations};
use draw::pictures;
use question::encoder::EncoderKeys;
use question::{Context, Diagnostic};
use serde::{Deserialize, Serialize};

use crate::limits;
use crate::sheet::Forms;
use crate::text::{table, text};

/// A question for [`answer::encoder::encoder`].
#[derive(Deserialize)]
pub(crate) struct Request {
    /// Its keys, as a file.
    text: String,
}

/// Steps by placement and schedule.
#[derive(Serialize)]
pub(crate) struct Answer {
    #[serde(flatten)]
    forms: Forms<EncoderAnswer>,
    /// The shortest step with the encoder in bubbles; nothing where there is none.
    #[serde(skip_serializing_if = "Option::is_none")]
    svg: Option<String>,
    /// When each of its operations runs, as CSV.
    #[serde(skip_serializing_if = "Option::is_none")]
    operations: Option<String>,
    /// The schedule of that step.
    #[serde(skip_serializing_if = "Option::is_none")]
    drawn: Option<&'static str>,
}

impl Request {
    /// Answers it.
    pub(crate) fn answer(self, context: &Context<'_>) -> Result<Answer, Diagnostic> {
        let keys: EncoderKeys = table(&self.text)?;
        limits::check_encoder(context, &keys)?;
        let answer = answer::encoder::encoder(context, &keys)?;
        let in_bubbles = answer.results.iter().find(|row| row.microbatches_by_stage.is_some());
        let drawn = in_bubbles.filter(|_| answer.timeline.is_some()).map(|row| row.schedule);
        let svg = drawn.map(|_| pictures::encoder::timeline(&answer, None)).transpose()?;
        let operations = drawn.map(|_| answer::csv(operations(&answer))).transpose()?;
        Ok(Answer { svg, operations: operations.map(text), drawn, forms: Forms::of(answer)? })
    }
}
