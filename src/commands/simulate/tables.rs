//! The answers as tables.

use std::io::Write;

use answer::explain::report as why;
use answer::front::Standing;
use answer::hardware::{HEADER, Report};
use answer::noise as report;
use answer::outcome::{Outcome, title};
use answer::simulate::{Answers, Refused};
use pipeline::{Choice, Limits, Metrics, Placement};
use question::hardware::Hardware;
use sim::monte_carlo::MonteCarlo;

use crate::error::Error;
use crate::format;

/// Columns of a table under noise.
const NOISE_FREE: [&str; 2] = ["noise-free span", "noise-free bubble"];

/// Prints one row for each schedule and setting, and below what belongs to it.
pub(super) fn print(out: &mut dyn Write, answers: &Answers) -> Result<(), Error> {
    let outcomes = &answers.outcomes[..];
    let named = outcomes.iter().any(|outcome| outcome.case.setting.is_some());
    let limited = outcomes.iter().any(|outcome| outcome.case.limits.is_some());
    let mut header = vec!["schedule", "p", "m", "v", "span", "bubble"];
    header.extend(["makespan", "bubble/makespan"]);
    header.extend(["peak/M_B", "on stage"]);
    if outcomes.iter().any(|outcome| outcome.noise_free.is_some()) {
        header.extend(NOISE_FREE);
    }
    if outcomes.iter().any(|outcome| outcome.case.has_footprints) {
        header.push("peak memory");
    }
    if limited {
        header.push("fits");
    }
    let marked = outcomes.iter().any(|outcome| outcome.standing.is_some());
    if marked {
        header.push("front");
    }
    if named {
        header.insert(0, "setting");
    }
    let rows = outcomes.iter().map(|outcome| row(outcome, &header));
    write!(out, "{}", format::table(&header, rows))?;
    if marked {
        print_legend(out, outcomes)?;
    }
    print_refused(out, &answers.refused)?;
    if !answers.all {
        print_stages(out, outcomes)?;
    }
    print_hardware(out, outcomes)?;
    print_replicas(out, outcomes)?;
    for outcome in outcomes {
        if let Some(explanation) = &outcome.explanation {
            write!(out, "\n{}", format::sheet(&why::sheet(&title(outcome), explanation)))?;
        }
    }
    Ok(())
}

/// Prints the meaning of the front's mark, and what the rows share and what not.
fn print_legend(out: &mut dyn Write, outcomes: &[Outcome]) -> Result<(), Error> {
    let unfit = outcomes.iter().any(|one| one.standing == Some(Standing::OverLimit));
    writeln!(
        out,
        "\n* on the Pareto front: nothing in its setting{} has less bubble or less peak memory, and no more of \
         the other\n\
         The work of a stage is the same in all rows: v chunks cut F, B, W and activations in v.",
        if unfit { " that fits" } else { "" },
    )?;
    let names = |wanted: &dyn Fn(&Outcome) -> bool| {
        let mut names: Vec<&str> = Vec::new();
        for outcome in outcomes.iter().filter(|outcome| wanted(outcome)) {
            if !names.contains(&&outcome.case.name[..]) {
                names.push(&outcome.case.name);
            }
        }
        names
    };
    let is_cut = |outcome: &Outcome| {
        let choice = outcome.case.family.map(|family| family.about().choice);
        matches!(choice, Some(Choice::Segments { .. })) && outcome.case.problem.segments() > 1
    };
    let cut = names(&is_cut);
    if let Some(first) = outcomes.iter().find(|outcome| is_cut(outcome)) {
        let count = first.case.problem.segments();
        let same = outcomes.iter().filter(|one| is_cut(one));
        let same = same.into_iter().all(|one| one.case.problem.segments() == count);
        let into = if same { format!("{count} ") } else { String::new() };
        writeln!(out, "{}: the passes are of segments, {into}to a microbatch.", cut.join(", "))?;
    }
    let asynchronous = names(&|outcome| outcome.case.steady.is_some());
    if !asynchronous.is_empty() {
        let names = asynchronous.join(", ");
        writeln!(
            out,
            "{names}: asynchronous, with more versions of the weights than one: off the front."
        )?;
    }
    let copies = names(&|outcome| outcome.case.schedule.placement() == Placement::Mirrored);
    if !copies.is_empty() {
        writeln!(out, "{}: two copies of the weights, not counted here.", copies.join(", "))?;
    }
    Ok(())
}

/// The families that cannot do the question, and why.
fn print_refused(out: &mut dyn Write, refused: &[Refused]) -> Result<(), Error> {
    if refused.is_empty() {
        return Ok(());
    }
    writeln!(out, "\nnot simulated")?;
    let name = |one: &Refused| match &one.setting {
        Some(setting) => format!("{}, {setting}", one.schedule),
        None => one.schedule.clone(),
    };
    let widest = refused.iter().map(|one| name(one).chars().count()).max().unwrap_or(0);
    for one in refused {
        writeln!(out, "{:widest$}  {}", name(one), one.reason)?;
    }
    Ok(())
}

