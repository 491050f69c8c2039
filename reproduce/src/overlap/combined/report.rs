//! The gains of all combinations as a person reads them.

use question::format::{percent, signed_percent};
use question::sheet::Sheet;

use super::super::super::cell::Cell;
use super::super::gains;
use super::{Best, CLAIMED, Rows};

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
    let best = best.iter().map(|best| {
        let gain = signed_percent(best.cell.ours);
        vec![best.job.clone(), best.setting.clone(), best.schedule.clone(), gain]
    });
    let header = ["best of all settings", "setting", "schedule", "over the best 1f1b"];
    sheet
        .and(Sheet::table(&header, best))
        .and_text("\n")
        .and(measured(cells))
        .and_text(format!("\n{REMARKS}\n"))
}

fn of_setting(all: &Rows) -> Sheet {
    let baseline = all.baseline();
    let gain = |seconds: f64| signed_percent(baseline / seconds - 1.0);
    let rows = all.rows.iter().map(|row| {
        let [pairs, ideal] = match &row.pairs {
            Some(both) => [&both[0], &both[1]].map(|one| gain(one.seconds)),
            None => ["-".to_owned(), "-".to_owned()],
        };
        vec![
            row.entry.family.name().to_owned(),
            format!("{:.3}", row.apart.seconds),
            gain(row.apart.seconds),
            pairs,
            ideal,
            format!("{:.1}", row.apart.peak),
        ]
    });
    let row = all.setting.row();
    let header = [row.as_str(), "step apart, s", "apart", "pairs", "ideal pairs", "peak"];
    Sheet::table(&header, rows)
}

fn measured(cells: &[Cell]) -> Sheet {
    let own = cells
        .iter()
        .filter(|cell| cell.column == gains::GAIN || cell.convention == CLAIMED.convention);
    let rows = own.map(|cell| {
        let is_claim = cell.convention == CLAIMED.convention;
        let gain = |figure: f64| if is_claim { figure } else { figure - 1.0 };
        let ours = match cell.ours.is_nan() {
            true => "not predicted".to_owned(),
            false => percent(gain(cell.ours)),
        };
        let what = if is_claim { cell.column.as_str() } else { "gain of pairs" };
        vec![cell.row.clone(), what.to_owned(), percent(gain(cell.published)), ours]
    });
    Sheet::table(&["measured by others, same parallelism", "", "measured", "ours"], rows)
}
