//! Optimus: an encoder in the bubbles of a language model, beside Megatron-LM and layers that are spread evenly.

use std::path::{Path, PathBuf};

use pipeline::{EncoderKind, EncoderRun, Family, Fault, Nanos};
use planning::encoder::{Asked, EncoderQuestion, asked};
use question::Diagnostic;
use question::encoder::EncoderKeys;
use question::sheet::Sheet;
use search::encoder::{EncoderPlace, place_encoder, search_encoder};
use serde::Deserialize;
use sim::encoder::{Beside, ModelOrder};

use super::cell::{Basis, Cell, Figure, half_digit, ratio_rounding};
use super::check::{Check, Evidence};
use super::claims::Claims;
use super::sheets;
use super::sources::{Sources, error_in};
use super::table::{Contents, Table};

pub(super) const FIGURES: &str = "optimus.csv";
pub(super) const MODELS: &str = "optimus-models.csv";
pub(super) const CLAIMS: &str = "optimus-claims.csv";

/// The name of the largest gains.
pub(super) const LARGEST: &str = "largest gain, %";
const GAIN: Basis = Basis::new("measured gain", Evidence::HeldOut, Check::Gain);
const STEP: Basis = Basis::new("measured step", Evidence::HeldOut, Check::Relative(0.1));
const LAYER: Basis = Basis::new("measured layer", Evidence::HeldOut, Check::BeyondRounding(0.1));
const NOT_PRINTED: Basis = Basis::not_checked("not printed in the paper");
const ENCODER_LAYERS: u64 = 48;

#[derive(Deserialize)]
#[serde(deny_unknown_fields)]
struct Iteration {
    gpus: u64,
    microbatches: u64,
    megatron: f64,
    balanced: f64,
    optimus: f64,
}

#[derive(Deserialize, Clone)]
#[serde(deny_unknown_fields)]
struct Model {
    row: String,
    model: String,
    layers: u64,
    hidden: u64,
    heads: u64,
    stages: u64,
    chunks: u64,
    microbatches: u64,
}

/// Steps in seconds: Megatron-LM, layers spread evenly, and the encoder in bubbles.
type Steps = [f64; 3];

const METHODS: [&str; 3] = ["Megatron-LM", "balanced", "Optimus"];

pub(super) fn cells(table: &Table, sources: &Sources<'_>) -> Result<Contents, Diagnostic> {
    let (path, iterations) = sources.records::<Iteration>(FIGURES)?;
    let (models_path, models) = sources.records::<Model>(MODELS)?;
    let claims = Claims::read(sources, CLAIMS)?;
    let Some((strong, weak)) = models.split_first() else {
        return Err(error_in(&models_path, None, "there is no model"));
    };
    let published = [claims.named("layer-forward")?, claims.named("layer-backward")?];
    let mut all = layers(sources, strong, published)?;
    let mut gains = Vec::new();
    for one in &iterations {
        let seconds = [one.megatron, one.balanced, one.optimus];
        if seconds.iter().any(|time| !time.is_finite() || *time <= 0.0) {
            return Err(error_in(&path, None, "an iteration takes a positive time"));
        }
        let model = Model { microbatches: one.microbatches, ..strong.clone() };
        let ours = steps(sources, &model)?;
        gains.push(gains_of(ours));
        all.extend(strong_cells(one.gpus, seconds, ours));
    }
    for (name, gain) in ["strong-megatron", "strong-balanced"].into_iter().zip(largest(&gains)) {
        all.push(claim(
            &format!("strong scaling over {}", method(name)),
            claims.named(name)?,
            gain,
        ));
    }
    let mut gains = Vec::new();
    for model in weak {
        let ours = steps(sources, model)?;
        gains.push(gains_of(ours));
        all.extend(weak_cells(&model.row, ours));
    }
    for (name, gain) in ["weak-megatron", "weak-balanced"].into_iter().zip(largest(&gains)) {
        all.push(claim(&format!("weak scaling over {}", method(name)), claims.named(name)?, gain));
    }
    let title = "Optimus (arXiv 2408.03505): an encoder in the bubbles of a language model";
    Contents::of(table, sources, title, all, sheet)
}

fn method(claim: &str) -> &'static str {
    if claim.ends_with("balanced") { METHODS[1] } else { METHODS[0] }
}

/// The gains of bubbles over both others, in per cent.
fn gains_of([megatron, balanced, optimus]: Steps) -> [f64; 2] {
    [megatron, balanced].map(|other| 100.0 * (other / optimus - 1.0))
}

fn largest(gains: &[[f64; 2]]) -> [f64; 2] {
    [0, 1].map(|at| gains.iter().map(|one| one[at]).fold(f64::NEG_INFINITY, f64::max))
}

fn claim(row: &str, published: f64, ours: f64) -> Cell {
    let figure = Figure::new(row, LARGEST, GAIN, published);
    let digits = if published.fract() == 0.0 { 0 } else { 1 };
    figure.digits(digits).beside(ours)
}

