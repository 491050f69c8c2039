//! ODC's packing functions on their own test cases: microbatches, loads, times and bubbles.

use std::path::Path;

use fsdp::{Communication, CostModel, FsdpError, Machine, Method, Packing, StepTimes};
use pipeline::Nanos;
use question::Diagnostic;
use question::sheet::Sheet;
use serde::Deserialize;

use super::super::cell::{self, Basis, Cell, Figure, whole};
use super::super::check::{Check, Evidence};
use super::super::sources::{Sources, error_in};
use super::super::totals::Count;
use super::Part;

pub(in super::super) const FIGURES: &str = "odc.csv";
/// The file of its test cases.
pub(in super::super) const LENGTHS: &str = "odc-lengths.csv";

/// What its packing code gives. What is printed is met to half of the last digit.
const BASIS: Basis =
    Basis::new("packing code, run again", Evidence::Computed, Check::BeyondRounding(0.0));

/// The time of a token where costs are linear: the figures count tokens.
const TOKEN: Nanos = Nanos(1_000);

#[derive(Deserialize)]
#[serde(deny_unknown_fields)]
struct Case {
    case: String,
    /// In tokens, with blanks between.
    lengths: String,
}

/// The published results of a test case.
#[derive(Deserialize)]
#[serde(rename_all = "kebab-case", deny_unknown_fields)]
struct Figures {
    case: String,
    samples: usize,
    devices: usize,
    max_tokens: u32,
    cost: String,
    method: String,
    /// By device, with blanks between.
    microbatches: String,
    loads: String,
    /// Empty where collectives would deadlock.
    collectives: String,
    on_demand: String,
    bubble_collectives: String,
    bubble_on_demand: String,
}

/// Ours: a packing, and its times in the unit of the figures.
struct Ours {
    packing: Packing,
    loads: Vec<f64>,
    /// `None` where it would deadlock.
    collectives: Option<StepTimes>,
    on_demand: StepTimes,
    /// Nanoseconds of the figures' unit.
    unit: f64,
}

pub(super) fn part(sources: &Sources<'_>) -> Result<Part, Diagnostic> {
    let (_, cases) = sources.records::<Case>(LENGTHS)?;
    let (_, all) = sources.records::<Figures>(FIGURES)?;
    let path = Path::new(FIGURES);
    let mut cells = Vec::new();
    for figures in &all {
        let wrong =
            |message: String| error_in(path, None, &format!("{}: {message}", figures.row()));
        let ours = ours(figures, &cases).map_err(wrong)?;
        cells.extend(figures.cells(&ours).map_err(wrong)?);
    }
    Ok(Part { cells, sheet: Box::new(sheet) })
}

fn sheet(cells: &[Cell]) -> Sheet {
    let header = [
        "regenerated = ours",
        "collectives",
        "on-demand",
        "bubble, collectives",
        "bubble, on-demand",
        "match",
    ];
    let rows = cells.chunk_by(|one, other| one.row == other.row).map(row);
    Sheet::table(header, rows)
}

/// Packs and times a test case.
fn ours(figures: &Figures, cases: &[Case]) -> Result<Ours, String> {
    let case = cases.iter().find(|case| case.case == figures.case);
    let case = case.ok_or_else(|| format!("{LENGTHS} has no such case"))?;
    let lengths = case.lengths.split_whitespace().map(|length| {
        let length = length.parse::<u32>().map_err(|_| format!("`{length}` is not a length"));
        length.map(|length| length.min(figures.max_tokens))
    });
    let lengths = lengths.collect::<Result<Vec<u32>, _>>()?;
    if lengths.len() != figures.samples {
        return Err(format!("the case has {} samples", lengths.len()));
    }
    let method = Method::ALL.into_iter().find(|method| method.name() == figures.method);
    let method = method.ok_or_else(|| format!("no method `{}`", figures.method))?;
    let (model, unit) = match figures.cost.as_str() {
        "linear" => (CostModel::linear(TOKEN), TOKEN.0),
        "1.5b" => (Ok(CostModel::FIT_1_5B), 1_000_000_000),
        "7b" => (Ok(CostModel::FIT_7B), 1_000_000_000),
        other => return Err(format!("no costs `{other}`")),
    };
    let answer = || {
        let model = model?;
        let limit = u64::from(figures.max_tokens);
        let packing = Packing::new(method, &lengths, figures.devices, limit, model)?;
        let times = lengths.iter().map(|&length| model.time(length));
        let times: Vec<Nanos> = times.collect::<Result<_, _>>()?;
        let machine = Machine::new(figures.devices, 1)?;
        let collectives = match machine.step(&packing, &times, Communication::Collectives, 0) {
            Err(FsdpError::Deadlock { .. }) => None,
            step => Some(step?),
        };
        let on_demand = machine.step(&packing, &times, Communication::OnDemand, 0)?;
        let cost = |&sample: &u32| model.cost(lengths[sample as usize]);
        let load = |device: &Vec<Vec<u32>>| device.iter().flatten().map(cost).sum();
        let loads = packing.devices().iter().map(load).collect();
        Ok(Ours { packing, loads, collectives, on_demand, unit: whole(unit) })
    };
    answer().map_err(|fault: FsdpError| fault.to_string())
}

