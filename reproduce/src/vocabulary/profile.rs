//! The profile of one host: measured times of every stage in, iteration times out.

use std::path::{Path, PathBuf};

use pipeline::{
    Collectives, Costs, Family, Nanos, PassTimes, Problem, Shape, ShardTimes, Vocabulary,
    peak_in_flight,
};
use question::Diagnostic;
use serde::Deserialize;
use sim::Replay;

use super::super::cell::{Cell, decimals, figure, whole};
use super::super::check::Evidence;
use super::super::sources::{Sources, error_in};
use super::columns::{Fit, ITERATION, PEAK, RANKING, exact};
use measured::accuracy;

/// The file of its measured runs.
pub(in super::super) const FIGURES: &str = "vocabulary.csv";

/// Measured times that differ by less than this share say nothing about which is smaller: BASELINE and
/// REDIS at 32k, which run the same layers, differ by 0.3 %.
const NOISE: f64 = 0.005;

#[derive(Deserialize)]
#[serde(rename_all = "kebab-case", deny_unknown_fields)]
pub(super) struct Run {
    pub(super) method: String,
    vocab: String,
    pub(super) seq: u64,
    microbatches: u64,
    iteration_ms: String,
    /// Per stage, with blanks between.
    forward_us: String,
    backward_us: String,
    /// The same of S and T together, and of the input layer; empty where they are not in shards.
    output_us: String,
    input_forward_us: String,
    input_backward_us: String,
    /// Empty where it was not measured.
    hop_us: String,
}

impl Run {
    /// F and B of every stage in microseconds, if they can be read.
    pub(super) fn passes(&self) -> Option<Vec<f64>> {
        both(&self.forward_us, &self.backward_us)
    }

    /// Forward and backward of the input layer's shard of every stage in microseconds.
    pub(super) fn input_layer(&self) -> Option<Vec<f64>> {
        both(&self.input_forward_us, &self.input_backward_us)
    }

    /// The transfer between two stages in microseconds.
    pub(super) fn hop(&self) -> Option<f64> {
        figure(&self.hop_us)
    }

    pub(super) fn entries(&self) -> Option<f64> {
        entries(&self.vocab)
    }
}

/// V of a vocabulary in thousands of 1024, as 32k: a multiple of 2p for all p here.
pub(super) fn entries(vocabulary: &str) -> Option<f64> {
    let thousands = vocabulary.strip_suffix('k')?.parse::<u16>().ok()?;
    Some(f64::from(thousands) * 1024.0)
}

/// The sums of two lists of as many times.
fn both(forward: &str, backward: &str) -> Option<Vec<f64>> {
    let [forward, backward] = [forward, backward].map(str::split_whitespace);
    let sum = |(forward, backward)| Some(figure(forward)? + figure(backward)?);
    let sums: Vec<f64> = forward.zip(backward).map(sum).collect::<Option<_>>()?;
    Some(sums).filter(|sums| !sums.is_empty())
}

/// The family of a method by its published name.
pub(super) fn family(method: &str) -> Option<Family> {
    match method {
        "BASELINE" | "REDIS" => Some(Family::OneFOneB),
        "VOCAB-1" => Some(Family::Vocab1),
        "VOCAB-2" => Some(Family::Vocab2),
        "INTERLACED" => Some(Family::Interlaced1F1B),
        _ => None,
    }
}

/// Whether the row is of a method whose output layer is not in shards.
pub(super) fn is_whole(row: &str) -> bool {
    row.starts_with("BASELINE") || row.starts_with("REDIS")
}

/// Iteration times, rankings of methods, and peaks.
pub(super) fn cells(path: &Path, runs: &[Run]) -> Result<Vec<Cell>, Diagnostic> {
    let mut cells = Vec::new();
    for run in runs {
        cells.push(iteration(path, run)?);
    }
    let ranked = rankings(runs, &cells);
    cells.extend(ranked);
    cells.extend(peaks(path, runs)?);
    Ok(cells)
}

