//! The gains of all combinations as a person reads them.

use question::format::{percent, signed_percent};
use question::sheet::Sheet;
use question::table;

use super::super::super::cell::Cell;
use super::super::gains;
use super::{Best, CLAIMED, Row, Rows};

pub(super) const TITLE: &str =
    "Pipelines together with tensor, context and expert parallelism: gains in throughput over 1F1B";
pub(super) const PICTURE: &str =
    "Gain over 1F1B with communication hidden in pairs, next to the same without overlap";

const REMARKS: &str = "\
Each gain is over 1F1B in the same setting, on as many devices, with passes one after the other: what a schedule
gains by itself, and what it gains where its pairs of a forward and a backward hide the communication of one
behind the compute of the other. Schedules without pairs (1f1b-i, zb-h1, zb-v) hide nothing. `pairs` are those of
the published order; in dense models too, where DualPipe's rule takes turns over the collectives of tensor and
context groups, though Megatron-LM and DualPipe have it for experts alone. They are under the contention of the
setting: hold 0.35, slow 1.31, fitted to Megatron-LM on H100 with experts (`reproduce overlap`), and assumed for
tensor groups; `ideal` is without. The settings with measured segments have none, since they were
measured together. W is delayed. A backward outside a pair overlaps its communication with its own W in the 1f1b
families, as in Megatron-LM, and not in DualPipe's, whose code runs it in one piece.
Peaks are in activations of a microbatch on one stage; dualpipe holds two copies of the weights, which no gain
counts, and a search under a memory limit may forbid what gains most.
Not in any of them: embedding and output layer, data parallelism, the optimizer, uneven experts, collectives that
Megatron-LM splits and hides within one matrix product, and everything that makes runs near the memory limit slow.
Checked are the measured gains alone: the gains of all other settings are predictions.";

/// The tables of all settings, the best combinations, and published measurements.
pub(super) fn sheet(all: &[Rows], cells: &[Cell], best: &[Best]) -> Sheet {
    let mut sheet = Sheet::default();
    for rows in all {
        sheet = sheet.and(of_setting(rows)).and_text("\n");
    }
    let best = table!(
        best = best,
        "best of all settings" = best.job,
        "setting" = best.setting,
        "schedule" = best.schedule,
        "over the best 1f1b" = signed_percent(best.cell.ours),
    );
    sheet.and(best).and_text("\n").and(measured(cells)).and_text(format!("\n{REMARKS}\n"))
}

fn of_setting(all: &Rows) -> Sheet {
    let baseline = all.baseline();
    let gain = |seconds: f64| signed_percent(baseline / seconds - 1.0);
    let pairs = |row: &Row, at: usize| row.pairs.as_ref().map(|both| gain(both[at].seconds));
    table!(
        row = &all.rows,
        (all.setting.row()) = row.entry.family.name(),
        "step apart, s" = format!("{:.3}", row.apart.seconds),
        "apart" = gain(row.apart.seconds),
        "pairs" = pairs(row, 0),
        "ideal pairs" = pairs(row, 1),
        "peak" = format!("{:.1}", row.apart.peak),
    )
}

fn measured(cells: &[Cell]) -> Sheet {
    let own = cells
        .iter()
        .filter(|cell| cell.column == gains::GAIN || cell.convention == CLAIMED.convention);
    let is_claim = |cell: &Cell| cell.convention == CLAIMED.convention;
    let gain =
        |cell: &Cell, figure: f64| percent(if is_claim(cell) { figure } else { figure - 1.0 });
    table!(
        cell = own,
        "measured by others, same parallelism" = cell.row,
        "" = if is_claim(cell) { cell.column.as_str() } else { "gain of pairs" },
        "measured" = gain(cell, cell.published),
        "ours" = match cell.ours.is_nan() {
            true => "not predicted".to_owned(),
            false => gain(cell, cell.ours),
        },
    )
}
