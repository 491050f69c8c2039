//! Vocabulary Parallelism: tables 5 and 6, with flash attention.

use pipeline::Family;
use plan::{Attention, Machine, Recompute, Setup, Split, number};
use serde::Deserialize;

use super::super::Row;
use super::super::quantities::TIME;
use super::super::rows::{Run, gpt, recipe, set_up};

/// The peak that its MFU are shares of, in FLOP/s, as all runs of the authors' one host imply.
const PEAK: f64 = 320e12;

#[derive(Deserialize)]
#[serde(rename_all = "kebab-case")]
pub(in super::super) struct Vocabulary {
    schedule: String,
    gpus: u64,
    layers: u64,
    hidden: u64,
    microbatches: u64,
    seq: u64,
    method: String,
    vocab: String,
    mfu_percent: f64,
}

impl Vocabulary {
    /// The schedule; `None` for REDIS, which splits layers by a count of FLOPs of its own that no
    /// set-up can name.
    fn ran(&self) -> Result<Option<Family>, String> {
        match (self.schedule.as_str(), self.method.as_str()) {
            ("1F1B", "BASELINE") => Ok(Some(Family::OneFOneB)),
            ("1F1B", "VOCAB-1") => Ok(Some(Family::Vocab1)),
            ("1F1B", "VOCAB-2") => Ok(Some(Family::Vocab2)),
            ("1F1B", "INTERLACED") => Ok(Some(Family::Interlaced1F1B)),
            ("1F1B", "REDIS") => Ok(None),
            ("V-Half", "BASELINE") => Ok(Some(Family::VHalf)),
            ("V-Half", "VOCAB-1") => Ok(Some(Family::VHalfVocab1)),
            (schedule, method) => Err(format!("{method} of {schedule} is not in the tables")),
        }
    }

    /// Heads have 128 numbers.
    fn heads(&self) -> u64 {
        self.hidden / 128
    }

    /// A k of its vocabularies is a thousand.
    fn entries(&self) -> Result<u64, String> {
        let thousands = self.vocab.strip_suffix('k').and_then(|text| text.parse::<u64>().ok());
        let entries = thousands.and_then(|thousands| thousands.checked_mul(1000));
        entries.ok_or_else(|| format!("the vocabulary {} is not a number of thousands", self.vocab))
    }

    /// Model FLOPs of an iteration as the paper counts them, section 6.1: b s h (72 h + 12 s) a
    /// layer, 6 b s h V at the end.
    fn flops(&self, vocabulary: u64) -> f64 {
        let [h, s, v] = [self.hidden, self.seq, vocabulary].map(number);
        let of_token = number(self.layers) * h * (72.0 * h + 12.0 * s) + 6.0 * h * v;
        of_token * s * number(self.microbatches)
    }
}

pub(in super::super) fn vocabulary(
    row: &Vocabulary,
    machine: &Machine,
) -> Result<Vec<Row>, String> {
    let Some(family) = row.ran()? else { return Ok(Vec::new()) };
    let vocabulary = row.entries()?;
    let model = gpt(Attention::Flash, row.hidden, row.heads(), row.layers, vocabulary, row.seq)?;
    let chunks = if row.schedule == "V-Half" { 2 } else { 1 };
    let in_shards = family.vocabulary() != pipeline::Vocabulary::Whole;
    let setup = Setup {
        family,
        split: Split::Even,
        vocabulary_parallel: in_shards,
        options: plan::Options::default(),
        ..set_up([1, 1, row.gpus], 1, chunks, Recompute::None)
    };
    let recipe = recipe(row.microbatches);
    let predicted = Run { model: &model, setup, recipe, machine }.predict()?;
    let measured = row.flops(vocabulary) / (row.mfu_percent / 100.0 * PEAK * number(row.gpus));
    let Vocabulary { schedule, gpus, seq, method, vocab, .. } = row;
    let run = format!("{schedule} on {gpus} s={seq} V={vocab} {method}");
    let time = predicted.row(&run, TIME, [predicted.seconds(), measured]);
    // The times of its stages are of these runs.
    let fitted = family == Family::OneFOneB && *seq == 2048;
    Ok(vec![Row { fitted, ..time }])
}
