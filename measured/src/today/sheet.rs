//! Report of today's runs beside their rows and bars.

use std::collections::BTreeMap;

use question::format;
use question::sheet::Sheet;

use super::Today;
use super::figures::{Errors, Figures};
use super::own_network::OwnNetwork;

const HELD_OUT: &str = "\
Held out: in ten folds by configuration, never by row, every step is predicted with constants that were
fitted to the other nine; the median of five shuffles (seeds 0 to 4). Repeats of a configuration are never
on both sides. What a table does not say of its runs is assumed (measured/src/today/assumptions.rs).
For comparison, the published claims for one machine and software each: SimuMax 5.6 %, Calculon 3.65 %, SimAI 1.9 %.";

const CALIBRATED: &str = "\
After calibration: each step is predicted once for each other layout of the same model, machine and number
format, on a machine that is calibrated by this layout alone; blind, with constants fitted without the model.";

/// The columns of the table of calibrated errors: means of absolute errors.
const BY_SOURCE: [&str; 4] = ["other layouts, step", "pairs", "blind", "calibrated"];

/// The errors by kind of row, the constants, the rows set apart with the reasons, and the claims of
/// other planners.
pub(super) fn sheet(today: &Today) -> Sheet {
    let figures = today.figures.iter().map(|one| {
        let Figures { name, configurations, in_sample, held_out, with_apart, floor } = one;
        let percents = |errors: &Errors| {
            let percents = [errors.mean, errors.p90, errors.max].map(format::percent);
            if errors.rows == 0 { "-".to_owned() } else { percents.join(", ") }
        };
        vec![
            (*name).to_owned(),
            in_sample.rows.to_string(),
            configurations.to_string(),
            percents(in_sample),
            percents(held_out),
            with_apart.rows.to_string(),
            percents(with_apart),
            format::percent(floor.mean),
        ]
    });
    let kinds = [
        "today's runs, step",
        "rows",
        "configurations",
        "in sample: mean, 90 %, max",
        "held out: mean, 90 %, max",
        "with those set apart",
        "in sample: mean, 90 %, max",
        "floor",
    ];
    let constants = today.constants.iter().map(|one| {
        let numbers = [one.prior, one.in_use, one.fitted].map(significant);
        let [prior, in_use, fitted] = numbers;
        vec![one.name.to_owned(), prior, in_use, fitted, format::signed_percent(one.moved())]
    });
    let header = ["constant", "drawn to", "in use", "fitted to all", "moved"];
    let text = format!("\n{HELD_OUT}\n\n{}\n", set_apart(today));
    let sheet = Sheet::default().and_text("\n").and_table(&kinds, figures);
    let sheet = sheet.and_text(text).and_table(&header, constants);
    let sheet =
        sheet.and_text(format!("\n{CALIBRATED}\n\n")).and_table(&BY_SOURCE, by_source(today));
    let network = &today.own_network;
    sheet
        .and_text(format!("\n{}\n\n", network.in_words()))
        .and_table(&OwnNetwork::COLUMNS, network.lines())
}

/// The lines of the table of calibrated errors.
fn by_source(today: &Today) -> Vec<Vec<String>> {
    let line = |(source, [blind, calibrated], pairs): &(&str, [f64; 2], usize)| {
        let errors = [*blind, *calibrated].map(format::percent);
        [(*source).to_owned(), pairs.to_string()].into_iter().chain(errors).collect()
    };
    today.by_source.iter().map(line).collect()
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