/// The measured runs, and the path of their file.
pub(super) fn runs(sources: &Sources<'_>) -> Result<(PathBuf, Vec<Run>), Diagnostic> {
    sources.records::<Run>(FIGURES)
}

fn iteration(path: &Path, run: &Run) -> Result<Cell, Diagnostic> {
    let Run { method, vocab, seq, iteration_ms, .. } = run;
    let row = format!("{method}, vocabulary {vocab}, sequence {seq}");
    let wrong = |message: String| error_in(path, None, &format!("{row}: {message}"));
    let published = iteration_ms.parse::<f64>().ok();
    let published = published.filter(|time| time.is_finite() && *time > 0.0);
    let published = published.ok_or_else(|| wrong(format!("`{iteration_ms}` is not a time")))?;
    let (problem, family) = problem(run).map_err(wrong)?;
    let family = timed(family);
    let makespan = || {
        let schedule = family.schedule(&problem)?;
        Ok(Replay::new().metrics(&schedule, problem.costs())?.makespan())
    };
    let ours = makespan().map_err(|fault: pipeline::Fault| wrong(fault.to_string()))?;
    let figure = ITERATION.figure(row, Fit::HeldOut, published, decimals(iteration_ms));
    Ok(figure.beside(milliseconds(ours)))
}

/// The family in the order for the times given, as the authors' runs were: they leave room for hops.
pub(super) const fn timed(family: Family) -> Family {
    match family {
        Family::Vocab1 => Family::Vocab1Timed,
        Family::Vocab2 => Family::Vocab2Timed,
        other => other,
    }
}

/// The stages as measured. Transfers take the time of their timer, where it was there; the barriers
/// run beside the passes, and no timer has them.
fn problem(run: &Run) -> Result<(Problem, Family), String> {
    let family = family(&run.method).ok_or_else(|| format!("`{}` is not a method", run.method))?;
    let forward = times("forward", &run.forward_us, None)?;
    let stages = Some(forward.len());
    let backward = times("backward", &run.backward_us, stages)?;
    let hop = match run.hop_us.as_str() {
        "" => Nanos(0),
        micros => micros_of(micros)?,
    };
    let chunks = forward
        .iter()
        .zip(&backward)
        .map(|(&forward, &backward)| PassTimes::new(forward, backward, Nanos(0)));
    let mut costs = Costs::new(chunks.collect(), hop);
    if family.vocabulary() != Vocabulary::Whole {
        let output = times("output", &run.output_us, stages)?;
        let input_forward = times("input-forward", &run.input_forward_us, stages)?;
        let input_backward = times("input-backward", &run.input_backward_us, stages)?;
        let input = input_forward.iter().zip(&input_backward);
        let shards = output.iter().zip(input).map(|(&both, (&forward, &backward))| {
            let before = before(both, family.vocabulary());
            ShardTimes { before: before + forward, after: both - before + backward }
        });
        costs = costs.with_shards(shards.collect(), Collectives::default());
    }
    let shape = Shape::new(forward.len() as u64, 1, run.microbatches);
    let problem = shape.and_then(|shape| Problem::new(shape, costs));
    Ok((problem.map_err(|fault| fault.to_string())?, family))
}

/// The part of S in the time of S and T: of 6bshV FLOPs algorithm 1 does a third in S, algorithm 2 two.
fn before(both: Nanos, vocabulary: Vocabulary) -> Nanos {
    match vocabulary {
        Vocabulary::OneBarrier => Nanos(both.0 / 3 * 2),
        Vocabulary::Whole | Vocabulary::TwoBarriers => Nanos(both.0 / 3),
    }
}

fn micros_of(micros: &str) -> Result<Nanos, String> {
    format!("{micros}us").parse().map_err(|error: pipeline::UnitError| error.to_string())
}

