//! Published gains by overlap: the step without it over the step with it, beside ours.

use std::path::Path;

use pipeline::overlap::{Contention, Weights};
use question::Diagnostic;
use question::sheet::Sheet;
use question::values::segments::ContentionKey;
use serde::Deserialize;

use super::super::cell::{Basis, Cell, Figure, decimals, half_digit, ratio_rounding, whole};
use super::super::check::{Check, Evidence};
use super::super::sources::{Sources, error_in};
use super::model::Model;
use super::run::{Modelled, Run, Sharing};

/// The file of the measured steps.
pub(in super::super) const GAINS: &str = "overlap-gains.csv";

/// A step to which the constants were fitted.
const FITTED: Basis = Basis::new("measured, fitted to", Evidence::Fitted, Check::GainOfRatio);
/// One to which they were not.
const HELD_OUT: Basis = Basis::new("measured, held out", Evidence::HeldOut, Check::GainOfRatio);
const OF_STEP: Basis = Basis::new("measured step", Evidence::HeldOut, Check::Relative(0.1));
/// Gains under constants of no run.
const OTHERWISE: Basis = Basis::not_checked("not checked: other constants than those of the runs");
/// A gain that is not predicted.
const NOT_PREDICTED: Basis = Basis::not_checked("not predicted");
const COUNTED: Basis = Basis::new("counted", Evidence::Fitted, Check::Absolute(0.0));

/// The step without overlap over that with it, with the constants of Megatron-LM on H100.
pub(in super::super) const GAIN: &str = "step without / with overlap";
/// The same, if the streams took nothing from each other.
const IDEAL: &str = "ideal overlap (hold 0, slow 1)";
/// The same, if communication held the share of multiprocessors that its kernels have.
const FEW: &str = "hold 0.12, slow 1.31";
const STEP: &str = "step without overlap s";
/// How many pairs of gains the prediction puts in another order.
const RANKING: &str = "pairs in another order";

#[derive(Deserialize)]
#[serde(rename_all = "kebab-case", deny_unknown_fields)]
struct Measured {
    name: String,
    run: String,
    weights: WeightsOf,
    without: f64,
    with: f64,
    unit: Unit,
    kind: String,
}

#[derive(Deserialize, Clone, Copy)]
#[serde(rename_all = "kebab-case")]
enum WeightsOf {
    Delayed,
    WithBackward,
}

#[derive(Deserialize, Clone, Copy, PartialEq, Eq)]
enum Unit {
    #[serde(rename = "s")]
    Seconds,
    #[serde(rename = "TFLOP/s")]
    Rate,
}

impl Measured {
    /// The step without overlap over that with it.
    fn gain(&self) -> f64 {
        match self.unit {
            Unit::Seconds => self.without / self.with,
            Unit::Rate => self.with / self.without,
        }
    }

    /// Both steps as people read them.
    fn steps(&self) -> String {
        let unit = match self.unit {
            Unit::Seconds => "s",
            Unit::Rate => "TFLOP/s",
        };
        format!("{} {unit} without overlap, {} {unit} with it", self.without, self.with)
    }

    fn weights(&self) -> Weights {
        match self.weights {
            WeightsOf::Delayed => Weights::Delayed,
            WeightsOf::WithBackward => Weights::WithBackward,
        }
    }

    /// The gains that are printed like its gain.
    fn rounding(&self) -> [f64; 2] {
        let both = match self.unit {
            Unit::Seconds => [self.without, self.with],
            Unit::Rate => [self.with, self.without],
        };
        ratio_rounding(both, both.map(|one| half_digit(decimals(&one.to_string()))))
    }

    /// How its cell is checked, if it is predicted.
    fn basis(&self) -> Option<Basis> {
        match self.kind.as_str() {
            "fitted" => Some(FITTED),
            "held out" => Some(HELD_OUT),
            _ => None,
        }
    }
}

/// The contention of Megatron-LM on H100.
fn megatron() -> Contention {
    ContentionKey::MegatronHopper.contention()
}

/// The cells of all measured gains, and why some are not predicted, line by line.
pub(super) fn cells(sources: &Sources<'_>) -> Result<(Vec<Cell>, String), Diagnostic> {
    let (models, runs) = (Model::all(sources)?, Run::all(sources)?);
    let (path, all) = sources.records::<Measured>(GAINS)?;
    let mut cells = Vec::new();
    let mut reasons = Vec::new();
    for measured in &all {
        let Measured { name, without, with, kind, .. } = measured;
        if ![without, with].into_iter().all(|figure| *figure > 0.0 && *figure < 1e9) {
            return Err(error_in(&path, None, &format!("{name}: a step that cannot be measured")));
        }
        match measured.basis() {
            Some(basis) => {
                cells.extend(predicted(&path, measured, basis, &runs, &models)?);
            }
            None => {
                let figure = Figure::new(name, GAIN, NOT_PREDICTED, measured.gain());
                cells.push(figure.digits(3).beside(f64::NAN));
                cells.extend(step(&path, measured, &runs, &models)?);
                reasons.push(format!("{name}: {}: {kind}.\n", measured.steps()));
            }
        }
    }
    cells.push(ranking(&cells));
    Ok((cells, reasons.concat()))
}

