//! The measurements, as tables and JSON, with their verdicts.

use std::io::Write;

use calibrate::calibration::{Checked, Outcome};
use calibrate::{machine, measure};
use draw::text;
use pipeline::{Bytes, Nanos};
use profile::{Link, Profile, Quantity, Verdict};
use question::{format, table};
use serde::Serialize;

use crate::commands::{note, print_json};
use crate::error::Error;

/// A quantity as both forms need it.
struct Row<'a> {
    name: String,
    quantity: &'a Quantity,
    gflops: Option<f64>,
}

fn rows(outcome: &Outcome) -> Vec<Row<'_>> {
    let Outcome { profile, nothing, launch, peak: (peak, peak_operations), .. } = outcome;
    let row = |name: &str, quantity, operations: Option<f64>| Row {
        name: name.to_owned(),
        quantity,
        gflops: operations.and_then(|count| gflops(count, Quantity::median(quantity))),
    };
    let mut rows = vec![
        row("clock, taken off", nothing, None),
        row("square product", peak, Some(*peak_operations as f64)),
    ];
    rows.extend(launch.as_ref().map(|launch| row("launch of a kernel", launch, None)));
    let quantities = profile.quantities().into_iter();
    rows.extend(quantities.map(|(name, one)| row(name, one, operations(profile, name))));
    rows
}

/// Billions of floating-point operations per second.
fn gflops(operations: f64, time: Nanos) -> Option<f64> {
    (time.0 > 0).then(|| operations / time.0 as f64)
}

/// The number of operations known to be computed in each quantity of a profile.
fn operations(profile: &Profile, name: &str) -> Option<f64> {
    let model = profile.model.one_layer();
    let [forward, backward_input, backward_weight] = measure::layer_operations(model);
    match name {
        "layer F" => Some(forward),
        "layer B" => Some(backward_input),
        "layer W" => Some(backward_weight),
        "head F" | "head B" | "head W" => Some(measure::head_operations(model)),
        _ => None,
    }
}

/// The fit of a link in words.
fn fit(link: &Link) -> Option<String> {
    let fit = link.fit()?;
    let latency = format::time(Nanos(fit.latency));
    let bandwidth = fit.bandwidth().filter(|_| link.kind.moves_bytes());
    let bandwidth = bandwidth.map_or_else(
        || "at any size".to_owned(),
        |bytes| format!("+ size / {:.2} GB/s", bytes / 1e9),
    );
    let worst = fit.worst_per_mille as f64 / 10.0;
    Some(format!("{}: {latency} {bandwidth}, at worst {worst:.1} % off", link.kind.name()))
}

/// The speed of the square product.
fn peak(outcome: &Outcome) -> Option<f64> {
    gflops(outcome.peak.1 as f64, outcome.peak.0.median())
}

fn interval(quantity: &Quantity) -> String {
    let ends = quantity.summary().interval;
    ends.map_or("-".to_owned(), |(low, high)| {
        format!("{} .. {}", format::time(Nanos(low)), format::time(Nanos(high)))
    })
}

/// Prints tables.
pub(super) fn tables(out: &mut dyn Write, outcome: &Outcome) -> Result<(), Error> {
    let half_width = outcome.profile.half_width;
    let best = peak(outcome);
    let kernels = table!(
        (summary, row) = rows(outcome).into_iter().map(|row| (row.quantity.summary(), row)),
        "kernels" = row.name,
        "median" = row.quantity.median(),
        "95 % interval" = interval(row.quantity),
        "samples" = summary.samples,
        "outliers" = summary.outliers,
        "verdict" = row.quantity.verdict(half_width).to_string(),
        "GFLOP/s" = row.gflops.map(|speed| format!("{speed:.1}")),
        "of peak" = row.gflops.zip(best).map(|(own, best)| format::percent(own / best)),
    );
    write!(out, "{}", text::sheet(&kernels))?;
    let optimizer = &outcome.profile.optimizer;
    let (each, count) = (optimizer.per_parameter(), optimizer.parameters);
    writeln!(out, "optimizer: {each:.3} ns for each of {count} parameters")?;
    links(out, outcome)?;
    let checks = table!(
        check = &outcome.checks,
        "stage alone" = format!("{} of 2", check.stage),
        "layers" = check.layers,
        "pass" = check.pass,
        "predicted" = check.predicted,
        "measured" = check.measured.median(),
        "95 % interval" = interval(&check.measured),
        "off" = format::signed_percent(off(check)),
    );
    Ok(write!(out, "\n{}", text::sheet(&checks))?)
}

fn links(out: &mut dyn Write, outcome: &Outcome) -> Result<(), Error> {
    let profile = &outcome.profile;
    if profile.links.is_empty() {
        return Ok(());
    }
    let messages = profile.links.iter().flat_map(|link| {
        link.messages.iter().map(move |message| (link, message, message.time.summary()))
    });
    let rows = table!(
        (link, message, summary) = messages,
        "links" = link.kind.name(),
        "message" = Bytes(message.bytes),
        "pairs" = message.pairs,
        "at once" = if message.both_ways { "both ways" } else { "one way" },
        "median" = message.time.median(),
        "95 % interval" = interval(&message.time),
        "samples" = summary.samples,
        "outliers" = summary.outliers,
        "verdict" = message.time.verdict(profile.half_width).to_string(),
        "GB/s" = gflops(message.bytes as f64, message.time.median())
            .filter(|_| link.kind.moves_bytes())
            .map(|speed| format!("{speed:.2}")),
    );
    write!(out, "\n{}", text::sheet(&rows))?;
    for line in profile.links.iter().filter_map(fit) {
        writeln!(out, "{line}")?;
    }
    Ok(())
}