impl Figures {
    fn row(&self) -> String {
        format!("case {}, {}, {}", self.case, self.cost, self.method)
    }

    fn cells(&self, ours: &Ours) -> Result<Vec<Cell>, String> {
        let counts = ours.packing.devices().iter().map(|device| whole(device.len() as u64));
        let mut cells = self.by_device("microbatches", &self.microbatches, counts.collect())?;
        cells.extend(self.by_device("load", &self.loads, ours.loads.clone())?);
        let on_demand = Some(&ours.on_demand);
        let both = [
            ("collectives", &self.collectives, &self.bubble_collectives, ours.collectives.as_ref()),
            ("on-demand", &self.on_demand, &self.bubble_on_demand, on_demand),
        ];
        for (name, time, bubble, step) in both {
            let deadlocks = [time.is_empty(), step.is_none()].map(|none| f64::from(u8::from(none)));
            let (column, [published, ours_too]) = (format!("deadlock, {name}"), deadlocks);
            cells.push(self.cell(column, &published.to_string(), ours_too)?);
            if let (false, Some(step)) = (time.is_empty(), step) {
                let seconds = whole(step.time.0) / ours.unit;
                cells.push(self.cell(format!("step, {name}"), time, seconds)?);
                cells.push(self.cell(format!("bubble, {name}"), bubble, step.bubble_rate())?);
            }
        }
        Ok(cells)
    }

    fn by_device(&self, figure: &str, text: &str, ours: Vec<f64>) -> Result<Vec<Cell>, String> {
        let published: Vec<&str> = text.split_whitespace().collect();
        if published.len() != ours.len() {
            return Err(format!("{} figures for {} devices", published.len(), ours.len()));
        }
        let pairs = published.into_iter().zip(ours).enumerate();
        let cell = |(device, (text, ours)): (usize, (&str, f64))| {
            self.cell(format!("{figure}, device {device}"), text, ours)
        };
        pairs.map(cell).collect()
    }

    /// Whole numbers match if they are equal, others to all digits that were printed.
    fn cell(&self, column: String, text: &str, ours: f64) -> Result<Cell, String> {
        let published = cell::figure(text).ok_or_else(|| format!("`{text}` is not a number"))?;
        // Half of the last digit, and the clock's rounding of every sample.
        let half = match text.contains('.') {
            true => 0.5 * last_digit(&column, published) + 0.5e-9 * whole(self.samples as u64),
            false => 0.0,
        };
        let figure = Figure::new(self.row(), column, BASIS, published);
        let figure = figure.digits(cell::decimals(text));
        Ok(figure.rounded([published - half, published + half]).beside(ours))
    }
}

/// The worth of the last digit of a figure: bubbles have six decimals, loads six significant digits
/// and times eight, of which zeros at the end were left out.
fn last_digit(column: &str, figure: f64) -> f64 {
    let significant = match column.split_once([',', ' ']) {
        Some(("bubble", _)) => return 1e-6,
        Some(("load", _)) => 6.0,
        _ => 8.0,
    };
    10f64.powf(figure.abs().log10().floor() - significant + 1.0)
}

/// A line for a person: the times and bubbles of a plan, and how many of all its figures match.
fn row(cells: &[Cell]) -> Vec<String> {
    let show = |column: &str| {
        let cell = cells.iter().find(|cell| cell.column == column);
        cell.map_or("deadlock".to_owned(), Cell::pair)
    };
    let columns =
        ["step, collectives", "step, on-demand", "bubble, collectives", "bubble, on-demand"];
    let mut row: Vec<String> = cells.iter().take(1).map(|cell| cell.row.clone()).collect();
    row.extend(columns.map(show));
    row.push(Count::of(cells).to_string());
    row
}
