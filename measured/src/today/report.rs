//! The study as sets with bars, in the form of all measurements.

use plan::Precision;

use super::super::error_bar::by_kind;
use super::super::quantities::{PEAK, TIME};
use super::super::{Bar, Row, Step, ValidatedSet};
use super::figures::{
    Errors, Pairs, RowKind, floor, held_out, in_sample, ranked, ranked_held_out, without,
};
use super::published::Source;
use super::row::Run;
use super::study::{Outcome, Refitted, Study};
use crate::accuracy;

/// The name of the set that has the bars over all rows.
pub(in super::super) const ALL_ROWS: &str = "today, all rows";
/// The most constants that may be fitted.
const MOST_CONSTANTS: usize = 40;

/// The largest errors that are allowed, if they are limited.
#[derive(Clone, Copy, Default)]
struct Allowed {
    mean: Option<f64>,
    p90: Option<f64>,
    max: Option<f64>,
}

const fn mean(mean: f64) -> Allowed {
    Allowed { mean: Some(mean), p90: None, max: None }
}

const fn most(max: f64) -> Allowed {
    Allowed { mean: None, p90: None, max: Some(max) }
}

impl Allowed {
    const fn p90(self, p90: f64) -> Self {
        Self { p90: Some(p90), ..self }
    }

    const fn max(self, max: f64) -> Self {
        Self { max: Some(max), ..self }
    }
}

fn bar(quantity: &'static str, errors: Errors, allowed: Allowed) -> Bar {
    let within = |error: f64, allowed: Option<f64>| allowed.is_none_or(|most| error <= most);
    let Errors { rows, mean, p90, max } = errors;
    let keeps = within(mean, allowed.mean) && within(p90, allowed.p90) && within(max, allowed.max);
    let is_limited = [allowed.mean, allowed.p90, allowed.max].iter().any(Option::is_some);
    Bar {
        quantity,
        rows,
        mean,
        p90: Some(p90),
        max,
        allowed_mean: allowed.mean,
        allowed_p90: allowed.p90,
        allowed_max: allowed.max,
        // A bar over nothing proves nothing.
        holds: keeps && (rows > 0 || !is_limited),
    }
}

/// The sets of all kinds of rows, and one with the bars over all of them.
pub(super) fn sets(study: &Study) -> Vec<ValidatedSet> {
    let own = |kind: RowKind| -> Vec<&Outcome> {
        study.outcomes.iter().filter(|one| RowKind::of(&one.run) == kind).collect()
    };
    let mut all: Vec<ValidatedSet> =
        RowKind::ALL.into_iter().map(|kind| set_of(kind, &own(kind))).collect();
    let (rows, kinds) = (Vec::new(), Vec::new());
    let (bars, coverage) = (bars(study), Vec::new());
    all.push(ValidatedSet { set: ALL_ROWS, rows, left_out: Vec::new(), bars, kinds, coverage });
    all
}

/// The rows of `kind`, whose errors are listed but have bars only over several kinds.
fn set_of(kind: RowKind, outcomes: &[&Outcome]) -> ValidatedSet {
    let own: Vec<&Outcome> =
        outcomes.iter().copied().filter(|one| one.run.apart.is_none()).collect();
    let none = Allowed::default();
    let mut bars = vec![bar("step, in sample", in_sample(&own), none)];
    if let Source::Lora | Source::Nemo | Source::Fsdp = kind.source {
        let allowed = mean(if kind.experts { 0.15 } else { 0.10 });
        bars = vec![bar("step, nothing fitted", in_sample(&own), allowed)];
    } else if kind.source.is_fitted() {
        bars.push(bar("step, held out by configuration", held_out(&own), none));
        bars.push(bar("step, each configuration at its own mean", floor(&own), none));
    }
    let rows: Vec<Row> = outcomes.iter().flat_map(|one| rows_of(one)).collect();
    let kinds = match kind.source {
        source if source.is_fitted() => by_kind(kind.name(), &held_out_rows(&rows)),
        Source::CclBench => Vec::new(),
        _ => by_kind(kind.name(), &of_one_source(&rows)),
    };
    ValidatedSet { set: kind.name(), rows, left_out: Vec::new(), bars, kinds, coverage: Vec::new() }
}

