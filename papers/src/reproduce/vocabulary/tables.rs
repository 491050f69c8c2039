//! Tables 5 and 6: how far FLOPs and bytes explain the MFU and the memory of other methods.
//!
//! MFU are compared as ratios, so that it does not matter that the published ones are of 320 TFLOP/s,
//! while an A100 has 312.

use std::path::Path;

use pipeline::{
    Collectives, Costs, Family, Nanos, PassTimes, Problem, Shape, ShardTimes, Vocabulary,
};
use question::Diagnostic;
use serde::Deserialize;
use sim::Replay;

use super::super::cell::Cell;
use super::super::sources::{Sources, error_in};
use super::profile::{family, is_whole, published_peak};
use super::{DIFFERENCE, GAIN, MEMORY};

/// The file of its measured runs.
pub(in super::super) const FIGURES: &str = "vocabulary-tables.csv";

/// Bytes per parameter of weights, gradients and optimizer state (Megatron's mixed precision).
const BYTES_PER_PARAMETER: f64 = 18.0;
/// Bytes held per layer, token and hidden element from F to B, where attention keeps no scores.
const BYTES_HELD: f64 = 34.0;
/// The paper's GB.
const GB: f64 = 1_073_741_824.0;

#[derive(Deserialize)]
#[serde(rename_all = "kebab-case", deny_unknown_fields)]
struct Run {
    schedule: String,
    gpus: u16,
    layers: u32,
    hidden: u32,
    microbatches: u32,
    seq: u32,
    method: String,
    vocab: String,
    mfu_percent: f64,
    memory_gb: f64,
}

/// Memory, differences of memory and gains of every method in shards.
pub(super) fn cells(sources: &Sources<'_>) -> Result<Vec<Cell>, Diagnostic> {
    let (path, runs) = sources.records::<Run>(FIGURES)?;
    runs.iter().try_for_each(|run| run.check(&path))?;
    let in_shards = || runs.iter().filter(|run| !is_whole(&run.method));
    let mut cells: Vec<Cell> = in_shards().filter_map(memory).collect();
    for run in in_shards() {
        if let Some(other) = beside(&runs, run, "VOCAB-2").filter(|_| run.method != "VOCAB-2") {
            cells.extend(difference(run, other));
        }
        if let Some(baseline) = beside(&runs, run, "BASELINE") {
            let fault =
                |fault: pipeline::Fault| error_in(&path, None, &format!("{}: {fault}", run.row()));
            cells.push(gain(run, baseline).map_err(fault)?);
        }
    }
    Ok(cells)
}

/// The run of `method` in the setting of `run`.
fn beside<'a>(runs: &'a [Run], run: &Run, method: &str) -> Option<&'a Run> {
    let setting = |run: &Run| (run.schedule.clone(), run.gpus, run.seq, run.vocab.clone());
    runs.iter().find(|other| other.method == method && setting(other) == setting(run))
}

/// The bytes that one device holds under 1F1B: parameters of its layers and its part of both vocabulary layers, and
/// the activations of the peak.
fn memory(run: &Run) -> Option<Cell> {
    let (p, h) = (f64::from(run.gpus), f64::from(run.hidden));
    let parameters = 12.0 * h * h * f64::from(run.layers) / p + 2.0 * run.vocabulary()? * h / p;
    let held = run.microbatch_bytes() * run.peak()?;
    let ours = (parameters * BYTES_PER_PARAMETER + held) / GB;
    Some(MEMORY.cell(run.row(), run.memory_gb, ours, 2))
}

/// The memory by which `run` exceeds `other`, which differs in the peak alone.
fn difference(run: &Run, other: &Run) -> Option<Cell> {
    let published = run.memory_gb - other.memory_gb;
    let ours = run.microbatch_bytes() * (run.peak()? - other.peak()?) / GB;
    Some(DIFFERENCE.cell(run.row(), published, ours, 2))
}

/// MFU over that of the baseline: both do the same model FLOPs, so it is the time of the baseline
/// over that of `run`.
fn gain(run: &Run, baseline: &Run) -> Result<Cell, pipeline::Fault> {
    let published = run.mfu_percent / baseline.mfu_percent;
    let ours = baseline.time()? / run.time()?;
    Ok(GAIN.cell(run.row(), published, ours, 3))
}

