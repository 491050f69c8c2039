//! A step with an encoder in the bubbles of a language model, in time.

use answer::encoder::EncoderAnswer;
use pipeline::{EncoderKind, Kind, Nanos, Pass, Slot, Span, Timeline};
use question::{Diagnostic, format};
use sim::encoder::{EncoderOperation, EncoderTimeline};

use crate::Width;
use crate::gantt::Style;

/// The shortest step with the encoder in bubbles, its layers darker, in a picture of that `width`.
///
/// # Errors
/// If no such step was asked for, or it cannot be drawn.
pub fn timeline(answer: &EncoderAnswer, width: Option<Width>) -> Result<String, Diagnostic> {
    let row = answer.results.iter().find(|row| row.microbatches_by_stage.is_some());
    let (Some(timeline), Some(row)) = (&answer.timeline, row) else {
        let message = "there is no step with the encoder in bubbles to draw";
        return Err(Diagnostic::new(message).with_help("ask for --placement bubbles"));
    };
    let title = format!("{}, encoder in bubbles", row.schedule);
    let figures = [format!("step {}", format::time(Nanos(row.step_ns)))];
    let style = Style {
        title: Some("Encoder in front of a language model"),
        figures: &figures,
        bounds: &[],
        width,
        darker: Some("encoder"),
    };
    super::stages(&[(title, as_passes(timeline))], &style)
}

/// Passes of the model as those of one chunk on each stage, and the encoder as a later one.
fn as_passes(timeline: &EncoderTimeline) -> Timeline {
    let stages = timeline.stages.len();
    let on = |stage: usize| {
        let chunk = |lap: usize| u16::try_from(lap * stages + stage).unwrap_or(u16::MAX);
        let spans = timeline.stages[stage].iter();
        let drawn = spans.map(move |span| {
            let model = |pass: Pass| Pass { chunk: chunk(0), ..pass };
            let slot = match span.operation {
                EncoderOperation::Slot(Slot::One(pass)) => Slot::One(model(pass)),
                EncoderOperation::Slot(Slot::Pair(one, other)) => {
                    Slot::Pair(model(one), model(other))
                }
                EncoderOperation::Encoder(run) => {
                    let kind = match run.kind {
                        EncoderKind::Forward => Kind::F,
                        EncoderKind::Backward => Kind::BW,
                    };
                    Slot::One(Pass { kind, chunk: chunk(1), microbatch: run.microbatch })
                }
            };
            Span { slot, start: span.start, end: span.end }
        });
        drawn.collect()
    };
    Timeline { stages: (0..stages).map(on).collect() }
}
