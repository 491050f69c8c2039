//! Figure 15: activation memory of the device that holds most, and throughput over that of PO-H.

use pipeline::{
    CopyTimes, Costs, Family, Fault, Footprint, Footprints, Nanos, PassTimes, Problem, Shape,
};
use question::Diagnostic;
use question::format;
use serde::Deserialize;

use super::super::cell::Cell;
use super::super::sources::Sources;
use super::{Simulated, held, measured, simulate, wrong};
use crate::accuracy;

/// The file of its bars.
pub(in super::super) const FIGURES: &str = "offload-fig15.csv";
/// How far a simulation may lie from a figure to be called near.
const TOLERANCE: f64 = 0.1;
/// The schedule that throughputs are compared with: every setting has it.
const BASE: Family = Family::PoH;

#[derive(Deserialize)]
#[serde(rename_all = "kebab-case", deny_unknown_fields)]
struct Bar {
    model: String,
    stages: u64,
    layers: u64,
    heads: u64,
    query_groups: u64,
    hidden: u64,
    microbatches: u64,
    seq: u64,
    k: f64,
    schedule: String,
    mfu_percent: f64,
    activation_gb: f64,
}

impl Bar {
    fn setting(&self) -> String {
        format!("{} s={} k={}", self.model, self.seq, self.k)
    }

    fn row(&self) -> String {
        format!("{}, {}", self.setting(), self.schedule)
    }
}

/// Memory of each bar, and throughput where it is not that of PO-H itself.
pub(super) fn cells(sources: &Sources<'_>) -> Result<Vec<Cell>, Diagnostic> {
    let (_, bars) = sources.records::<Bar>(FIGURES)?;
    let mut cells = Vec::new();
    for bar in &bars {
        let row = bar.row();
        let fail = |fault: &dyn ToString| wrong(FIGURES, &row, &fault.to_string());
        let family = Family::named(&bar.schedule).ok_or_else(|| fail(&"no such schedule"))?;
        let ours = of_bar(family, bar).map_err(|fault| fail(&fault))?;
        let base = of_bar(BASE, bar).map_err(|fault| fail(&fault))?;
        let is_base =
            |other: &&Bar| other.setting() == bar.setting() && other.schedule == BASE.name();
        let published = bars.iter().find(is_base).ok_or_else(|| fail(&"po-h is missing"))?;
        let gigabytes = ours.peak as f64 / 1e9;
        let memory = [bar.activation_gb, gigabytes];
        cells.push(Cell { digits: 1, ..measured(&row, "activation GB", memory) });
        if family != BASE {
            let speed = base.makespan.0 as f64 / ours.makespan.0 as f64;
            let speeds = [bar.mfu_percent / published.mfu_percent, speed];
            cells.push(measured(&row, "MFU over po-h", speeds));
        }
    }
    Ok(cells)
}

/// Chunks of one layer, the first with the embedding and the last the head, which take no time and
/// keep nothing here: the figures of both are not at hand.
#[allow(clippy::cast_possible_truncation, clippy::cast_sign_loss)] // Saturates.
fn of_bar(family: Family, bar: &Bar) -> Result<Simulated, Fault> {
    let chunks = bar.layers + 2;
    let laps = family.about().chunks.of(Some(chunks / bar.stages.max(1)));
    let shape = Shape::new(bar.stages, laps, bar.microbatches)?;
    let per_chunk = usize::try_from(chunks / u64::from(shape.chunks())).unwrap_or(1).max(1);
    let layer = |at: usize| u64::from(at != 0 && at as u64 + 1 != chunks);
    let layers = |chunk: u16| {
        let first = usize::from(chunk) * per_chunk;
        (first..first + per_chunk).map(layer).sum::<u64>()
    };
    let times = |chunk: u16| {
        let (h, s, n) = (bar.hidden, bar.seq, layers(chunk));
        PassTimes {
            forward: Nanos(n * (24 * h + 4 * s)),
            backward_input: Nanos(n * (24 * h + 8 * s)),
            backward_weight: Nanos(n * 24 * h),
        }
    };
    let copy = |chunk: u16| {
        let PassTimes { forward, backward_input, backward_weight } = times(chunk);
        let work = (forward + backward_input + backward_weight).0;
        let way = Nanos((bar.k * work as f64 / 2.0).round() as u64);
        CopyTimes { out: way, back: way }
    };
    let all = 0..shape.chunks();
    let costs = Costs::new(all.clone().map(times).collect(), Nanos(0));
    let costs = costs.with_copies(all.clone().map(copy).collect());
    let kept = |chunk: u16| -> Footprint { held(layers(chunk) * layer_bytes(bar)) };
    let footprints = Footprints::new(all.map(kept).collect());
    simulate(family, &Problem::new(shape, costs)?.with_footprints(footprints)?)
}

/// The bytes that a layer keeps of one sequence: 20 s h bytes once LayerNorm, GeLU and dropout are computed
/// again, of which 4 s h are keys and values, as many as there are groups of queries.
fn layer_bytes(bar: &Bar) -> u64 {
    let shared = 4 * bar.query_groups * bar.seq * bar.hidden / bar.heads.max(1);
    16 * bar.seq * bar.hidden + shared
}

/// How well memory and throughput are met, over all bars.
pub(super) fn summary(cells: &[Cell]) -> String {
    let mut text = String::new();
    for column in ["activation GB", "MFU over po-h"] {
        let of: Vec<&Cell> = cells.iter().filter(|cell| cell.column == column).collect();
        let errors: Vec<f64> =
            of.iter().map(|cell| accuracy::error(cell.ours, cell.published)).collect();
        // Half of the last printed digit, over the figure.
        let rounding = |cell: &&&Cell| (cell.ours - cell.published).abs() <= 0.5;
        let rounded = match column {
            "activation GB" => {
                let rounded = of.iter().filter(rounding).count();
                format!(", {rounded} within what rounding to whole GB hides")
            }
            _ => String::new(),
        };
        let near = errors.iter().filter(|error| error.abs() <= TOLERANCE).count();
        text += &format!(
            "{column}: not checked; mean absolute error {}, {near} of {} within {}{rounded}\n",
            format::percent(accuracy::mean_absolute(&errors)),
            of.len(),
            format::percent(TOLERANCE),
        );
    }
    text
}