/// The step without overlap of a gain that is not predicted, if its run is modelled.
fn step(
    path: &Path,
    measured: &Measured,
    runs: &[Run],
    models: &[Model],
) -> Result<Option<Cell>, Diagnostic> {
    if measured.run.is_empty() || measured.unit != Unit::Seconds {
        return Ok(None);
    }
    let (_, without) = modelled(path, measured, runs, models)?;
    let figure = Figure::new(&measured.name, STEP, OF_STEP, measured.without);
    Ok(Some(figure.digits(3).beside(without)))
}

/// The run of a measured gain, and its step without overlap in seconds.
fn modelled<'a>(
    path: &Path,
    measured: &Measured,
    runs: &'a [Run],
    models: &'a [Model],
) -> Result<(Modelled<'a>, f64), Diagnostic> {
    let wrong = |message: String| error_in(path, None, &format!("{}: {message}", measured.name));
    let run = runs.iter().find(|run| run.run == measured.run);
    let run = run.ok_or_else(|| wrong(format!("there is no run {}", measured.run)))?;
    let modelled = run.modelled(models).map_err(wrong)?;
    let without = modelled.step(Sharing::Apart).map_err(|fault| wrong(fault.to_string()))?;
    Ok((modelled, without))
}

/// The cells of a gain that is predicted.
fn predicted(
    path: &Path,
    measured: &Measured,
    basis: Basis,
    runs: &[Run],
    models: &[Model],
) -> Result<Vec<Cell>, Diagnostic> {
    let name = &measured.name;
    let wrong = |message: String| error_in(path, None, &format!("{name}: {message}"));
    let (modelled, without) = modelled(path, measured, runs, models)?;
    let step = |sharing| modelled.step(sharing).map_err(|fault| wrong(fault.to_string()));
    let gain = |contention| Ok(without / step(Sharing::Pairs(measured.weights(), contention))?);
    let published = measured.gain();
    let few = Contention::new(120, 1310).unwrap_or(Contention::NONE);
    let figure = |column, basis, published| Figure::new(name, column, basis, published).digits(3);
    let own = figure(GAIN, basis, published).rounded(measured.rounding());
    let mut cells = vec![
        own.beside(gain(megatron())?),
        figure(IDEAL, OTHERWISE, published).beside(gain(Contention::NONE)?),
        figure(FEW, OTHERWISE, published).beside(gain(few)?),
    ];
    if measured.unit == Unit::Seconds {
        cells.push(figure(STEP, OF_STEP, measured.without).beside(without));
    }
    Ok(cells)
}

/// How many pairs of the steps that were fitted to come in another order.
fn ranking(cells: &[Cell]) -> Cell {
    let fitted: Vec<&Cell> =
        cells.iter().filter(|cell| cell.convention == FITTED.convention).collect();
    let pairs = fitted
        .iter()
        .enumerate()
        .flat_map(|(at, one)| fitted[at + 1..].iter().map(move |other| (one, other)));
    let swapped = pairs
        .filter(|(one, other)| (one.published - other.published) * (one.ours - other.ours) < 0.0);
    let ours = whole(swapped.count() as u64);
    Figure::new("steps that were fitted to", RANKING, COUNTED, 0.0).beside(ours)
}

pub(super) fn sheet(cells: &[Cell]) -> Sheet {
    let own = cells.iter().filter(|cell| cell.column == GAIN);
    let rows = own.map(|cell| {
        let beside = |column: &str| {
            let mut found = cells.iter().filter(|one| one.row == cell.row && one.column == column);
            found.next().map_or(String::new(), |one| one.print(one.ours))
        };
        let is_predicted = cell.convention != NOT_PREDICTED.convention;
        let figure = match is_predicted {
            true => cell.pair(),
            false => format!("{} (not predicted)", cell.print(cell.published)),
        };
        let kind = cell.convention.trim_start_matches("measured, ").to_owned();
        let kind = if is_predicted { kind } else { String::new() };
        vec![cell.row.clone(), figure, kind, beside(IDEAL), beside(FEW), beside(STEP)]
    });
    let header = [GAIN, "measured = ours", "constants", IDEAL, FEW, STEP];
    Sheet::table(header, rows)
}
