//! Published gains by overlap: the step without it over the step with it, beside ours.

use std::path::Path;

use pipeline::overlap::{Contention, Weights};
use question::Diagnostic;
use question::format::signed_percent;
use question::sheet::Sheet;
use question::values::segments::ContentionKey;
use serde::Deserialize;

use super::super::cell::{BESIDE, Cell, Check, whole};
use super::super::sources::{Sources, error_in};
use super::model::Model;
use super::run::{Modelled, Run, Sharing};
use measured::accuracy;

/// The file of the measured steps.
pub(in super::super) const GAINS: &str = "overlap-gains.csv";

/// The convention of a step to which the constants were fitted.
const FITTED: &str = "measured, fitted to";
/// The convention of one to which they were not.
const HELD_OUT: &str = "measured, held out";
/// The convention of a gain that is not predicted.
const NOT_PREDICTED: &str = "not predicted";
/// How far a predicted gain may be from the measured one.
pub(super) const TOLERANCE: f64 = 0.05;

/// The step without overlap over that with it, with the constants of Megatron-LM on H100.
pub(in super::super) const GAIN: &str = "step without / with overlap";
/// The same, if the streams took nothing from each other.
const IDEAL: &str = "ideal overlap (hold 0, slow 1)";
/// The same, if communication held the share of multiprocessors that its kernels have.
const FEW: &str = "hold 0.12, slow 1.31";
/// The step without overlap.
const STEP: &str = "step without overlap s";
/// How many pairs of gains the prediction puts in another order.
const RANKING: &str = "pairs in another order";

/// A measured gain.
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

    /// The convention of its cell, if it is predicted.
    fn convention(&self) -> Option<&'static str> {
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
        match measured.convention() {
            Some(convention) => {
                cells.extend(predicted(&path, measured, convention, &runs, &models)?);
            }
            None => {
                let figures = [measured.gain(), f64::NAN];
                let cell = Cell::new(name, GAIN, NOT_PREDICTED, figures, Check::NotChecked);
                cells.push(Cell { digits: 3, ..cell });
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
    let figures = [measured.without, without];
    let cell = Cell::new(&measured.name, STEP, BESIDE, figures, Check::NotChecked);
    Ok(Some(Cell { digits: 3, ..cell }))
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
    convention: &'static str,
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
    let ours = gain(megatron())?;
    let near = accuracy::error(ours, published).abs() <= TOLERANCE;
    let cell = |column, convention, figures, check| Cell {
        digits: 3,
        ..Cell::new(name, column, convention, figures, check)
    };
    let mut cells = vec![
        cell(GAIN, convention, [published, ours], Check::of(near)),
        cell(IDEAL, BESIDE, [published, gain(Contention::NONE)?], Check::NotChecked),
        cell(FEW, BESIDE, [published, gain(few)?], Check::NotChecked),
    ];
    if measured.unit == Unit::Seconds {
        cells.push(cell(STEP, BESIDE, [measured.without, without], Check::NotChecked));
    }
    Ok(cells)
}

/// How many pairs of the steps that were fitted to come in another order.
fn ranking(cells: &[Cell]) -> Cell {
    let fitted: Vec<&Cell> = cells.iter().filter(|cell| cell.convention == FITTED).collect();
    let pairs = fitted
        .iter()
        .enumerate()
        .flat_map(|(at, one)| fitted[at + 1..].iter().map(move |other| (one, other)));
    let swapped = pairs
        .filter(|(one, other)| (one.published - other.published) * (one.ours - other.ours) < 0.0);
    let ours = whole(swapped.count() as u64);
    Cell::new("steps that were fitted to", RANKING, "counted", [0.0, ours], Check::of(ours == 0.0))
}

/// The gains with their errors.
pub(super) fn sheet(cells: &[Cell]) -> Sheet {
    let own = cells.iter().filter(|cell| cell.column == GAIN);
    let rows = own.map(|cell| {
        let beside = |column: &str| {
            let mut found = cells.iter().filter(|one| one.row == cell.row && one.column == column);
            found.next().map_or(String::new(), |one| one.printed(one.ours))
        };
        let is_predicted = cell.convention != NOT_PREDICTED;
        let figures = match is_predicted {
            true => [cell.pair(), signed_percent(accuracy::error(cell.ours, cell.published))],
            false => [cell.printed(cell.published), "not predicted".to_owned()],
        };
        let kind = cell.convention.trim_start_matches("measured, ").to_owned();
        let kind = if is_predicted { kind } else { String::new() };
        let [figure, error] = figures;
        vec![cell.row.clone(), figure, error, kind, beside(IDEAL), beside(FEW), beside(STEP)]
    });
    let header = [GAIN, "measured = ours", "error", "constants", IDEAL, FEW, STEP];
    Sheet::table(&header, rows)
}
