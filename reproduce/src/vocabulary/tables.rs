//! Tables 5 and 6: the memory of every run, and its gain in MFU over the baseline.
//!
//! MFU are compared as ratios, so that it does not matter that the published ones are of 320 TFLOP/s,
//! while an A100 has 312. The memory of REDIS is left out.

use std::path::Path;

use pipeline::{
    Collectives, Costs, Family, Nanos, PassTimes, Problem, Shape, ShardTimes, Vocabulary,
};
use question::Diagnostic;
use serde::Deserialize;
use sim::Replay;

use super::super::cell::{Cell, half_digit, ratio_rounding};
use super::super::sources::{Sources, error_in};
use super::columns::{Column, DIFFERENCE, Fit, GAIN, GAIN_OVER_REDIS, MEMORY};
use super::machine::{Machine, Sizes};
use super::memory::{BYTES_HELD, Device, GB, WorkingMemory};
use super::profile::{entries, family, published_peak};

/// The file of its measured runs.
pub(in super::super) const FIGURES: &str = "vocabulary-tables.csv";
/// The file of the models that the paper ran.
pub(in super::super) const SETTINGS: &str = "vocabulary-settings.csv";

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

/// Working memory of a pass, and the memory, differences of memory and gains of the methods.
pub(super) fn cells(
    sources: &Sources<'_>,
    machine: &Machine,
) -> Result<(WorkingMemory, Vec<Cell>), Diagnostic> {
    let (path, runs) = sources.records::<Run>(FIGURES)?;
    runs.iter().try_for_each(|run| run.check(&path))?;
    let fitted = runs.iter().filter(|run| run.fits_memory());
    let held = WorkingMemory::fitted(fitted.map(|run| (run.first(), run.memory_gb * GB)));
    let held = held.ok_or_else(|| {
        let message =
            "too few runs of sequence 2048 on 8 and 16 GPUs to fit what a pass works in to";
        error_in(&path, None, message)
    })?;
    let known = || runs.iter().filter(|run| run.method != "REDIS");
    let mut cells: Vec<Cell> = known().map(|run| memory(run, &held)).collect();
    for run in known().filter(|run| run.in_shards()) {
        let other = beside(&runs, run, "VOCAB-2");
        if let Some(other) = other.filter(|_| run.method != "VOCAB-2" && !run.is_v_half()) {
            cells.push(difference(run, other));
        }
        let fault =
            |fault: pipeline::Fault| error_in(&path, None, &format!("{}: {fault}", run.row()));
        for (other, column) in [("BASELINE", &GAIN), ("REDIS", &GAIN_OVER_REDIS)] {
            if let Some(other) = beside(&runs, run, other) {
                cells.push(gain(run, other, (machine, column)).map_err(fault)?);
            }
        }
    }
    Ok((held, cells))
}

/// The run of `method` in the setting of `run`.
fn beside<'a>(runs: &'a [Run], run: &Run, method: &str) -> Option<&'a Run> {
    let setting = |run: &Run| (run.schedule.clone(), run.gpus, run.seq, run.vocab.clone());
    runs.iter().find(|other| other.method == method && setting(other) == setting(run))
}

/// The bytes of the device that holds most.
fn memory(run: &Run, held: &WorkingMemory) -> Cell {
    let ours = held.bytes(&run.first()).max(held.bytes(&run.last())) / GB;
    MEMORY.figure(run.row(), Fit::of(run.fits_memory()), run.memory_gb, 2).beside(ours)
}

/// The memory by which `run` exceeds `other`, which differs in the peak alone.
fn difference(run: &Run, other: &Run) -> Cell {
    let published = run.memory_gb - other.memory_gb;
    let microbatches = run.peak() - other.peak();
    let ours = BYTES_HELD * run.activation() * run.layers_of_device() * microbatches / GB;
    DIFFERENCE.figure(run.row(), Fit::HeldOut, published, 2).beside(ours)
}

