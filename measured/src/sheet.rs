//! Predictions beside measurements, as a person reads them.

use std::collections::BTreeSet;

use question::sheet::Sheet;
use question::{format, table};

use super::set_errors::SetErrors;
use super::{Row, Validated, ValidatedSet, coverage, sets};

/// Sets of at most this many rows are shown whole, others by their worst rows.
const WHOLE: usize = 64;
/// The number of the worst rows.
const WORST: usize = 12;

const KINDS: &str = "\
The error of a planned step is the interval that holds 95 % of runs: Student's t over the measured
configurations of its kind, of fewer than eight over those of its generation of devices, each predicted without
its source; wider for longer sequences, more devices, other precisions and devices than were measured. The kinds:";

/// Every set, then all bars, then the errors by kind.
pub(super) fn sheet(validated: &Validated) -> Sheet {
    let sets = &validated.sets;
    let predictions = sets.iter().map(predictions).fold(Sheet::default(), Sheet::and);
    let known = sets.iter().flat_map(|one| &one.kinds).chain(&validated.recorded);
    let known: Vec<SetErrors> = known.cloned().collect();
    let sheet = predictions.and(bars(sets));
    let sheet = sheet.and(coverage::sheet(sets));
    let sheet = validated.today.iter().fold(sheet, |sheet, today| sheet.and(today.sheet()));
    sheet.and_text(format!("\n{}\n{}\n", kinds(&known), sets::WEAK))
}

/// The rows of a set, or the worst of many; of a set that has none, nothing.
fn predictions(one: &ValidatedSet) -> Sheet {
    if one.rows.is_empty() {
        return Sheet::default();
    }
    let mut head = format!("{}\n", one.set);
    for kind in &one.kinds {
        head += &format!("  {} rows of the kind {}\n", kind.rows, kind.kind);
    }
    let mut rows: Vec<&Row> = one.rows.iter().collect();
    if rows.len() > WHOLE {
        let all = rows.len();
        rows.sort_by(|a, b| b.error.abs().total_cmp(&a.error.abs()));
        rows.truncate(WORST);
        head += &format!("the {WORST} worst of {all} rows:\n");
    }
    let table = table!(
        row = rows,
        "run" = format!("{}{}", row.run, if row.apart.is_some() { ", set apart" } else { "" }),
        "quantity" = row.quantity,
        "measured" = format!("{:.3}", row.measured),
        "predicted" = format!("{:.3}", row.predicted),
        "error" = format::signed_percent(row.error),
    );
    Sheet::default().and_text(head).and(table).and_text("\n")
}

fn bars(sets: &[ValidatedSet]) -> Sheet {
    let bars = sets.iter().flat_map(|one| one.bars.iter().map(move |bar| (one.set, bar)));
    table!(
        (set, bar) = bars,
        "set" = set,
        "quantity" = bar.quantity,
        "rows" = bar.rows,
        "mean" = format::percent(bar.mean),
        "allowed" = bar.allowed_mean.map(format::percent),
        "90 %" = bar.p90.map(format::percent),
        "allowed" = bar.allowed_p90.map(format::percent),
        "max" = format::percent(bar.max),
        "allowed" = bar.allowed_max.map(format::percent),
        "holds" = if bar.holds { "yes" } else { "NO" },
    )
}

/// The error bar of each kind, from `sets`.
fn kinds(sets: &[SetErrors]) -> String {
    let kinds: BTreeSet<&str> = sets.iter().map(|set| set.kind.as_str()).collect();
    let mut text = format!("{KINDS}\n");
    for kind in kinds {
        text += &format!("{kind}\n");
        for set in sets.iter().filter(|set| set.kind == kind) {
            let [mean, error, max] = [set.mean, set.error, set.max].map(format::percent);
            let held_out = set.held_out_mean.map_or_else(|| "-".to_owned(), format::percent);
            let SetErrors { set, rows, fitted, shortest, longest, .. } = set;
            text += &format!(
                "  {set}: {rows} rows, {fitted} fitted; {shortest:.2} to {longest:.2} times as long
    mean {mean}, of those not fitted {held_out}; 95 % within {error}, largest {max}\n"
            );
        }
    }
    text
}
