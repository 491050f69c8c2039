//! Figure 1: k of a layer, and what all activations on the host cost 1F1B.

use pipeline::closed_form::offload_ratio;
use pipeline::{
    CopyPart, CopyTimes, Costs, Family, Fault, Footprints, Nanos, PassTimes, Problem, Schedule,
    Shape,
};
use question::Diagnostic;
use question::sheet::Sheet;
use serde::Deserialize;

use super::super::cell::{Cell, Check};
use super::super::sources::Sources;
use super::{Simulated, held, measured, simulate, timed_as, wrong};

/// The file of its points.
pub(in super::super) const FIGURES: &str = "offload-fig1.csv";
/// The machine of the paper's formula, an A100: FLOP and bytes per second.
const MACHINE: [f64; 2] = [220e12, 15e9];
/// The pipeline that our slowdown is of: the paper does not say its own.
const STAGES: u64 = 8;
const MICROBATCHES: u64 = 64;
/// How many slots before its backward an activation is called back.
const AHEAD: u32 = 2;

#[derive(Deserialize)]
#[serde(rename_all = "kebab-case", deny_unknown_fields)]
struct Point {
    hidden: u64,
    seq: u64,
    k_printed: f64,
    /// With four decimals.
    k_formula: f64,
    slowdown_percent: f64,
}

/// k, and the slowdown with one copy stream and with one for each direction, of each point.
pub(super) fn cells(sources: &Sources) -> Result<Vec<Cell>, Diagnostic> {
    let mut cells = Vec::new();
    for point in sources.records::<Point>(FIGURES)?.1 {
        let row = format!("h={} s={}", point.hidden, point.seq);
        let [one, two] = slowdowns(&point).map_err(|fault| wrong(FIGURES, &row, &fault))?;
        let k = ratio(&point);
        let check = Check::of((k - point.k_formula).abs() <= 0.000_05);
        cells.push(Cell {
            regenerated: Some(point.k_formula),
            digits: 2,
            ..Cell::new(row.as_str(), "k", "formula 1", [point.k_printed, k], check)
        });
        for (column, ours) in [("slowdown %, one stream", one), ("slowdown %, two streams", two)] {
            let figures = [point.slowdown_percent, ours];
            cells.push(Cell { digits: 1, ..measured(&row, column, figures) });
        }
    }
    Ok(cells)
}

#[allow(clippy::cast_precision_loss)]
fn ratio(point: &Point) -> f64 {
    let [flops, bandwidth] = MACHINE;
    offload_ratio(point.hidden as f64, point.seq as f64, flops, bandwidth)
}

/// By how many percent the step of 1F1B grows if every activation that has time goes to the host, out
/// and back on one stream, or on one each.
#[allow(clippy::cast_precision_loss, clippy::cast_possible_truncation, clippy::cast_sign_loss)]
fn slowdowns(point: &Point) -> Result<[f64; 2], Fault> {
    let (h, s) = (point.hidden, point.seq);
    let shape = Shape::new(STAGES, 1, MICROBATCHES)?;
    // Zero Bubble, table 1, by b s h.
    let times = PassTimes {
        forward: Nanos(24 * h + 4 * s),
        backward_input: Nanos(24 * h + 8 * s),
        backward_weight: Nanos(24 * h),
    };
    let work = (72 * h + 12 * s) as f64;
    let way = Nanos((ratio(point) * work / 2.0).round() as u64);
    let copies = vec![CopyTimes { out: way, back: way }; usize::from(shape.chunks())];
    let costs = Costs::uniform(shape, times, Nanos(0)).with_copies(copies);
    let footprints = Footprints::uniform(shape, held(1));
    let problem = Problem::new(shape, costs.clone())?;
    let plain = simulate(Family::OneFOneB, &problem)?.makespan;
    let two = Family::OneFOneB.schedule(&problem)?.offloaded(CopyPart::WHOLE, AHEAD);
    let one = on_one_stream(&two)?;
    let slower =
        |Simulated { makespan, .. }: Simulated| 100.0 * (makespan.0 as f64 / plain.0 as f64 - 1.0);
    Ok([slower(timed_as(&one, &costs, &footprints)?), slower(timed_as(&two, &costs, &footprints)?)])
}

/// The same copies, out and back on one stream, in the order in which they may begin.
fn on_one_stream(schedule: &Schedule) -> Result<Schedule, Fault> {
    let Some(copies) = schedule.copies() else { return Ok(schedule.clone()) };
    let stages = copies.stages().iter().map(|streams| {
        let mut all: Vec<_> = streams.iter().flatten().copied().collect();
        // Of those that may begin at once, the one back is waited for sooner.
        all.sort_by_key(|op| (op.after, std::cmp::Reverse(op.way)));
        vec![all]
    });
    schedule.clone().with_copies(copies.part(), stages.collect())
}

/// One line per point.
pub(super) fn sheet(cells: &[Cell]) -> Sheet {
    let rows = cells.chunks(3).map(|three| {
        let [k, one, two] = three else { return Vec::new() };
        let sign = k.check.sign();
        let formula = k.regenerated.unwrap_or(k.published);
        vec![
            k.row.clone(),
            k.printed(k.published),
            format!("{formula:.4} {sign} {:.4}", k.ours),
            one.printed(one.published),
            one.printed(one.ours),
            two.printed(two.ours),
        ]
    });
    let header =
        ["figure 1", "k printed", "formula = ours", "slowdown %", "ours, 1 stream", "2 streams"];
    Sheet::table(&header, rows)
}
