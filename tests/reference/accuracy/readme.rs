//! The README, and the page of what debubble is worth, say the same as the tables of the book.

use pipeline::Family;

use super::runs::{runs, traces};
use super::{Cells, Line, mean, number, planner, results};
use crate::reference::root;

/// The page of the book with all figures.
const PAGE: &str = "docs/explanation/accuracy.md";

/// The figures of the page, as it writes them.
fn of_page() -> Vec<String> {
    let mut all = of_papers();
    all.push(of_traces());
    all.extend(of_plans());
    all.extend(of_runs());
    all.extend(far_off());
    all
}

/// The figures of the README, as it writes them.
fn of_readme() -> Vec<String> {
    let [_, of_today] = of_plans();
    let [ccl, _] = far_off();
    let mut all = vec![of_traces(), format!("**{} schedules**", Family::ALL.len())];
    all.extend([of_today, ccl, of_trainings()]);
    all.extend(of_evidence());
    all.extend(super::independent::of_readme());
    all
}

/// The checked cells of published tables, by kind of evidence.
fn of_evidence() -> Vec<String> {
    let rows = results("evidence.csv");
    let sum = |column: &str| rows.iter().map(|cells| number(cells, column)).sum::<f64>();
    let line = |(name, cells): (&str, &Cells)| match cells["mean deviation"].as_str() {
        "-" => format!("{} {name}", cells["checked"]),
        mean => format!("{} {name} ({mean})", cells["checked"]),
    };
    let names = ["computed", "closed form", "measured and fitted", "held out", "bounds"];
    let mut all: Vec<String> = names.into_iter().zip(&rows).map(line).collect();
    all.push(format!("{} checked cells", question::format::grouped(sum("checked"))));
    all.push(format!("{} expected misses", sum("expected misses")));
    all
}

/// What whole trainings took of their plans.
fn of_trainings() -> String {
    let mut times: Vec<f64> =
        measured::trainings().unwrap().iter().map(|one| one.times()).collect();
    times.sort_by(f64::total_cmp);
    let (half, last) = (times.len() / 2, times.len() - 1);
    let median = f64::midpoint(times[last / 2], times[half]);
    let (least, most) = (times[0], times[last]);
    format!(
        "{} trainings | took {least:.2} to {most:.2} times the planned GPU-hours, median {median:.2}",
        times.len()
    )
}

/// The errors of the sets whose runs are farthest off.
fn far_off() -> [String; 2] {
    let lines = planner();
    let ccl = lines.iter().find(|line| line.source == "ccl-bench").unwrap();
    let recorded = super::validated().recorded.iter().map(|set| set.max).fold(0.0, f64::max);
    [
        format!(
            "mean error {:.0} %, largest {:.0} %",
            mean(&ccl.held_out).unwrap() * 100.0,
            largest(&ccl.held_out) * 100.0
        ),
        format!("largest error {:.0} %", recorded * 100.0),
    ]
}

fn percent(error: f64) -> String {
    format!("{:.1} %", error * 100.0)
}

fn largest(errors: &[f64]) -> f64 {
    errors.iter().fold(0.0, |most: f64, one| most.max(one.abs()))
}

fn of_traces() -> String {
    let traces = traces();
    let step = |run: &str| {
        let line = traces.iter().find(|line| line.source.ends_with(run)).unwrap();
        let mean = mean(&line.held_out).unwrap();
        format!("{:.2} % ({run}, {} steps)", mean * 100.0, line.held_out.len())
    };
    format!("mean error {} and {}", step("64 GPUs"), step("8 GPUs"))
}

/// The relative errors of those cells of a table that are meant.
fn errors(file: &str, is_meant: impl Fn(&Cells) -> bool) -> Vec<f64> {
    let rows = results(file).into_iter().filter(|cells| is_meant(cells));
    let error = |cells: Cells| {
        let published = number(&cells, "published");
        (number(&cells, "ours") - published) / published
    };
    rows.map(error).collect()
}