/// MFU over that of the baseline: both do the same model FLOPs, so it is the time of the baseline
/// over that of `run`. The runs of the profile have the times that the machine is fitted to.
fn gain(
    run: &Run,
    baseline: &Run,
    (machine, column): (&Machine, &Column),
) -> Result<Cell, pipeline::Fault> {
    let both = [run.mfu_percent, baseline.mfu_percent];
    let ours = baseline.time(machine)? / run.time(machine)?;
    let fit = Fit::of(run.schedule == "1F1B" && run.gpus == 8 && run.seq == 2048);
    let rounding = ratio_rounding(both, [half_digit(2); 2]);
    let figure = column.figure(run.row(), fit, both[0] / both[1], 3);
    Ok(figure.rounded(rounding).beside(ours))
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
        if entries(&self.vocab).is_none() {
            return wrong("the vocabulary is not a number of thousands, as in 32k");
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

    fn in_shards(&self) -> bool {
        self.family().is_some_and(|family| family.vocabulary() != Vocabulary::Whole)
    }

    /// Whether the working memory of a pass is fitted to its memory.
    fn fits_memory(&self) -> bool {
        let of = |methods: &[&str]| methods.contains(&self.method.as_str());
        match (self.is_v_half(), self.gpus, self.seq) {
            (false, 8, 2048) => of(&["BASELINE", "VOCAB-1", "VOCAB-2"]),
            (true, 16, 2048) => true,
            _ => false,
        }
    }

    /// V, 0 if it cannot be read, which is checked.
    fn vocabulary(&self) -> f64 {
        entries(&self.vocab).unwrap_or(0.0)
    }

    fn peak(&self) -> f64 {
        let peak = self.family().map_or(0, |family| published_peak(family, self.gpus.into()));
        u32::try_from(peak).map_or(f64::INFINITY, f64::from)
    }

    fn layers_of_device(&self) -> f64 {
        f64::from(self.layers) / f64::from(self.gpus)
    }

    /// The numbers of an activation of a microbatch.
    fn activation(&self) -> f64 {
        f64::from(self.seq) * f64::from(self.hidden)
    }

    /// The first device: the input layer or its shard, with the output layer's; in a V the whole of both.
    fn first(&self) -> Device {
        let (p, h, v) = (f64::from(self.gpus), f64::from(self.hidden), self.vocabulary());
        let (of_input, of_output) = match (self.in_shards(), self.is_v_half()) {
            (true, _) => (1.0 / p, 1.0 / p),
            (false, true) => (1.0, 1.0),
            (false, false) => (1.0, 0.0),
        };
        Device {
            parameters: 12.0 * h * h * self.layers_of_device() + (of_input + of_output) * v * h,
            layers: self.layers_of_device() * self.peak(),
            activation: self.activation(),
            logits: of_output * v * f64::from(self.seq),
            in_shards: self.in_shards(),
            splits_backward: self.is_v_half(),
        }
    }

    /// The last device: in 1F1B the whole output layer, and one microbatch.
    fn last(&self) -> Device {
        let first = self.first();
        if self.in_shards() || self.is_v_half() {
            return first;
        }
        let logits = self.vocabulary() * f64::from(self.seq);
        Device { layers: self.layers_of_device(), logits, ..first }
    }

    fn sizes(&self) -> Sizes {
        Sizes {
            hidden: f64::from(self.hidden),
            seq: f64::from(self.seq),
            vocabulary: self.vocabulary(),
            stages: f64::from(self.gpus),
        }
    }

    /// The layers of each chunk: as many in all, but for REDIS, which makes the most FLOPs of a stage least. FLOPs are
    /// those of Narayanan et al. 2021, with every layer computed again and none for the input layer; the profile
    /// shows the layers of each stage (`tests`).
    fn dealt(&self, chunks: u16) -> Vec<f64> {
        if self.method != "REDIS" {
            return vec![f64::from(self.layers) / f64::from(chunks); usize::from(chunks)];
        }
        let sizes = self.sizes();
        let layer = 4.0 * sizes.layer().iter().sum::<f64>();
        let mut flops = vec![0.0; usize::from(chunks)];
        if let Some(last) = flops.last_mut() {
            *last += sizes.output(sizes.vocabulary);
        }
        let mut dealt = vec![0.0; flops.len()];
        for _ in 0..self.layers {
            let least = |(_, one): &(usize, &f64), (_, other): &(usize, &f64)| one.total_cmp(other);
            // Of stages that are alike the last one.
            let fewest = flops.iter().enumerate().rev().min_by(least).map_or(0, |(at, _)| at);
            flops[fewest] += layer;
            dealt[fewest] += 1.0;
        }
        dealt
    }

    /// The iteration in nanoseconds.
    fn time(&self, machine: &Machine) -> Result<f64, pipeline::Fault> {
        let stages = u64::from(self.gpus);
        let shape = Shape::new(stages, u64::from(self.chunks()), u64::from(self.microbatches))?;
        let family = self.family().unwrap_or(Family::OneFOneB);
        let (sizes, whole) = (self.sizes(), family.vocabulary() == Vocabulary::Whole);
        let beside = match family {
            _ if whole => 1.0,
            Family::Interlaced1F1B => machine.interlaced,
            _ => machine.beside,
        };
        let times = |layers: f64| {
            let [forward, backward_input, backward_weight] =
                machine.layer(sizes).map(|time| nanos(time * layers * beside));
            PassTimes::new(forward, backward_input, backward_weight)
        };
        let mut chunks: Vec<PassTimes> =
            self.dealt(shape.chunks()).into_iter().map(times).collect();
        if whole {
            chunks[0].backward_weight += nanos(machine.input(sizes));
            let third = nanos(machine.output(sizes) / 3.0);
            if let Some(last) = chunks.last_mut() {
                last.forward += third;
                last.backward_input += third;
                last.backward_weight += third;
            }
        }
        let mut costs = Costs::new(chunks, nanos(machine.hop));
        if !whole {
            let algorithm = usize::from(family.vocabulary() == Vocabulary::OneBarrier);
            let third = machine.shard(sizes, algorithm) / 3.0;
            let [before, after] = family.vocabulary().thirds().map(f64::from);
            let input = machine.input_shard(sizes) / 2.0;
            let shard = ShardTimes {
                before: nanos(third * before + input),
                after: nanos(third * after + input),
            };
            costs = costs.with_shards(vec![shard; shape.stages()], Collectives::default());
        }
        let problem = Problem::new(shape, costs)?;
        let schedule = super::profile::timed(family).schedule(&problem)?;
        let makespan = Replay::new().metrics(&schedule, problem.costs())?.makespan();
        #[allow(clippy::cast_precision_loss)]
        Ok(makespan.0 as f64)
    }
}

/// A model of table 2.
#[derive(Deserialize)]
#[serde(rename_all = "kebab-case", deny_unknown_fields)]
struct Model {
    schedule: String,
    gpus: u16,
    layers: u32,
    hidden: u32,
    microbatches: u32,
}

/// Gains of the methods with shards over the better of those without, in per cent, in every setting of table 2: of 1F1B
/// and of V-Half.
pub(super) fn gains(sources: &Sources<'_>, machine: &Machine) -> Result<[Vec<f64>; 2], Diagnostic> {
    let (path, models) = sources.records_or_built_in::<Model>(SETTINGS)?;
    let mut all = [Vec::new(), Vec::new()];
    for model in &models {
        for (seq, vocab) in [2048, 4096]
            .into_iter()
            .flat_map(|seq| ["32k", "64k", "128k", "256k"].map(|v| (seq, v)))
        {
            let run = |method: &&str| Run {
                schedule: model.schedule.clone(),
                gpus: model.gpus,
                layers: model.layers,
                hidden: model.hidden,
                microbatches: model.microbatches,
                seq,
                method: (*method).to_owned(),
                vocab: vocab.to_owned(),
                mfu_percent: 1.0,
                memory_gb: 1.0,
            };
            run(&"BASELINE").check(&path)?;
            let fault = |fault: pipeline::Fault| error_in(&path, None, &fault.to_string());
            let (naive, shards): (&[&str], &[&str]) = match run(&"BASELINE").is_v_half() {
                true => (&["BASELINE"], &["VOCAB-1"]),
                false => (&["BASELINE", "REDIS"], &["VOCAB-1", "VOCAB-2"]),
            };
            let times = |methods: &[&str]| {
                let times = methods.iter().map(|method| run(method).time(machine));
                times.collect::<Result<Vec<f64>, _>>().map_err(fault)
            };
            let naive = times(naive)?.into_iter().fold(f64::INFINITY, f64::min);
            let own = &mut all[usize::from(run(&"BASELINE").is_v_half())];
            own.extend(times(shards)?.into_iter().map(|time| 100.0 * (naive / time - 1.0)));
        }
    }
    Ok(all)
}

/// Microseconds, at least 0, rounded to nanoseconds.
#[allow(clippy::cast_possible_truncation, clippy::cast_sign_loss)]
fn nanos(micros: f64) -> Nanos {
    Nanos((micros.max(0.0) * 1e3).round() as u64)
}

#[cfg(test)]
mod tests {
    use question::Context;

    use super::super::profile;
    use super::*;

    /// In the profile of one host a stage of more layers takes as much longer. The last stage has the output layer
    /// too, so its layers are those that are left.
    #[test]
    fn layers_of_redis_are_those_of_the_profile() {
        let host = std::collections::BTreeMap::new();
        let context = Context::new(&host);
        let sources = Sources::new(&context, None);
        let measured = profile::runs(&sources).unwrap().1;
        let runs = sources.records::<Run>(FIGURES).unwrap().1;
        let mut found = 0;
        for stages in measured.iter().filter(|run| run.method == "REDIS" && run.seq == 2048) {
            let of = |run: &&Run| {
                (run.method == "REDIS" && run.seq == 2048)
                    && Some(run.vocabulary()) == stages.entries()
            };
            let run = runs.iter().find(of).unwrap();
            let dealt = run.dealt(8);
            let times = stages.passes().unwrap();
            let layer = times[1] / 4.0;
            let counts: Vec<f64> = times[1..7].iter().map(|time| (time / layer).round()).collect();
            assert_eq!(dealt[1..7], counts, "{}", run.row());
            assert!(dealt.iter().sum::<f64>() == 32.0 && dealt[0] == 4.0, "{}", run.row());
            found += 1;
        }
        assert_eq!(found, 4);
    }
}