/// The prediction over the measurement, less 1.
fn off(check: &Checked) -> f64 {
    check.predicted.0 as f64 / (check.measured.median().0.max(1)) as f64 - 1.0
}

#[derive(Serialize)]
struct Json<'a> {
    quantities: Vec<JsonQuantity<'a>>,
    links: Vec<JsonMessage<'a>>,
    checks: Vec<JsonCheck>,
}

#[derive(Serialize)]
struct JsonQuantity<'a> {
    name: &'a str,
    #[serde(flatten)]
    time: JsonTime,
    gflops: Option<f64>,
    share_of_peak: Option<f64>,
}

#[derive(Serialize)]
struct JsonTime {
    median_ns: u64,
    low_ns: Option<u64>,
    high_ns: Option<u64>,
    fastest_ns: Option<u64>,
    samples: usize,
    outliers: usize,
    verdict: String,
}

#[derive(Serialize)]
struct JsonMessage<'a> {
    link: &'a str,
    bytes: u64,
    pairs: u64,
    both_ways: bool,
    #[serde(flatten)]
    time: JsonTime,
}

#[derive(Serialize)]
struct JsonCheck {
    stage: usize,
    layers: usize,
    pass: &'static str,
    predicted_ns: u64,
    measured: JsonTime,
    error: f64,
}

impl JsonTime {
    fn of(quantity: &Quantity, half_width: f64) -> Self {
        let summary = quantity.summary();
        let (low_ns, high_ns) = summary.interval.unzip();
        Self {
            median_ns: summary.median,
            low_ns,
            high_ns,
            fastest_ns: quantity.samples().iter().min().copied(),
            samples: summary.samples,
            outliers: summary.outliers,
            verdict: quantity.verdict(half_width).to_string(),
        }
    }
}

/// Prints one JSON object.
pub(super) fn json(out: &mut dyn Write, outcome: &Outcome) -> Result<(), Error> {
    let (profile, best) = (&outcome.profile, peak(outcome));
    let half_width = profile.half_width;
    let rows = rows(outcome);
    let quantities = rows.iter().map(|row| JsonQuantity {
        name: &row.name,
        time: JsonTime::of(row.quantity, half_width),
        gflops: row.gflops,
        share_of_peak: row.gflops.zip(best).map(|(own, best)| own / best),
    });
    let links = profile.links.iter().flat_map(|link| {
        link.messages.iter().map(|one| JsonMessage {
            link: link.kind.name(),
            bytes: one.bytes,
            pairs: one.pairs,
            both_ways: one.both_ways,
            time: JsonTime::of(&one.time, half_width),
        })
    });
    let checks = outcome.checks.iter().map(|check| JsonCheck {
        stage: check.stage,
        layers: check.layers,
        pass: check.pass,
        predicted_ns: check.predicted.0,
        measured: JsonTime::of(&check.measured, half_width),
        error: off(check),
    });
    let (quantities, links) = (quantities.collect(), links.collect());
    print_json(out, &Json { quantities, links, checks: checks.collect() })
}

/// Prints on stderr the doubts about the figures, and cures.
pub(super) fn advise(outcome: &Outcome, load: Option<f64>, pin_failed: bool) {
    if pin_failed {
        note("threads could not be pinned to cores: the system does not allow it");
    }
    if let Some(load) = load.filter(|&load| load > 0.5) {
        note(&format!(
            "the machine was busy before (load {load:.2}): close other programs for figures to keep"
        ));
    }
    if machine::is_virtual() {
        note("the processor is virtual: others may share it, and no clock says so");
    }
    if let Some(rule) = machine::governor().filter(|rule| rule != "performance") {
        note(&format!(
            "the clock of the processor follows the load (governor {rule}): \
             `cpupower frequency-set -g performance` keeps it"
        ));
    }
    let half_width = outcome.profile.half_width;
    let verdicts = outcome.profile.quantities().map(|(name, one)| (name, one.verdict(half_width)));
    let shaky = |wanted: fn(&Verdict) -> bool| {
        let names = verdicts.iter().filter(|(_, verdict)| wanted(verdict)).map(|(name, _)| *name);
        names.collect::<Vec<_>>().join(", ")
    };
    let advice = [
        (
            shaky(|verdict| matches!(verdict, Verdict::TooFew { .. } | Verdict::Wide { .. })),
            "not narrow enough: give more time, --max-time or --effort thorough",
        ),
        (
            shaky(|verdict| matches!(verdict, Verdict::Drifting { .. })),
            "changed while they were measured: wait until the machine is quiet and warm",
        ),
        (
            shaky(|verdict| matches!(verdict, Verdict::Scattered { .. })),
            "have two speeds: other programs, or cores of two kinds (--pin)",
        ),
    ];
    for (names, advice) in advice.iter().filter(|(names, _)| !names.is_empty()) {
        note(&format!("{names}: {advice}"));
    }
    let worst = outcome.checks.iter().map(off).max_by(|a, b| a.abs().total_cmp(&b.abs()));
    if let Some(worst) = worst.filter(|worst| worst.abs() > 0.1) {
        let worst = format::signed_percent(worst);
        note(&format!(
            "parts and whole stages differ by up to {worst}: repeat it on a quiet machine"
        ));
    }
}