/// The steps of `rows` as predicted by constants that were fitted without them: the expected error on
/// other runs.
fn held_out_rows(rows: &[Row]) -> Vec<Row> {
    let one = |row: &Row| {
        let predicted = row.held_out?;
        let error = accuracy::error(predicted, row.measured);
        Some(Row { predicted, error, fitted: false, ..row.clone() })
    };
    rows.iter().filter_map(one).collect()
}

/// The same of the only source of its software: a fit without it would be none.
fn of_one_source(rows: &[Row]) -> Vec<Row> {
    rows.iter().map(|row| Row { without_source: None, ..row.clone() }).collect()
}

/// The step and the memory of a run beside the measured ones.
pub(super) fn rows_of(one: &Outcome) -> Vec<Row> {
    let run = format!("{}: {}", one.run.place, one.run.name);
    let row = |quantity, predicted: f64, measured: f64| Row {
        run: run.clone(),
        kind: one.prediction.kind.to_string(),
        quantity,
        measured,
        predicted,
        error: accuracy::error(predicted, measured),
        fitted: false,
        held_out: None,
        without_source: None,
        apart: one.run.apart.clone(),
        configuration: one.run.configuration.clone(),
        step: Step::of(&one.run.model, one.run.setup.devices(), one.run.recipe.precision),
    };
    let held_out = (!one.held_out.is_empty()).then(|| accuracy::median(&one.held_out));
    let step = one.run.seconds.map(|seconds| Row {
        fitted: one.is_fitted() && held_out.is_some() || one.run.source == Source::SimuMax,
        held_out,
        without_source: one.without_source,
        ..row(TIME, one.prediction.seconds, seconds)
    });
    let memory = one.run.memory.filter(|_| one.run.fits != Some(false));
    let memory = memory.map(|memory| row(PEAK, one.prediction.memory, memory));
    step.into_iter().chain(memory).collect()
}

/// Bars of the errors of the rows of a file, for each of `quantities` that it has.
pub(super) fn bars_of_file(rows: &[Row], quantities: [&'static str; 2]) -> Vec<Bar> {
    let one = |quantity: &'static str| {
        let own = rows.iter().filter(|row| row.quantity == quantity && row.apart.is_none());
        let errors: Vec<f64> = own.map(|row| row.error).collect();
        (!errors.is_empty()).then(|| bar(quantity, Errors::of(&errors), Allowed::default()))
    };
    quantities.into_iter().filter_map(one).collect()
}

fn bars(study: &Study) -> Vec<Bar> {
    let fitted: Vec<&Outcome> = study.outcomes.iter().filter(|one| one.is_fitted()).collect();
    let only = |is: fn(RowKind) -> bool| -> Vec<&Outcome> {
        fitted.iter().copied().filter(|one| is(RowKind::of(&one.run))).collect()
    };
    let dense = only(RowKind::is_dense_megatron);
    let experts = only(|kind| kind.experts);
    let torchtitan = only(|kind| kind.source == Source::Torchtitan);
    let in_mlperf = |name: &str| -> Vec<&Outcome> {
        let is = |one: &&Outcome| one.run.source == Source::MlPerf && one.run.model_name == name;
        fitted.iter().copied().filter(is).collect()
    };
    let [deepseek, gpt3] = ["deepseek-v3-671b", "gpt3-175b"].map(in_mlperf);
    let known = |is: fn(&Run) -> bool| -> Vec<&Outcome> {
        let steps = study.outcomes.iter().filter(|one| one.run.source != Source::CclBench);
        steps.filter(|one| one.run.apart.is_none() && is(&one.run)).collect()
    };
    let bf16_on_rack = known(|run| {
        let is_dense = run.model.experts.is_none() && run.recipe.precision == Precision::Bf16;
        run.source == Source::Nemo && is_dense && run.machine.name == "gb200"
    });
    let held = "step, held out by configuration";
    let mut all = vec![
        bar(
            "step, dense of all sources",
            in_sample(&known(|run| run.model.experts.is_none())),
            mean(0.05),
        ),
        bar(
            "step, experts of all sources",
            in_sample(&known(|run| run.model.experts.is_some())),
            mean(0.08),
        ),
        bar("dense in 16 bits on GB200", in_sample(&bf16_on_rack), mean(0.04)),
        bar("step, in sample", in_sample(&fitted), mean(0.05).p90(0.12)),
        bar("  dense of MLPerf and Megatron-Bridge", in_sample(&dense), mean(0.035)),
        bar("  DeepSeek-V3 of MLPerf", in_sample(&deepseek), most(0.12)),
        bar("  GPT-3 of MLPerf on H100", in_sample(&gpt3), most(0.12)),
        bar(held, held_out(&fitted), mean(0.075).p90(0.17)),
        bar("  dense of MLPerf and Megatron-Bridge", held_out(&dense), mean(0.045).p90(0.10)),
        bar("  experts", held_out(&experts), mean(0.085).p90(0.18)),
        bar("  torchtitan", held_out(&torchtitan), mean(0.12)),
        bar("  DeepSeek-V3 of MLPerf", held_out(&deepseek), most(0.16)),
        bar("  GPT-3 of MLPerf on H100", held_out(&gpt3), most(0.16)),
        bar("step, a model left out", without(&fitted, |one| one.without_model), mean(0.10)),
        bar("step, a machine left out", without(&fitted, |one| one.without_machine), mean(0.12)),
        bar("step, each configuration at its own mean", floor(&fitted), Allowed::default()),
        bar("  dense of MLPerf and Megatron-Bridge", floor(&dense), Allowed::default()),
        bar("  experts", floor(&experts), Allowed::default()),
    ];
    all.extend(rankings(&fitted));
    all.extend(memory(&study.outcomes));
    all.extend(constants(&study.constants));
    all
}

