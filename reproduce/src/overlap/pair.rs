//! The pair that DeepSeek published: its segments composed in several orders, beside its measured
//! duration; and whole steps of such pairs.

use std::path::Path;

use pipeline::overlap::{Chain, Composition, Interleaving, Overlap, Rule, Weights};
use pipeline::{Family, Fault, Nanos, Pass, Slot};
use question::Diagnostic;
use question::sheet::Sheet;
use serde::Deserialize;

use super::super::cell::{self, Basis, Cell, Figure as Printed};
use super::super::check::{Check, Evidence};
use super::super::picture::distinct;
use super::super::sources::{Sources, error_in};
use super::layer::Pipeline;
use super::profile::{Notify, Profile, Reading};

pub(in super::super) const FIGURES: &str = "overlap-figures.csv";

const MEASURED: Basis = Basis::new("measured", Evidence::HeldOut, Check::Relative(0.03));
/// A reading of the measured pair that nothing is claimed of.
const BESIDE: Basis = Basis::not_checked("not checked: waits that were measured are left out");
/// Figures that another program computed from the same segments, beyond the rounding of means.
const APART: Basis = Basis::new("computed apart", Evidence::Computed, Check::BeyondRounding(0.001));

/// The row and the column of the measured pair.
const PAIR: &str = "pair";
/// The order in which the trace has its segments.
const PUBLISHED: &str = "published order";

/// The readings that are shown, by the names of their rows.
const READINGS: [(&str, Reading); 8] = {
    const fn of(adds_streams: bool, is_mean: bool, notify: Notify) -> Reading {
        Reading { adds_streams, is_mean, notify }
    }
    [
        ("both compute streams added", of(true, false, Notify::Kept)),
        ("second compute stream where alone", of(false, false, Notify::Kept)),
        ("mean layer, both added", of(true, true, Notify::Kept)),
        ("mean layer, second where alone", MEAN),
        ("both added, handshakes alone of notify", of(true, false, Notify::Handshake)),
        ("second where alone, handshakes alone of notify", of(false, false, Notify::Handshake)),
        ("both added, without notify", of(true, false, Notify::Dropped)),
        ("second where alone, without notify", of(false, false, Notify::Dropped)),
    ]
};

/// The mean layer with all its waits, as whole steps have it.
pub(super) const MEAN: Reading =
    Reading { adds_streams: false, is_mean: true, notify: Notify::Kept };

/// The orders in which a pair is composed, by the names of their columns.
const ORDERS: [&str; 5] = [
    "one after the other",
    PUBLISHED,
    "best order",
    "longest stream",
    "published order with W inside B",
];

/// The schedules of whole steps, with their chunks per stage.
const STEPS: [(Family, u64); 2] = [(Family::DualPipe, 1), (Family::DualPipeV, 2)];
/// Stages and microbatches of a whole step.
const SHAPE: [u64; 2] = [8, 32];
const HOP: Nanos = Nanos(2_000_000);
/// How its pairs, and its lone backwards, are composed, by the names of their columns.
const MODES: [&str; 3] =
    ["one after the other", "pairs", "pairs, lone backwards overlapped with their own W"];

/// A figure that ours is held against.
#[derive(Deserialize)]
#[serde(deny_unknown_fields)]
struct Figure {
    row: String,
    column: String,
    figure: String,
    kind: String,
}

/// All cells of the pair and of the steps.
pub(super) fn cells(sources: &Sources<'_>) -> Result<Vec<Cell>, Diagnostic> {
    let profile = Profile::read(sources)?;
    let (path, figures) = sources.records::<Figure>(FIGURES)?;
    let is_measured = |figure: &&Figure| figure.row == PAIR && figure.column == PAIR;
    let Some(measured) = figures.iter().find(is_measured) else {
        return Err(error_in(&path, None, "the measured pair is not there"));
    };
    let mut cells = Vec::new();
    for (row, reading) in READINGS {
        let is_checked = reading.notify == Notify::Kept;
        cells.push(beside(&path, &profile, row, reading, measured, is_checked)?);
    }
    for figure in figures.iter().filter(|figure| !is_measured(figure)) {
        cells.push(apart(&path, &profile, figure)?);
    }
    Ok(cells)
}

/// The published order of a reading beside the measured pair.
fn beside(
    path: &Path,
    profile: &Profile,
    row: &str,
    reading: Reading,
    measured: &Figure,
    is_checked: bool,
) -> Result<Cell, Diagnostic> {
    let published = measured.value(path)?;
    let composed = composed(profile, reading, PUBLISHED);
    let ours = millis(composed.map_err(|fault| measured.wrong(path, &fault))?);
    let basis = if is_checked { MEASURED } else { BESIDE };
    let figure = Printed::new(row, format!("{PUBLISHED} ms"), basis, published);
    Ok(figure.digits(cell::decimals(&measured.figure)).beside(ours))
}

/// A figure computed by another program from the same segments, beside ours.
fn apart(path: &Path, profile: &Profile, figure: &Figure) -> Result<Cell, Diagnostic> {
    if figure.kind != APART.convention {
        return Err(figure.wrong(path, &format!("the kind must be {}", APART.convention)));
    }
    let published = figure.value(path)?;
    let digits = cell::decimals(&figure.figure);
    let Some(ours) = figure.ours(profile) else {
        return Err(figure.wrong(path, &"there is no such figure"));
    };
    let ours = millis(ours.map_err(|fault| figure.wrong(path, &fault))?);
    let column = format!("{} ms", figure.column);
    Ok(Printed::new(&figure.row, column, APART, published).digits(digits).beside(ours))
}