fn strong_cells(gpus: u64, published: Steps, ours: Steps) -> Vec<Cell> {
    let row = format!("{gpus} GPUs");
    let step = |at: usize| {
        let figure = Figure::new(row.as_str(), format!("{}, s", METHODS[at]), STEP, published[at]);
        figure.digits(2).beside(ours[at])
    };
    let gain = |at: usize| {
        let seconds = [published[at], published[2]];
        let column = format!("gain over {}, %", METHODS[at]);
        let figure = Figure::new(row.as_str(), column, GAIN, gains_of(published)[at]).digits(1);
        let rounding = ratio_rounding(seconds, [half_digit(2); 2]).map(|one| 100.0 * (one - 1.0));
        figure.rounded(rounding).beside(gains_of(ours)[at])
    };
    (0..3).map(step).chain((0..2).map(gain)).collect()
}

/// Of the weak scaling only the largest gains are printed in the paper.
fn weak_cells(row: &str, ours: Steps) -> Vec<Cell> {
    let alone = |column: String, ours: f64, digits| {
        Figure::new(row, column, NOT_PRINTED, f64::NAN).digits(digits).beside(ours)
    };
    let steps = (0..3).map(|at| alone(format!("{}, s", METHODS[at]), ours[at], 2));
    let gains =
        (0..2).map(|at| alone(format!("gain over {}, %", METHODS[at]), gains_of(ours)[at], 1));
    steps.chain(gains).collect()
}

/// The times of a layer of the encoder, in milliseconds.
fn layers(
    sources: &Sources<'_>,
    model: &Model,
    published: [f64; 2],
) -> Result<Vec<Cell>, Diagnostic> {
    let question = question(sources, model, "1f1b", 1)?;
    let kinds = [EncoderKind::Forward, EncoderKind::Backward];
    let names = ["forward", "backward"];
    let cells = kinds.into_iter().zip(names).zip(published).map(|((kind, name), published)| {
        let run = EncoderRun { kind, microbatch: 0, first: 0, layers: 1 };
        let ours = 1e3 * seconds(question.encoder.time(run));
        let column = format!("{name}, ms");
        Figure::new("a layer of ViT-22B", column, LAYER, published).digits(1).beside(ours)
    });
    Ok(cells.collect())
}

fn question(
    sources: &Sources<'_>,
    model: &Model,
    schedule: &str,
    chunks: u64,
) -> Result<EncoderQuestion, Diagnostic> {
    let keys = EncoderKeys {
        schedule: Some(vec![schedule.to_owned()]),
        stages: Some(model.stages),
        microbatches: Some(model.microbatches),
        chunks: Some(chunks),
        layers: Some(model.layers),
        model: Some(PathBuf::from(&model.model)),
        machine: Some("h100".to_owned()),
        tensor: Some(8),
        microbatch_size: Some(2),
        sequence: Some(2048),
        encoder_layers: Some(ENCODER_LAYERS),
        encoder_hidden: Some(model.hidden),
        encoder_heads: Some(model.heads),
        encoder_tokens: Some(2048),
        ..EncoderKeys::default()
    };
    asked(sources.context(), &keys)
}

#[allow(clippy::cast_precision_loss)] // Hours of nanoseconds are exact.
fn seconds(time: Nanos) -> f64 {
    time.0 as f64 / 1e9
}

/// The steps of all three methods.
fn steps(sources: &Sources<'_>, model: &Model) -> Result<Steps, Diagnostic> {
    let wrong =
        |fault: Fault| error_in(Path::new(MODELS), None, &format!("{}: {fault}", model.row));
    let placed = |schedule: &str, family: Family, chunks: u64, place| {
        let question = question(sources, model, schedule, chunks)?;
        let problem = question.problem(Asked { family, chunks, is_named: true }).map_err(wrong)?;
        let at = (place, question.layers);
        let placed = place_encoder(&problem, family, &question.encoder, at).map_err(wrong)?;
        let ends = placed.timeline.stages.iter().flatten().map(|span| span.end);
        Ok::<f64, Diagnostic>(seconds(ends.max().unwrap_or_default()))
    };
    let megatron = placed("1f1b", Family::OneFOneB, 1, EncoderPlace::First)?;
    let interleaved = ("1f1b-i", Family::Interleaved, model.chunks);
    let (name, family, chunks) = interleaved;
    let balanced = placed(name, family, chunks, EncoderPlace::Spread)?;
    let question = question(sources, model, name, chunks)?;
    let problem = question.problem(Asked { family, chunks, is_named: true }).map_err(wrong)?;
    let schedule = family.schedule(&problem).map_err(wrong)?;
    let beside = Beside {
        schedule: &schedule,
        costs: problem.costs(),
        footprints: problem.footprints(),
        encoder: &question.encoder,
        limits: None,
    };
    let stop = || sources.context().stopped();
    let found = search_encoder(&beside, ModelOrder::Kept, (1, 0), &stop).map_err(wrong)?;
    Ok([megatron, balanced, seconds(found.timeline.step())])
}

const NOTES: &str = "
steps: times of layers by the planner's formulas for H100, tensor parallelism 8; collectives of data parallelism, which
the paper's steps have, are left out. Megatron-LM is 1F1B with the encoder in front of the first chunk, balanced is
interleaved 1F1B with layers of both spread over its chunks, Optimus interleaved 1F1B with the encoder in bubbles.
Expected misses: the published steps of Megatron-LM are within 3 % of the balanced ones, though its first stage has the whole encoder and an eighth of the language model; and the seconds that Optimus saves over balanced layers fall from
1.00 to 0.63 while microbatches double. Times of layers that are the same in all methods give neither.
";

fn sheet(cells: &[Cell]) -> Sheet {
    sheets::compared("setting", cells.iter()).and_text(NOTES)
}
