//! An encoder in front of a language model, by placement and schedule.

use answer::encoder::operations;
use draw::pictures;
use question::encoder::EncoderKeys;
use question::{Context, Diagnostic, object};
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

impl Request {
    /// Answers it.
    pub(crate) fn answer(self, context: &Context<'_>) -> Result<impl Serialize, Diagnostic> {
        let keys: EncoderKeys = table(&self.text)?;
        limits::check_encoder(context, &keys)?;
        let answer = answer::encoder::encoder(context, &keys)?;
        let in_bubbles = answer.results.iter().find(|row| row.microbatches_by_stage.is_some());
        let drawn = in_bubbles.filter(|_| answer.timeline.is_some()).map(|row| row.schedule);
        let svg = drawn.map(|_| pictures::encoder::timeline(&answer, None)).transpose()?;
        let operations = drawn.map(|_| answer::csv(operations(&answer))).transpose()?;
        Ok(object!(
            flat(forms) = Forms::of(answer)?,
            // The shortest step with the encoder in bubbles, if there is one: as a picture, when each of its operations
            // runs as CSV, and its schedule.
            some(svg) = svg,
            some(operations) = operations.map(text),
            some(drawn) = drawn,
        ))
    }
}