impl Figure {
    fn wrong(&self, path: &Path, fault: &impl ToString) -> Diagnostic {
        let Self { row, column, .. } = self;
        error_in(path, None, &format!("{row}, {column}: {}", fault.to_string()))
    }

    fn value(&self, path: &Path) -> Result<f64, Diagnostic> {
        let value = cell::figure(&self.figure).filter(|value| *value > 0.0);
        value.ok_or_else(|| self.wrong(path, &format!("`{}` is not a time", self.figure)))
    }

    /// Our figure, if there is one of this row and column.
    fn ours(&self, profile: &Profile) -> Option<Result<Nanos, Fault>> {
        let Self { row, column, .. } = self;
        if let Some((_, reading)) = READINGS.iter().find(|(name, _)| name == row) {
            let is_known = ORDERS.contains(&column.as_str());
            return is_known.then(|| composed(profile, *reading, column));
        }
        let (family, chunks) = STEPS.into_iter().find(|(family, _)| step_row(*family) == *row)?;
        let is_known = MODES.contains(&column.as_str());
        is_known.then(|| step(profile, family, chunks, column))
    }
}

/// How long the pair takes in the order of that name.
fn composed(profile: &Profile, reading: Reading, order: &str) -> Result<Nanos, Fault> {
    let chain = profile.chain(reading)?;
    let of = |interleaving, weights| {
        let rule = Rule { interleaving, weights, ..Rule::default() };
        pair(&chain, rule).map(|pair| (pair.duration, pair.bound))
    };
    let delayed = Weights::Delayed;
    Ok(match order {
        "one after the other" => of(Interleaving::None, delayed)?.0,
        "best order" => of(Interleaving::Best, delayed)?.0,
        "longest stream" => of(Interleaving::Published, delayed)?.1,
        "published order with W inside B" => of(Interleaving::Published, Weights::WithBackward)?.0,
        _ => of(Interleaving::Published, delayed)?.0,
    })
}

/// F of a microbatch with BW of another, both of one chunk.
fn pair(chain: &Chain, rule: Rule) -> Result<Composition, Fault> {
    let overlap = Overlap::new(vec![chain.clone()], rule)?;
    let slot = Slot::Pair(Pass::f(0, 1), Pass::bw(0, 0));
    let composition = overlap.composition(slot).map(|one| (*one).clone());
    composition.ok_or_else(|| Fault::Segments { what: "a pair has no segments".to_owned() })
}

fn step_row(family: Family) -> String {
    format!("{} p={} m={}", family.name(), SHAPE[0], SHAPE[1])
}

/// A step of chunks of as many mean layers as the pair has.
fn step(profile: &Profile, family: Family, chunks: u64, mode: &str) -> Result<Nanos, Fault> {
    let layers = u32::try_from(profile.layers()).unwrap_or(u32::MAX);
    let chain = profile.mean(layers, MEAN)?;
    let [stages, microbatches] = SHAPE;
    let count = usize::try_from(stages * chunks).unwrap_or(usize::MAX);
    let shape = [stages, chunks, microbatches];
    let pipeline = Pipeline { shape, chains: vec![chain; count], hop: HOP };
    let interleaving = match mode {
        "one after the other" => Interleaving::None,
        _ => Interleaving::Published,
    };
    let lone = mode == MODES[2];
    let step = pipeline.step(family, Rule { interleaving, lone, ..Rule::default() })?;
    Ok(step.time)
}

#[allow(clippy::cast_precision_loss)] // Times of pairs and steps are far below 2^53 ns.
fn millis(time: Nanos) -> f64 {
    time.0 as f64 / 1e6
}

/// The pair by reading and order, with the errors against the measured one; and the steps.
pub(super) fn sheet(cells: &[Cell]) -> Sheet {
    let show = |row: &str, column: &str, bases: &[Basis]| {
        let of = |cell: &&Cell| cell.row == row && cell.column == format!("{column} ms");
        let mut found = cells.iter().filter(of);
        let is_of = |cell: &&Cell| bases.iter().any(|basis| basis.convention == cell.convention);
        found.find(is_of).map(Cell::pair)
    };
    let pairs = READINGS.iter().map(|(row, _)| {
        let measured = show(row, PUBLISHED, &[MEASURED, BESIDE]).unwrap_or_default();
        let orders = ORDERS.map(|order| show(row, order, &[APART]).unwrap_or_default());
        [vec![(*row).to_owned(), measured], orders.to_vec()].concat()
    });
    let header = ["F&B of DualPipe, ms", "measured = ours"].into_iter().chain(ORDERS);
    let pairs = Sheet::table(header, pairs);
    let steps = STEPS.map(|(family, _)| step_row(family));
    let names = distinct(steps.iter().map(String::as_str)).into_iter();
    let steps = names.map(|row| {
        let modes = MODES.map(|mode| show(&row, mode, &[APART]).unwrap_or_default());
        [vec![row], modes.to_vec()].concat()
    });
    let header = ["step, ms: computed apart = ours"].into_iter().chain(MODES);
    pairs.and_text("\n").and(Sheet::table(header, steps))
}
