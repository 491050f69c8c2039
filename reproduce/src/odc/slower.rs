//! Where on-demand communication is slower: measurements on MI300X, from 0.78 to 1.20 times as fast as
//! collectives, contradict that it is always faster.

use fsdp::{FsdpError, Lengths, Links, Machine};
use pipeline::Nanos;
use question::sheet::Sheet;
use question::{Diagnostic, table};

use super::super::cell::{Basis, Cell, Figure};
use super::super::check::{Check, Evidence};
use super::super::claims::Claims;
use super::super::sheets;
use super::super::sources::Sources;
use super::machines::{Model, Models, cost_model, rate, wrong};
use super::trials::{MINI, Trials};
use super::{MODELS, Part};

/// Of an MI300X: seven links to its neighbours, each of so many bytes per second and direction.
const LINK: u64 = 64_000_000_000;
const NEIGHBOURS: u64 = 7;
/// Ratio of its peak in bf16 to that of an A100: 1307 and 312 TFLOP/s.
const FASTER: f64 = 1307.0 / 312.0;
/// The model of ODC's golden setting.
const MODEL: &str = "1.5b";
const DEVICES: usize = 8;
/// Samples of a minibatch per device.
const SIZE: u64 = 4;
/// Lengths of samples that are all equal, in tokens.
const EQUAL: [u32; 5] = [2_000, 4_000, 8_000, 16_000, 32_000];

/// Measurements of which models and lengths are not published: ours must be on the same side of 1.
const SLOWER: Basis = Basis::new("measured, direction only", Evidence::Inequality, Check::Below);
const FASTER_THAN: Basis =
    Basis::new("measured, direction only", Evidence::Inequality, Check::Above);
const FIGURE: Basis = Basis::not_checked("not checked: setting not published");

/// On-demand communication over one kind of lengths.
struct Row {
    lengths: String,
    /// Speed-ups over collectives, with pulls from one owner after the other, and with pulls at the
    /// full rate of a port.
    speedups: [f64; 2],
    step: Nanos,
}

/// The direction of both ends of the measurements.
pub(super) fn part(sources: &Sources<'_>, claims: &Claims) -> Result<Part, Diagnostic> {
    let models = Models::read(sources)?;
    let [least, most] = [claims.named("mi300x-least")?, claims.named("mi300x-most")?];
    let rows = rows(&models).map_err(|fault| wrong(MODELS, MODEL, &fault))?;
    let all = || rows.iter().map(|row| row.speedups[0]);
    let ours = [all().fold(f64::MAX, f64::min), all().fold(0.0, f64::max)];
    let ends = [("slowest: equal short samples", SLOWER), ("fastest: long tail", FASTER_THAN)];
    let mut cells = Vec::new();
    for (((end, basis), published), ours) in ends.into_iter().zip([least, most]).zip(ours) {
        let column = format!("{end}, over collectives");
        cells.push(Figure::new("MI300X", column, basis, 1.0).digits(2).beside(ours));
        let figure = Figure::new("MI300X", end, FIGURE, published);
        cells.push(figure.digits(2).beside(ours));
    }
    Ok(Part { cells, sheet: Box::new(move |cells| sheet(&rows, cells)) })
}

fn rows(models: &Models) -> Result<Vec<Row>, FsdpError> {
    let Some(model) = models.named(MODEL) else { return Ok(Vec::new()) };
    let mut all = Vec::new();
    for length in EQUAL {
        all.push((format!("all {length} tokens"), Lengths::uniform(length, length)?));
    }
    all.push(("long tail, 8000 to 64000".to_owned(), Lengths::LONG_CONTEXT));
    all.into_iter().map(|(name, lengths)| row(name, &lengths, models, model)).collect()
}

fn row(name: String, lengths: &Lengths, models: &Models, model: &Model) -> Result<Row, FsdpError> {
    let with = |pull: Option<u64>| {
        let trials = Trials {
            machine: mi300x(model, pull)?,
            lengths: lengths.clone(),
            model: cost_model(models.costs(model), FASTER)?,
            minibatch: SIZE,
        };
        let outcome = trials.run(&[MINI])?.into_iter().next();
        outcome.ok_or(FsdpError::Overflow)
    };
    let (pulls, ports) = (with(Some(LINK))?, with(None)?);
    Ok(Row { lengths: name, speedups: [pulls.speedup, ports.speedup], step: pulls.step })
}

/// A node of MI300X: a ring keeps all links of a device busy, a pull one of them.
fn mi300x(model: &Model, pull: Option<u64>) -> Result<Machine, FsdpError> {
    let links = Links {
        bandwidth: rate(NEIGHBOURS * LINK)?,
        latency: Nanos(10_000),
        parameters: model.bytes(),
        owners: None,
        pull_bandwidth: pull.map(rate).transpose()?,
        nodes: None,
        overlap: true,
    };
    Machine::new(DEVICES, u64::from(model.layers))?.with_links(links)
}

const NOTES: &str = "
Eight MI300X, ODC's 1.5B fit divided by the ratio of the peaks (4.19), seven links of 64 GB/s each (data
sheet; nothing fitted): lb-mini on demand over lb-micro with collectives. Where samples are equal, nothing
is won by waiting less, and a pull from one owner after the other has a seventh of what a ring has: short
samples do not hide it, and on-demand communication is slower. With pulls from all owners at once it is
not. The measurements' models and lengths were not available: their direction is checked, not their figures.";

fn sheet(rows: &[Row], cells: &[Cell]) -> Sheet {
    let speedup = |speedup: f64| format!("{speedup:.3}");
    let table = table!(
        row = rows,
        "when on-demand is slower (MI300X)" = row.lengths,
        "step" = row.step,
        "speed-up" = speedup(row.speedups[0]),
        "owners at once" = speedup(row.speedups[1]),
    );
    table
        .and_text("\n")
        .and(sheets::compared("speed-up", cells.iter()))
        .and_text(format!("{NOTES}\n"))
}
