//! The answer about an encoder as tables.

use pipeline::{Bytes, Nanos};
use question::cell::Cell;
use question::encoder::EncoderPlacement;
use question::sheet::Sheet;
use question::{Diagnostic, format, table};
use serde::Serialize;
use sim::encoder::EncoderOperation;

use super::{EncoderAnswer, EncoderRow, word};
use crate::solution::against_bound_in_time;

/// Rows of each placement that a table for people has where no schedule is named.
const SHOWN: usize = 3;

/// Published gains of an encoder in bubbles over Megatron-LM, the least and the most (scenarios/paper/optimus.csv).
pub const PUBLISHED_GAIN: [f64; 2] = [0.087, 0.214];
/// The gain that `debubble reproduce encoder` has for the same, in per cent.
pub(super) const OUR_GAIN: f64 = 132.6;

/// An operation of the step with the encoder in bubbles.
#[derive(Serialize, Clone, PartialEq, Eq, Debug)]
pub struct OperationRow {
    pub stage: usize,
    /// Passes as in the text form of a schedule; `EF` and `EB` for forward and backward of the encoder.
    pub operation: String,
    /// The first layer of the encoder's pass that runs.
    pub first_layer: Option<u32>,
    /// The number of layers that run.
    pub layers: Option<u32>,
    /// When it begins.
    pub start_ns: u64,
    /// When it ends.
    pub end_ns: u64,
}

/// The operations of the shortest step with the encoder in bubbles, by stage.
#[must_use]
pub fn operations(answer: &EncoderAnswer) -> Vec<OperationRow> {
    let mut rows = Vec::new();
    for (stage, spans) in answer.timeline.iter().flat_map(|all| all.stages.iter().enumerate()) {
        for span in spans {
            let (operation, run) = match span.operation {
                EncoderOperation::Slot(slot) => (slot.to_string(), None),
                EncoderOperation::Encoder(run) => {
                    (format!("{}{}", word(run.kind), run.microbatch), Some(run))
                }
            };
            rows.push(OperationRow {
                stage,
                operation,
                first_layer: run.map(|run| run.first),
                layers: run.map(|run| run.layers),
                start_ns: span.start.0,
                end_ns: span.end.0,
            });
        }
    }
    rows
}

/// The columns of the table as CSV: the keys of the JSON.
const COLUMNS: [&str; 13] = [
    "placement",
    "schedule",
    "chunks",
    "own_stages",
    "step_ns",
    "bubble_rate",
    "gain",
    "above_bound",
    "model_alone_ns",
    "order_bound_ns",
    "peak_bytes",
    "fits",
    "microbatches_by_stage",
];

impl crate::Tabular for EncoderAnswer {
    fn csv(&self) -> Result<Vec<u8>, Diagnostic> {
        crate::csv_of(&self.results, &COLUMNS.map(|key| (key, key)))
    }

    fn sheet(&self) -> Sheet {
        let table = table!(
            row = self.shown(),
            "placement" = placement(row),
            "schedule" = row.schedule,
            "v" = row.chunks,
            "step" = Nanos(row.step_ns),
            "bubble" = format::percent(row.bubble_rate),
            "gain" = row.gain.map_or_else(String::new, format::signed_percent),
            "above bound" = format::percent(row.above_bound),
            "peak memory"[self.results.iter().any(|row| row.peak_bytes.is_some())] =
                row.peak_bytes.map_or_else(String::new, |bytes| format::size(Bytes(bytes))),
            "fits"[self.results.iter().any(|row| row.fits.is_some())] =
                row.fits.as_ref().map_or_else(String::new, Cell::cell),
        );
        let best = self.results.first().filter(|row| row.fits != Some(false)).map(|_| 0);
        let sheet =
            table.with_best(best).headed(&self.headline).and_text("\n").and_text(self.in_words());
        let assumed = self.assumed.iter().map(|one| format!("assumed: {one}\n"));
        sheet.and_text(assumed.collect::<String>())
    }
}

impl EncoderAnswer {
    /// All rows where schedules are named, else the first ones of each placement.
    fn shown(&self) -> Vec<&EncoderRow> {
        let is_shown = |at: usize, row: &EncoderRow| {
            let before = self.results[..at].iter().filter(|one| one.placement == row.placement);
            self.names_schedules || before.count() < SHOWN
        };
        let rows = self.results.iter().enumerate();
        rows.filter(|&(at, row)| is_shown(at, row)).map(|(_, row)| row).collect()
    }

    fn in_words(&self) -> String {
        let time = |nanos: u64| format::time(Nanos(nanos));
        let mut text = format!(
            "language model {} and encoder {} for a microbatch, forward and backward\n\
             lower bound of all placements and orders on {} stages: {}\n",
            time(self.model_ns),
            time(self.encoder_ns),
            self.stages,
            time(self.bound_ns),
        );
        let bubbles = self.results.iter().find(|row| row.microbatches_by_stage.is_some());
        if let Some(row) = bubbles
            && let Some(solution) = &row.solution
        {
            let bound = solution.against_bound();
            text += &match row.model_alone_ns {
                Some(alone) => format!(
                    "in bubbles of {}: {} beyond the language model alone; of steps with its order of \
                     passes: {bound}\n",
                    row.schedule,
                    time(row.step_ns.saturating_sub(alone)),
                ),
                None => format!(
                    "in bubbles of {}: its order of passes was searched, too; of all orders: {bound}\n",
                    row.schedule,
                ),
            };
            text += &format!("microbatches of the encoder by stage: {}\n", counts(row));
        }
        if self.results.iter().any(|row| row.gain.is_some()) {
            let [least, most] = PUBLISHED_GAIN.map(|gain| 100.0 * gain);
            text += &format!(
                "gain: steps in a time over those of the shortest first-stage; the one published measurement, Optimus with \
                 ViT-22B and GPT-175B on 1536 to 3072 H100, is +{least:.0} to +{most:.0} % in bubbles, where these formulas \
                 say +{OUR_GAIN:.0} %: take a gain as the most there is\n"
            );
        }
        text
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

/// The answer in a sentence; `row` has the shortest step, and no placement and order takes less than `bound`.
pub(super) fn headline(row: &EncoderRow, bound: Nanos) -> String {
    let is_first = row.placement == EncoderPlacement::FirstStage.name();
    let gain = match row.gain {
        Some(gain) if !is_first => format!(
            ", {} {} steps per hour than with the encoder on the first stage",
            format::percent(gain.abs()),
            if gain < 0.0 { "fewer" } else { "more" },
        ),
        _ => String::new(),
    };
    let best = format!(
        "{} with the encoder {}: a step of {}{gain}; {}.",
        row.schedule,
        place(row),
        format::time(Nanos(row.step_ns)).trim(),
        against_bound_in_time(Nanos(row.step_ns), Some(bound)),
    );
    match row.fits {
        Some(false) => format!("No step fits the memory limit. The shortest without it: {best}"),
        Some(true) => format!("Shortest step that fits: {best}"),
        None => format!("Shortest step: {best}"),
    }
}

fn placement(row: &EncoderRow) -> String {
    match row.own_stages {
        Some(own) => format!("{} {own}", row.placement),
        None => row.placement.to_owned(),
    }
}

fn counts(row: &EncoderRow) -> String {
    let counts = row.microbatches_by_stage.iter().flatten().map(u64::to_string);
    counts.collect::<Vec<_>>().join(" ")
}