fn of_papers() -> Vec<String> {
    let is_whole =
        |cells: &Cells| ["BASELINE", "REDIS"].iter().any(|method| cells["row"].starts_with(method));
    let steps = |whole: bool| {
        errors("vocabulary.csv", |cells| {
            cells["column"] == "iteration ms" && is_whole(cells) == whole
        })
    };
    let (plain, shards) = (steps(true), steps(false));
    let planned = errors("throughput.csv", |cells| {
        cells["column"] == "samples/GPU/s" && cells["convention"] == "measured, held out"
    });
    let mean = |errors: &[f64]| mean(errors).unwrap();
    vec![
        format!(
            "mean error {:.2} % (plain) and {:.2} % (in shards), largest {:.2} %",
            mean(&plain) * 100.0,
            mean(&shards) * 100.0,
            largest(&plain).max(largest(&shards)) * 100.0
        ),
        format!("{} rows left out of every fit", planned.len()),
        format!("mean error {}, largest {}", percent(mean(&planned)), percent(largest(&planned))),
    ]
}

fn of_plans() -> [String; 2] {
    let lines = planner();
    let today = ["MLPerf", "Megatron-Bridge", "torchtitan"];
    let is_of_today = |line: &&Line| today.iter().any(|name| line.source.starts_with(name));
    let steps = || lines.iter().filter(|line| !line.what.contains("memory"));
    let is_apart = |line: &&Line| line.what.ends_with(super::APART);
    let compared = || steps().filter(|line| !is_apart(line));
    let (sharded, of_a100): (Vec<&Line>, Vec<&Line>) = compared()
        .filter(|line| {
            !is_of_today(line)
                && !["ccl-bench", "LoRA", "NeMo, dense", "NeMo, experts"]
                    .contains(&line.source.as_str())
        })
        .partition(|line| line.what.contains("ZeRO 3"));
    let error = |line: &&Line| mean(&[&line.fitted[..], &line.held_out[..]].concat()).unwrap();
    let [sharded, of_a100] =
        [sharded, of_a100].map(|lines| lines.iter().map(error).collect::<Vec<f64>>());
    let all = |of: fn(&Line) -> &[f64]| -> Vec<f64> {
        compared().filter(is_of_today).flat_map(|line| of(line).iter().copied()).collect()
    };
    let (fitted, held_out) = (all(|line| &line.fitted), all(|line| &line.held_out));
    let apart = steps().filter(|line| is_of_today(line) && is_apart(line));
    let apart: Vec<f64> = apart.flat_map(|line| line.held_out.iter().copied()).collect();
    let with_apart = |own: &[f64]| 100.0 * mean(&[own, &apart].concat()).unwrap();
    [
        format!(
            "mean error {:.1} to {} by set, {:.1} % for ZeRO 3",
            of_a100.iter().copied().fold(1.0, f64::min) * 100.0,
            percent(largest(&of_a100)),
            largest(&sharded) * 100.0
        ),
        format!(
            "{} runs | mean error {} on fitted runs, {} on configurations left out of the fit ({:.1} and \
             {:.1} % with {} set apart)",
            fitted.len(),
            percent(mean(&fitted).unwrap()),
            percent(mean(&held_out).unwrap()),
            with_apart(&fitted),
            with_apart(&held_out),
            apart.len()
        ),
    ]
}

fn of_runs() -> [String; 2] {
    let runs = runs();
    let largest_of = |name: &str| {
        let own = runs.iter().filter(|line| line.source.starts_with(name));
        own.map(|line| largest(&line.held_out)).fold(0.0, f64::max) * 100.0
    };
    let timed = &runs[0].held_out;
    [
        format!(
            "within {:.2} % of the measured step on 4 and 8 ranks that sleep, {:.2} % for a small GPT on 2 ranks, \
             {:.2} % where its layers are checkpointed",
            largest_of("sleepy"),
            largest_of("GPT, p"),
            largest_of("GPT, checkpointed")
        ),
        format!(
            "bubble within {:.2} points, {} schedules and settings",
            largest(timed) * 100.0,
            timed.len()
        ),
    ]
}

#[test]
fn the_readme_says_the_same() {
    let check = |file: &str, figures: Vec<String>| {
        let text = std::fs::read_to_string(root().join(file)).unwrap();
        let text = text.split_whitespace().collect::<Vec<_>>().join(" ");
        for figure in figures {
            assert!(text.contains(&figure), "{file} does not say: {figure}");
        }
    };
    check("README.md", of_readme());
    check(PAGE, of_page());
}