/// The shares of pairs that are ranked wrong.
fn rankings(fitted: &[&Outcome]) -> [Bar; 4] {
    let in_use = |pairs: Pairs| ranked(fitted, pairs, |one| one.prediction.seconds);
    let one = |quantity, pairs: Pairs, share: f64, allowed: Allowed| {
        let wrong = 1.0 - share;
        let rows = in_use(pairs).pairs;
        bar(quantity, Errors { rows, mean: wrong, p90: wrong, max: wrong }, allowed)
    };
    let [release, machine] = [Pairs::OfOneRelease, Pairs::OnOneMachine];
    [
        one(
            "pairs of one release ranked wrong, in sample",
            release,
            in_use(release).share(),
            mean(0.05),
        ),
        one(
            "pairs of one release ranked wrong, held out",
            release,
            ranked_held_out(fitted, release),
            Allowed::default(),
        ),
        one(
            "pairs on one machine ranked wrong, in sample",
            machine,
            in_use(machine).share(),
            mean(0.08),
        ),
        one(
            "pairs on one machine ranked wrong, held out",
            machine,
            ranked_held_out(fitted, machine),
            mean(0.12),
        ),
    ]
}

/// Peaks of memory, and whether runs of a study that ran out of memory fit.
fn memory(outcomes: &[Outcome]) -> [Bar; 3] {
    let peaks = |is: fn(Source) -> bool| {
        let ran = |one: &&Outcome| one.is_fitted() && is(one.run.source);
        let own = outcomes.iter().filter(ran);
        let errors =
            own.filter_map(|one| Some(accuracy::error(one.prediction.memory, one.run.memory?)));
        Errors::of(&errors.collect::<Vec<_>>())
    };
    let is_compared = |one: &&Outcome| {
        let failed = outcomes
            .iter()
            .any(|other| other.run.release == one.run.release && other.run.fits == Some(false));
        failed && one.run.fits.is_some()
    };
    let wrong = |one: &Outcome| f64::from(u8::from(one.run.fits != Some(one.prediction.fits)));
    let compared: Vec<f64> = outcomes.iter().filter(is_compared).map(wrong).collect();
    let megatron = |source| [Source::MlPerf, Source::Bridge].contains(&source);
    [
        bar("peak memory, Megatron", peaks(megatron), mean(0.05).max(0.10)),
        bar("peak memory, torchtitan", peaks(|one| one == Source::Torchtitan), mean(0.15)),
        bar("runs of Nemotron said to fit or not, wrong", Errors::of(&compared), most(0.0)),
    ]
}

/// How far a fit moves the constants in use, and how many there are.
fn constants(constants: &[Refitted]) -> [Bar; 2] {
    let moved: Vec<f64> = constants.iter().map(Refitted::moved).collect();
    let few = bar(
        "constants that are fitted, at most 40",
        Errors { rows: constants.len(), ..Errors::default() },
        mean(0.0),
    );
    let holds = few.holds && constants.len() <= MOST_CONSTANTS;
    [
        bar("constants moved by a fit to all rows", Errors::of(&moved), most(0.02)),
        Bar { holds, ..few },
    ]
}