/// One time per stage, of as many `stages` as the others have.
fn times(what: &str, text: &str, stages: Option<usize>) -> Result<Vec<Nanos>, String> {
    let times = text.split_whitespace().map(micros_of).collect::<Result<Vec<_>, _>>()?;
    match stages.filter(|&stages| stages != times.len()) {
        Some(stages) => Err(format!("{stages} forward times, but {} {what} times", times.len())),
        None => Ok(times),
    }
}

/// For each vocabulary, how many pairs of methods change places.
fn rankings(runs: &[Run], cells: &[Cell]) -> Vec<Cell> {
    let mut vocabularies: Vec<(&str, u64)> = Vec::new();
    for run in runs {
        if !vocabularies.contains(&(&run.vocab, run.seq)) {
            vocabularies.push((&run.vocab, run.seq));
        }
    }
    let ranking = |(vocab, seq): (&str, u64)| {
        let here = |run: &Run| run.vocab == vocab && run.seq == seq;
        let all = runs.iter().zip(cells).filter(|(run, _)| here(run)).map(|(_, cell)| cell);
        let all: Vec<&Cell> = all.collect();
        let pairs =
            || all.iter().enumerate().flat_map(|(at, &a)| all[..at].iter().map(move |&b| (a, b)));
        let differ = |a: &Cell, b: &Cell| accuracy::error(a.published, b.published).abs() > NOISE;
        let swapped = |a: &Cell, b: &Cell| (a.published < b.published) != (a.ours < b.ours);
        let count =
            |wanted: &dyn Fn(&Cell, &Cell) -> bool| pairs().filter(|&(a, b)| wanted(a, b)).count();
        let close = count(&|a, b| !differ(a, b));
        let ours = count(&|a, b| differ(a, b) && swapped(a, b));
        let row = format!(
            "vocabulary {vocab}, sequence {seq}: {} pairs, {close} within 0.5 %",
            all.len() * all.len().saturating_sub(1) / 2
        );
        exact(row, RANKING, ("measured", Evidence::HeldOut), [0.0, whole(ours as u64)])
    };
    vocabularies.into_iter().map(ranking).collect()
}

/// The most microbatches on the first stage, for as many stages as the profile has.
fn peaks(path: &Path, runs: &[Run]) -> Result<Vec<Cell>, Diagnostic> {
    let mut seen: Vec<&str> = Vec::new();
    let mut cells = Vec::new();
    for run in runs.iter().filter(|run| !is_whole(&run.method)) {
        if seen.contains(&run.method.as_str()) {
            continue;
        }
        seen.push(&run.method);
        let wrong = |message: String| error_in(path, None, &format!("{}: {message}", run.method));
        let (problem, family) = problem(run).map_err(wrong)?;
        let schedule = family.schedule(&problem).map_err(|fault| wrong(fault.to_string()))?;
        let ours = peak_in_flight(&schedule).into_iter().max().unwrap_or(0) as usize;
        let published = published_peak(family, problem.shape().stages());
        let row = format!("{}, p = {}", run.method, problem.shape().stages());
        let both = [whole(published as u64), whole(ours as u64)];
        cells.push(exact(row, PEAK, ("worst stage", Evidence::ClosedForm), both));
    }
    Ok(cells)
}

/// The published peaks of `stages` stages, in microbatches (Vocabulary Parallelism, sections 4 and 5.2; of
/// V-Half, Controllable Memory, and two more for two barriers).
pub(super) const fn published_peak(family: Family, stages: usize) -> usize {
    match family {
        Family::VHalf => (stages + 2) / 2,
        Family::VHalfVocab1 => (stages + 2) / 2 + 2,
        Family::Vocab1 => stages + 2,
        Family::Vocab2 => stages + 1,
        Family::Interlaced1F1B => stages + stages / 2,
        _ => stages,
    }
}

#[allow(clippy::cast_precision_loss)]
fn milliseconds(time: Nanos) -> f64 {
    time.0 as f64 / 1e6
}
