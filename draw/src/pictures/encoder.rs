//! A step with an encoder in the bubbles of a language model, in time.

use answer::encoder::EncoderAnswer;
use pipeline::{EncoderKind, Kind, Nanos, Pass, Slot, Span, Timeline};
use question::{Diagnostic, format};
use sim::encoder::{EncoderOperation, EncoderTimeline};

use crate::Width;
use crate::gantt::Style;

/// The shortest step with the encoder in bubbles, in a picture of that `width`.
pub fn timeline(answer: &EncoderAnswer, width: Option<Width>) -> Result<String, Diagnostic> {
    let row = answer.results.iter().find(|row| row.microbatches_by_stage.is_some());
    let (Some(timeline), Some(row)) = (&answer.timeline, row) else {
        let message = "there is no step with the encoder in bubbles to draw";
        return Err(Diagnostic::new(message).with_help("ask for --placement bubbles"));
    };
    let chart = format!("{}, encoder in bubbles", row.schedule);
    let bubble = format::percent(row.bubble_rate);
    let figures = [format!("bubble {bubble}, step {}", format::time(Nanos(row.step_ns)))];
    let title = format!(
        "Encoder in front of a language model, {} stages, {} microbatches",
        answer.stages, answer.microbatches
    );
    let style = Style {
        title: Some(&title),
        figures: &figures,
        bounds: &[],
        width,
        other_passes: Some(["encoder forward", "encoder backward"]),
    };
    super::stages(&[(chart, as_passes(timeline))], &style)
}

/// Passes of the model as those of one chunk on each stage, and of the encoder as S and T, which have hues of their own.
fn as_passes(timeline: &EncoderTimeline) -> Timeline {
    let stages = timeline.stages.len();
    let on = |stage: usize| {
        let chunk = u16::try_from(stage).unwrap_or(u16::MAX);
        let spans = timeline.stages[stage].iter();
        let drawn = spans.map(move |span| {
            let model = |pass: Pass| Pass { chunk, ..pass };
            let slot = match span.operation {
                EncoderOperation::Slot(Slot::One(pass)) => Slot::One(model(pass)),
                EncoderOperation::Slot(Slot::Pair(one, other)) => {
                    Slot::Pair(model(one), model(other))
                }
                EncoderOperation::Encoder(run) => {
                    let kind = match run.kind {
                        EncoderKind::Forward => Kind::S,
                        EncoderKind::Backward => Kind::T,
                    };
                    Slot::One(Pass { kind, chunk, microbatch: run.microbatch })
                }
            };
            Span { slot, start: span.start, end: span.end }
        });
        drawn.collect()
    };
    Timeline { stages: (0..stages).map(on).collect() }
}
