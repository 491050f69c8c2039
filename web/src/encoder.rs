//! An encoder in front of a language model, by placement and schedule.

use answer::encoder::{EncoderAnswer, EncoderRow, operations};
use draw::pictures;
use pipeline::Nanos;
use question::encoder::{EncoderKeys, EncoderPlacement};
use question::{Context, Diagnostic, format};
use serde::{Deserialize, Serialize};

use crate::limits;
use crate::sheet::{Part, parts};
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
    /// Output of the command line.
    answer: EncoderAnswer,
    /// What it comes to, a sentence each.
    lead: Vec<String>,
    /// The same as tables.
    sheet: Vec<Part>,
    /// The rows as CSV.
    csv: String,
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
        Ok(Answer {
            lead: answer.results.first().map(lead).into_iter().collect(),
            sheet: parts(answer.sheet()),
            csv: text(answer.csv()?),
            svg,
            operations: operations.map(text),
            drawn,
            answer,
        })
    }
}

/// The place of the encoder in `row`, in words.
fn place(row: &EncoderRow) -> String {
    let is = |placement: EncoderPlacement| row.placement == placement.name();
    match row.own_stages {
        Some(1) => "on a stage of its own".to_owned(),
        Some(own) => format!("on {own} stages of its own"),
        None if is(EncoderPlacement::Bubbles) => "in the bubbles of all stages".to_owned(),
        None if is(EncoderPlacement::Spread) => "spread over all chunks".to_owned(),
        None => "on the first stage".to_owned(),
    }
}

/// The sentences about `row`, the shortest step.
fn lead(row: &EncoderRow) -> String {
    let time = format::time(Nanos(row.step_ns));
    let above = format::percent(row.above_bound);
    let is_first = row.placement == EncoderPlacement::FirstStage.name();
    let far = match row.gain {
        Some(gain) if !is_first => format!(
            "That is {} {} steps in a time than with the encoder on the first stage, and the step is {above} above the \
             bound of all placements and orders.",
            format::percent(gain.abs()),
            if gain < 0.0 { "fewer" } else { "more" },
        ),
        _ => format!("That is {above} above the bound of all placements and orders."),
    };
    let fits = match row.fits {
        Some(false) => " No step that was found fits the memory limit.",
        _ => "",
    };
    format!(
        "The fastest is {} with the encoder {}: a step takes {}. {far}{fits}",
        row.schedule,
        place(row),
        time.trim(),
    )
}
