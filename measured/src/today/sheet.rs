//! Report of today's runs beside their rows and bars.

use std::collections::BTreeMap;

use question::sheet::Sheet;
use question::{format, table};

use super::Today;
use super::figures::Errors;

const HELD_OUT: &str = "\
Held out: in ten folds by configuration, never by row, every step is predicted with constants that were
fitted to the other nine; the median of five shuffles (seeds 0 to 4). Repeats of a configuration are never
on both sides. What a table does not say of its runs is assumed (measured/src/today/assumptions.rs).
For comparison, the published claims for one machine and software each: SimuMax 5.6 %, Calculon 3.65 %, SimAI 1.9 %.";

const CALIBRATED: &str = "\
After calibration: each step is predicted once for each other layout of the same model, machine and number
format, on a machine that is calibrated by this layout alone; blind, with constants fitted without the model.";

/// The errors by kind of row, the constants, the rows set apart with the reasons, and the claims of
/// other planners.
pub(super) fn sheet(today: &Today) -> Sheet {
    let percents = |errors: &Errors| {
        let percents = [errors.mean, errors.p90, errors.max].map(format::percent);
        (errors.rows > 0).then(|| percents.join(", "))
    };
    let kinds = table!(
        one = &today.figures,
        "today's runs, step" = one.name,
        "rows" = one.in_sample.rows,
        "configurations" = one.configurations,
        "in sample: mean, 90 %, max" = percents(&one.in_sample),
        "held out: mean, 90 %, max" = percents(&one.held_out),
        "with those set apart" = one.with_apart.rows,
        "in sample: mean, 90 %, max" = percents(&one.with_apart),
        "floor" = format::percent(one.floor.mean),
    );
    let constants = table!(
        one = &today.constants,
        "constant" = one.name,
        "drawn to" = significant(one.prior),
        "in use" = significant(one.in_use),
        "fitted to all" = significant(one.fitted),
        "moved" = format::signed_percent(one.moved()),
    );
    // Means of absolute errors.
    let by_source = table!(
        (source, [blind, calibrated], pairs) = &today.by_source,
        "other layouts, step" = source,
        "pairs" = pairs,
        "blind" = format::percent(*blind),
        "calibrated" = format::percent(*calibrated),
    );
    let network = &today.own_network;
    kinds
        .under_a_gap()
        .and_text(format!("\n{HELD_OUT}\n\n{}\n", set_apart(today)))
        .and(constants)
        .and_text(format!("\n{CALIBRATED}\n\n"))
        .and(by_source)
        .and_text(format!("\n{}\n\n", network.in_words()))
        .and(network.table())
}

fn significant(value: f64) -> String {
    match value {
        large if large >= 1000.0 => format!("{large:.3e}"),
        small if small < 0.1 => format!("{small:.5}"),
        other => format!("{other:.4}"),
    }
}

/// Every reason for which rows are set apart, with their places.
fn set_apart(today: &Today) -> String {
    let mut reasons: BTreeMap<&str, Vec<&str>> = BTreeMap::new();
    for one in &today.apart {
        reasons.entry(&one.reason).or_default().push(&one.place);
    }
    let line =
        |(reason, places): (&&str, &Vec<&str>)| format!("  {reason}: {}\n", places.join(", "));
    let lines: String = reasons.iter().map(line).collect();
    format!("Set apart, {} rows:\n{lines}", today.apart.len())
}
