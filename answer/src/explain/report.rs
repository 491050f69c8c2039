//! Explanations as tables and for machines.

use std::collections::BTreeMap;
use std::fmt::Write;

use pipeline::{Kind, Nanos, Value};
use serde::Serialize;
use sim::engine::Collective;
use sim::explain::{CAUSES, Cause, Causes, Link, PathSummary, Wait};
use sim::levers::{Lever, Levers};

use super::Explanation;
use super::quantities::{ratio, signed, whole};
use super::{levers, streams};
use question::sheet::Sheet;
use question::{format, object, table};

/// Stages that get a line of their own.
const MOST_STAGES: usize = 32;
/// Levers that save, and levers that cost, in the table.
const MOST_LEVERS: [usize; 2] = [8, 3];

/// `why`, the explanation of `title`, for people: idle time by cause, the critical path and the levers.
#[must_use]
pub fn sheet(title: &str, why: &Explanation) -> Sheet {
    let mut sheet = Sheet::default().and_text(format!("why {title} waits\n"));
    sheet.push(causes(&why.causes));
    sheet.push(streams::sheet(why));
    // Writing to a sheet cannot fail.
    let _ = writeln!(sheet, "\n{}", path(&why.summary));
    sheet.push(levers_table(&why.levers).under_a_gap());
    sheet
}

/// Where the time of each stage goes.
fn causes(causes: &Causes) -> Sheet {
    let shown = seen(&causes.idle);
    let steps = causes.optimizer > Nanos(0);
    let shares = causes.streams.is_some();
    let header = [Some("stage"), Some("busy"), steps.then_some("optimizer"), Some("idle")];
    let header = header.into_iter().chain([shares.then_some("exposed")]).flatten();
    let header = header.chain(shown.iter().map(|cause| cause.name()));
    // A line of idle time by cause, as `text` writes it, beside the time that a stage is `busy`, in words.
    let line = |[name, busy]: [String; 2],
                exposed,
                idle: [i64; CAUSES],
                text: fn(i64, Nanos) -> String| {
        let (total, exposed) = (idle.iter().sum::<i64>() - whole(exposed), whole(exposed));
        let own = [steps.then(|| whole(causes.optimizer)), Some(total), shares.then_some(exposed)];
        let parts = shown.iter().map(|cause| idle[*cause as usize]);
        let cells = own.into_iter().flatten().chain(parts).map(|time| text(time, causes.cost));
        [name, busy].into_iter().chain(cells).collect::<Vec<_>>()
    };
    let in_units = |time, _| signed(time);
    let mut rows: Vec<Vec<String>> = Vec::new();
    if causes.idle.len() <= MOST_STAGES {
        let stages = causes.idle.iter().zip(&causes.busy).enumerate();
        rows.extend(stages.map(|(stage, (idle, busy))| {
            let name = [stage.to_string(), format::time(*busy)];
            line(name, causes.exposed(stage), *idle, in_units)
        }));
    }
    let (busy, exposed) = (mean(&causes.busy), causes.average_exposed());
    let name = ["average".to_owned(), format::time(busy)];
    rows.push(line(name, exposed, causes.average(), in_units));
    let share = |time, cost| format::percent(ratio(time, cost));
    let name = ["of the step".to_owned(), share(whole(busy), causes.cost)];
    rows.push(line(name, exposed, causes.average(), share));
    Sheet::table(header, rows)
}

/// The mean of `times`, rounded down.
pub(super) fn mean(times: &[Nanos]) -> Nanos {
    let total: u128 = times.iter().map(|time| u128::from(time.0)).sum();
    Nanos(u64::try_from(total / times.len().max(1) as u128).unwrap_or(u64::MAX))
}

/// The causes that any stage's idle time is owed to, and structure.
pub fn seen(idle: &[[i64; CAUSES]]) -> Vec<Cause> {
    let owed = |cause: Cause| idle.iter().any(|stage| stage[cause as usize] != 0);
    let seen = |cause: &Cause| *cause == Cause::Structure || owed(*cause);
    Cause::ALL.into_iter().filter(seen).collect()
}

/// The parts of the critical path, in a line.
fn path(summary: &PathSummary) -> String {
    let length = summary.end - summary.begin;
    let share = |time: Nanos| format::percent(ratio(whole(time), length));
    let mut parts: Vec<String> = Kind::ALL
        .into_iter()
        .zip(summary.passes)
        .filter(|(_, time)| time.0 > 0)
        .map(|(kind, time)| format!("{} {}", kind.name(), share(time)))
        .collect();
    if summary.pairs.0 > 0 {
        parts.push(format!("pairs {}", share(summary.pairs)));
    }
    parts.push(format!("transfers and copies {}", share(summary.transfers)));
    let mut stages: Vec<_> = summary.stages.iter().copied().enumerate().collect();
    stages.sort_by_key(|&(stage, time)| (std::cmp::Reverse(time), stage));
    let stages = stages.into_iter().filter(|(_, time)| time.0 > 0).take(4);
    let stages: Vec<String> =
        stages.map(|(stage, time)| format!("stage {stage} {}", share(time))).collect();
    let mostly = if stages.is_empty() { "" } else { "; mostly on " };
    let (length, parts, stages) = (format::time(length), parts.join(", "), stages.join(", "));
    format!("critical path, {length}: {parts}{mostly}{stages}")
}