impl Run {
    fn row(&self) -> String {
        let Self { schedule, gpus, seq, method, vocab, .. } = self;
        format!("{method}, {schedule} on {gpus}, vocabulary {vocab}, sequence {seq}")
    }

    fn check(&self, path: &Path) -> Result<(), Diagnostic> {
        let wrong =
            |message: &str| Err(error_in(path, None, &format!("{}: {message}", self.row())));
        let positive = |figure: f64| figure.is_finite() && figure > 0.0;
        if !positive(self.mfu_percent) || !positive(self.memory_gb) {
            return wrong("MFU and memory must be above zero");
        }
        if self.vocabulary().is_none() {
            return wrong("the vocabulary is no number of thousands, as in 32k");
        }
        let chunks = self.chunks() * u32::from(self.gpus);
        if chunks == 0 || !self.layers.is_multiple_of(chunks) {
            return wrong("the layers do not fill the chunks evenly");
        }
        match self.family() {
            Some(_) => Ok(()),
            None => wrong("there is no such method"),
        }
    }

    fn is_v_half(&self) -> bool {
        self.schedule == "V-Half"
    }

    fn family(&self) -> Option<Family> {
        match (self.is_v_half(), self.method.as_str()) {
            (true, "BASELINE") => Some(Family::VHalf),
            (true, "VOCAB-1") => Some(Family::VHalfVocab1),
            (true, _) => None,
            (false, method) => family(method),
        }
    }

    fn chunks(&self) -> u32 {
        if self.is_v_half() { 2 } else { 1 }
    }

    /// V, a multiple of 2p for all p here.
    fn vocabulary(&self) -> Option<f64> {
        let thousands = self.vocab.strip_suffix('k')?.parse::<u16>().ok()?;
        Some(f64::from(thousands) * 1024.0)
    }

    /// Microbatches at the peak, of 1F1B.
    fn peak(&self) -> Option<f64> {
        let family = self.family().filter(|_| !self.is_v_half())?;
        u32::try_from(published_peak(family, self.gpus.into())).ok().map(f64::from)
    }

    /// Bytes one microbatch holds on a device.
    fn microbatch_bytes(&self) -> f64 {
        let layers = f64::from(self.layers) / f64::from(self.gpus);
        BYTES_HELD * f64::from(self.seq) * f64::from(self.hidden) * layers
    }

    /// The iteration, where a nanosecond is as many FLOPs of a token as the hidden size.
    fn time(&self) -> Result<f64, pipeline::Fault> {
        let (h, s) = (u64::from(self.hidden), u64::from(self.seq));
        let stages = u64::from(self.gpus);
        let shape = Shape::new(stages, u64::from(self.chunks()), u64::from(self.microbatches))?;
        let layers = u64::from(self.layers) / u64::from(shape.chunks());
        let family = self.family().unwrap_or(Family::OneFOneB);
        #[allow(clippy::cast_possible_truncation, clippy::cast_sign_loss)]
        let output = 2 * self.vocabulary().unwrap_or(0.0) as u64;
        let layer = PassTimes {
            forward: Nanos(layers * (24 * h + 4 * s)),
            backward_input: Nanos(layers * (24 * h + 8 * s)),
            backward_weight: Nanos(layers * 24 * h),
        };
        let mut chunks = vec![layer; usize::from(shape.chunks())];
        let whole = family.vocabulary() == Vocabulary::Whole;
        if let Some(last) = chunks.last_mut().filter(|_| whole) {
            for time in [&mut last.forward, &mut last.backward_input, &mut last.backward_weight] {
                *time += Nanos(output);
            }
        }
        let mut costs = Costs::new(chunks, Nanos(0));
        if !whole {
            let third = Nanos(output / stages);
            let shard = match family.vocabulary() {
                Vocabulary::OneBarrier => ShardTimes { before: third * 2, after: third },
                _ => ShardTimes { before: third, after: third * 2 },
            };
            costs = costs.with_shards(vec![shard; shape.stages()], Collectives::default());
        }
        let problem = Problem::new(shape, costs)?;
        let schedule = family.schedule(&problem)?;
        let makespan = Replay::new().metrics(&schedule, problem.costs())?.makespan();
        #[allow(clippy::cast_precision_loss)]
        Ok(makespan.0 as f64)
    }
}