/// Prints the effect of the runs on the hardware.
fn print_hardware(out: &mut dyn Write, outcomes: &[Outcome]) -> Result<(), Error> {
    let runs = outcomes.iter().filter_map(|outcome| {
        Some((outcome, outcome.case.hardware.as_ref()?, outcome.report.as_ref()?))
    });
    let row = |(outcome, hardware, report): (&Outcome, &Hardware, &Report)| {
        [title(outcome)].into_iter().chain(report.row(hardware)).collect()
    };
    let rows: Vec<Vec<String>> = runs.map(row).collect();
    if rows.is_empty() {
        return Ok(());
    }
    let header: Vec<&str> = ["on hardware"].into_iter().chain(HEADER).collect();
    Ok(write!(out, "\n{}", format::table(&header, rows))?)
}

/// Prints the results of the replicas: a table of the span and one of the bubble.
fn print_replicas(out: &mut dyn Write, outcomes: &[Outcome]) -> Result<(), Error> {
    type Row = fn(&Metrics, &MonteCarlo) -> [String; 5];
    let tables: [(&str, Row); 2] = [("span", report::spans), ("bubble", report::bubbles)];
    let asked: Vec<_> = outcomes
        .iter()
        .filter_map(|outcome| {
            Some((outcome, outcome.noise_free.as_ref()?, outcome.monte_carlo.as_ref()?))
        })
        .collect();
    let Some((_, _, first)) = asked.first() else { return Ok(()) };
    for (what, row) in tables {
        let corner = format!("{what}, {} replicas [95 %]", first.replicas);
        let header: Vec<&str> = [&corner[..]].into_iter().chain(report::COLUMNS).collect();
        let rows = asked.iter().map(|(outcome, noise_free, all)| {
            [title(outcome)].into_iter().chain(row(noise_free, all)).collect()
        });
        write!(out, "\n{}", format::table(&header, rows))?;
    }
    Ok(())
}

fn row(outcome: &Outcome, header: &[&str]) -> Vec<String> {
    let (case, metrics) = (&outcome.case, &outcome.metrics);
    let shape = case.schedule.shape();
    let (stage, peak) = outcome.worst();
    let mut row = Vec::new();
    if header.contains(&"setting") {
        row.push(case.setting.clone().unwrap_or_default());
    }
    row.extend([
        case.name.clone(),
        shape.stages().to_string(),
        case.microbatches().to_string(),
        shape.chunks_per_stage().to_string(),
        format::time(metrics.span()),
        format::percent(metrics.bubble_rate()),
        format::time(metrics.makespan()),
        format::percent(metrics.bubble_rate_makespan()),
        format!("{:.2}", outcome.in_microbatches(peak)),
        stage.to_string(),
    ]);
    if header.contains(&NOISE_FREE[0]) {
        let noise_free = outcome.noise_free.as_ref().unwrap_or(metrics);
        row.push(format::time(noise_free.span()));
        row.push(format::percent(noise_free.bubble_rate()));
    }
    if header.contains(&"peak memory") {
        row.push(if case.has_footprints { format::size(peak) } else { "-".to_owned() });
    }
    if header.contains(&"fits") {
        row.push(case.limits.as_ref().map_or("-".to_owned(), |limits| fits(outcome, limits)));
    }
    if header.contains(&"front") {
        row.push(
            if outcome.standing.is_some_and(Standing::is_on_front) { "*" } else { "" }.to_owned(),
        );
    }
    row
}

/// Whether every stage keeps its limit, or the limit that one does not keep.
fn fits(outcome: &Outcome, limits: &Limits) -> String {
    let Some((stage, _)) = outcome.memory.over(limits) else { return "yes".to_owned() };
    let told = &outcome.case.told_limits[..];
    match (limits.same(), told) {
        (Some(_), [limit, ..]) => format!("no: limit {limit}"),
        _ => match told.get(stage) {
            Some(limit) => format!("no: limit {limit} on stage {stage}"),
            None => format!("no: limit {} on stage {stage}", limits.of(stage)),
        },
    }
}

/// The peak of every stage, where they fit on a line.
fn print_stages(out: &mut dyn Write, outcomes: &[Outcome]) -> Result<(), Error> {
    const MOST: usize = 16;
    let stages = outcomes.iter().map(|outcome| outcome.memory.peak.len()).max().unwrap_or(0);
    let settings = outcomes.iter().any(|outcome| outcome.case.setting.is_some());
    if stages > MOST || settings {
        return Ok(());
    }
    let header = ["peak/M_B, stage".to_owned()].into_iter();
    let header: Vec<String> = header.chain((0..stages).map(|stage| stage.to_string())).collect();
    let header: Vec<&str> = header.iter().map(String::as_str).collect();
    let rows = outcomes.iter().map(|outcome| {
        let peaks = outcome.memory.peak.iter();
        let peaks = peaks.map(|&peak| format!("{:.2}", outcome.in_microbatches(peak)));
        std::iter::once(outcome.case.name.clone()).chain(peaks).collect()
    });
    Ok(write!(out, "\n{}", format::table(&header, rows))?)
}