/// The changes that would shorten the step most.
fn levers_table(levers: &Levers) -> Sheet {
    let all = &levers.ranked;
    let saving = all.iter().filter(|lever| lever.change < 0).take(MOST_LEVERS[0]);
    let costing = all.iter().rev().filter(|lever| lever.change > 0).take(MOST_LEVERS[1]);
    let costing: Vec<&Lever> = costing.collect();
    let rows: Vec<&Lever> = saving.chain(costing.into_iter().rev()).collect();
    let mut sheet = match rows.is_empty() {
        true => Sheet::default().and_text("no lever tried changes the step\n"),
        false => table!(
            lever = rows,
            "lever" = lever.name,
            "step" = lever.step,
            "change" = signed(lever.change),
            "of the step" = format::percent(ratio(lever.change, levers.base)),
            "order" = order(lever),
        ),
    };
    let [savings, losses] = [i64::is_negative, i64::is_positive]
        .map(|is: fn(i64) -> bool| all.iter().filter(|lever| is(lever.change)).count());
    if savings > MOST_LEVERS[0] || losses > MOST_LEVERS[1] {
        let [most, worst] = MOST_LEVERS;
        let _ = writeln!(
            sheet,
            "the {} largest of {savings} savings and the {} largest of {losses} losses; the picture shows all",
            savings.min(most),
            losses.min(worst)
        );
    }
    for note in levers.notes.iter().map(|&note| levers::note(note)) {
        let _ = writeln!(sheet, "({note})");
    }
    sheet
}

/// The event that let a slot begin, in words.
pub fn waited_for(link: &Link) -> String {
    match link.wait {
        Wait::Nothing => "nothing".to_owned(),
        Wait::Order => "the slot before it".to_owned(),
        Wait::Value(one) => {
            format!(
                "a value from stage {}, {} on its way",
                one.from,
                format::time(one.end - one.made)
            )
        }
        Wait::Collective(one) => match one.value {
            Value::Output { .. } | Value::Gradient { .. } => format!(
                "the broadcast of the last chunk's output (C0), {} long, set off by stage {}",
                format::time(one.end - one.made),
                one.last
            ),
            Value::Statistics { .. } => barrier("behind S (C1)", &one),
            Value::HiddenGradient { .. } => barrier("behind T (C2)", &one),
        },
        Wait::Device => {
            let by = link.after.map_or(0, |(stage, _)| stage);
            format!("the device, which stage {by} had")
        }
        Wait::Sending(one) => format!("what stage {} was sending", one.from),
        Wait::HostCopy(_) => "its activation on the way from the host".to_owned(),
        Wait::HostRoom(copy) => format!("room, until {} was on the host", copy.pass),
        Wait::Parameters(one) => format!("the parameters of chunk {}", one.op.chunk),
        Wait::Boundary => "the end of the step before".to_owned(),
    }
}

fn barrier(which: &str, one: &Collective) -> String {
    let time = format::time(one.end - one.made);
    format!("the barrier {which}, {time} long, where stage {} came last", one.last)
}

/// `why` for machines.
pub fn json(why: &Explanation) -> impl Serialize {
    let causes = &why.causes;
    let is_seen = |cause: &Cause| causes.can_have(*cause);
    let without = Cause::ALL.into_iter().zip(causes.without);
    let without = without.filter(|(cause, _)| is_seen(cause));
    let stage = |(stage, (idle, busy)): (usize, (&[i64; CAUSES], &Nanos))| {
        let shown = Cause::ALL.into_iter().filter(is_seen);
        let streams = causes.streams.as_ref();
        object!(
            stage = stage,
            busy_ns = busy.0,
            optimizer_ns = causes.optimizer.0,
            // The sum of the causes, without exposed communication.
            idle_ns = idle.iter().sum::<i64>() - whole(causes.exposed(stage)),
            flat(streams) = streams.map(|all| streams::json(&all[stage], causes.cost)),
            flat(causes) =
                shown.map(|cause| (cause.key(), idle[cause as usize])).collect::<BTreeMap<_, _>>(),
        )
    };
    let link = |link: &Link| {
        object!(
            stage = link.stage,
            pass = link.span.slot.to_string(),
            start_ns = link.span.start.0,
            end_ns = link.span.end.0,
            waited_for = waited_for(link),
        )
    };
    let lever = |lever: &Lever| {
        object!(
            lever = lever.name.clone(),
            order = order(lever),
            step_ns = lever.step.0,
            change_ns = lever.change,
            // Share of the step.
            change = ratio(lever.change, why.levers.base),
        )
    };
    object!(
        // Step time: the longest span of a stage; on hardware, with the time between two steps.
        cost_ns = causes.cost.0,
        // That, once each cause and those before it are gone.
        cost_without_ns =
            without.map(|(cause, cost)| (cause.key(), cost.0)).collect::<BTreeMap<_, _>>(),
        [stages] = causes.idle.iter().zip(&causes.busy).enumerate().map(stage),
        [critical_path] = why.path.iter().map(link),
        [levers] = why.levers.ranked.iter().map(lever),
        [notes] = why.levers.notes.iter().map(|&note| levers::note(note)),
    )
}

/// Whether `lever` keeps the order of passes.
const fn order(lever: &Lever) -> &'static str {
    if lever.rebuilt { "rebuilt" } else { "kept" }
}
