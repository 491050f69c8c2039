//! Figure 15: activation memory of the device that holds most, and throughput over that of PO-H.
//!
//! The figure prints k with one decimal; figure 1 prints the same k with two, which are used: 0.7 is
//! 0.72, at which PO-F holds 5 activations of a layer rather than 4.

use pipeline::{
    CopyTimes, Costs, Family, Fault, Footprint, Footprints, Nanos, PassTimes, Problem, Shape,
};
use question::Diagnostic;
use serde::Deserialize;

use super::super::cell::{Basis, Cell, Figure, ratio_rounding};
use super::super::check::{Check, Evidence};
use super::super::picture::{Grid, Picture, Place, PlacePair, Places};
use super::super::sources::Sources;
use super::{Simulated, fig1, held, simulate, wrong};
use measured::papers::pipeoffload::layer_bytes;

pub(in super::super) const FIGURES: &str = "offload-fig15.csv";
/// Half of the last printed digit of memory in GB, and of MFU in percent.
const HALF_DIGIT: f64 = 0.5;
const MEMORY: &str = "activation GB";
const SPEED: &str = "MFU over po-h";
const OF_MEMORY: Basis = Basis::new("measured", Evidence::HeldOut, Check::BeyondRounding(0.05));
const OF_SPEED: Basis = Basis::new("measured", Evidence::HeldOut, Check::GainOfRatio);
const GIB_OF_GB: f64 = 1e9 / (1u64 << 30) as f64;

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
    /// k with two decimals, as figure 1 prints it.
    #[serde(skip)]
    precise_k: f64,
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
    let bars = bars(sources)?;
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
        let gb = bar.activation_gb;
        let memory = Figure::new(row.as_str(), MEMORY, OF_MEMORY, gb).digits(1);
        cells.push(memory.rounded([gb - HALF_DIGIT, gb + HALF_DIGIT]).beside(gigabytes));
        if family != BASE {
            let speed = base.makespan.0 as f64 / ours.makespan.0 as f64;
            let both = [bar.mfu_percent, published.mfu_percent];
            let figure = Figure::new(row, SPEED, OF_SPEED, both[0] / both[1]).digits(3);
            cells.push(figure.rounded(ratio_rounding(both, [HALF_DIGIT; 2])).beside(speed));
        }
    }
    Ok(cells)
}

/// The bars, each with k as figure 1 prints it.
fn bars(sources: &Sources<'_>) -> Result<Vec<Bar>, Diagnostic> {
    let (_, mut bars) = sources.records::<Bar>(FIGURES)?;
    let ratios = fig1::printed_ratios(sources)?;
    for bar in &mut bars {
        let of = |(at, _): &&([u64; 2], f64)| *at == [bar.hidden, bar.seq];
        let known = ratios.iter().find(of).map(|&(_, k)| k);
        let agrees = |k: &f64| (10.0 * k).round() == (10.0 * bar.k).round();
        bar.precise_k = known.filter(agrees).ok_or_else(|| {
            wrong(FIGURES, &bar.row(), &"figure 1 prints no k that rounds to this one")
        })?;
    }
    Ok(bars)
}

/// Chunks of one layer, the first with the embedding and the last the head, which take no time and
/// keep nothing here: the figures of both are not available.
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
        PassTimes::new(Nanos(n * (24 * h + 4 * s)), Nanos(n * (24 * h + 8 * s)), Nanos(n * 24 * h))
    };
    let copy = |chunk: u16| {
        let PassTimes { forward, backward_input, backward_weight, .. } = times(chunk);
        let work = (forward + backward_input + backward_weight).0;
        let way = Nanos((bar.precise_k * work as f64 / 2.0).round() as u64);
        CopyTimes { out: way, back: way }
    };
    let all = 0..shape.chunks();
    let costs = Costs::new(all.clone().map(times).collect(), Nanos(0));
    let costs = costs.with_copies(all.clone().map(copy).collect());
    let layer = layer_bytes(bar.hidden, bar.heads, bar.query_groups, bar.seq);
    let kept = |chunk: u16| -> Footprint { held(layers(chunk) * layer) };
    let footprints = Footprints::new(all.map(kept).collect());
    simulate(family, &Problem::new(shape, costs)?.with_footprints(footprints)?)
}

/// Where ours are from.
pub(super) const NOTES: &str = "\
nothing was fitted to figure 15; the order of its columns was inferred; k has the two decimals of figure 1
";

/// Memory against throughput: a panel for each setting, a point for each schedule.
pub(super) fn picture(title: &str, cells: &[Cell]) -> Picture {
    let own: Vec<&Cell> =
        cells.iter().filter(|cell| [MEMORY, SPEED].contains(&cell.column.as_str())).collect();
    let parts = |cell: &Cell| cell.row.split_once(", ").map(|(a, b)| (a.to_owned(), b.to_owned()));
    let mut panels: Vec<(String, Places)> = Vec::new();
    let series = super::super::picture::distinct(
        own.iter().filter_map(|cell| cell.row.split_once(", ").map(|(_, schedule)| schedule)),
    );
    for memory in own.iter().filter(|cell| cell.column == MEMORY) {
        let Some((setting, schedule)) = parts(memory) else { continue };
        let speed = own.iter().find(|cell| cell.column == SPEED && cell.row == memory.row);
        // Throughput is over that of PO-H.
        let [there, here] = speed.map_or([1.0; 2], |cell| [cell.published, cell.ours]);
        let point = PlacePair {
            ours: Place { x: memory.ours * GIB_OF_GB, y: here },
            published: Place { x: memory.published * GIB_OF_GB, y: there },
        };
        if panels.last().is_none_or(|(last, _)| *last != setting) {
            panels.push((setting.clone(), Places { title: setting, points: Vec::new() }));
        }
        let at = series.iter().position(|name| *name == schedule).unwrap_or_default();
        if let Some((_, places)) = panels.last_mut() {
            places.points.push((at, point));
        }
    }
    Picture::Comparison(Grid {
        title: title.to_owned(),
        x_label: "activations of the fullest device, in GiB (s: tokens of a sample; k: time of copies to the host and \
                  back over that of compute)"
            .to_owned(),
        y_label: "MFU over that of po-h".to_owned(),
        series,
        panels: panels.into_iter().map(|(_, places)| places).collect(),
    })
}
