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
use question::format;
use question::sheet::Sheet;

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
    let optimizer = steps.then(|| format::time(causes.optimizer));
    let shares = causes.streams.is_some();
    let mut header = vec!["stage", "busy"];
    header.extend(steps.then_some("optimizer"));
    header.push("idle");
    header.extend(shares.then_some("exposed"));
    header.extend(shown.iter().map(|cause| cause.name()));
    let line = |name: String, busy: Nanos, exposed: Nanos, idle: [i64; CAUSES]| {
        let total = idle.iter().sum::<i64>() - whole(exposed);
        let parts = shown.iter().map(|cause| signed(idle[*cause as usize]));
        let head = [name, format::time(busy)].into_iter().chain(optimizer.clone());
        let head = head.chain([signed(total)]).chain(shares.then(|| signed(whole(exposed))));
        head.chain(parts).collect()
    };
    let mut rows: Vec<Vec<String>> = Vec::new();
    if causes.idle.len() <= MOST_STAGES {
        let stages = causes.idle.iter().zip(&causes.busy).enumerate();
        rows.extend(stages.map(|(stage, (idle, busy))| {
            line(stage.to_string(), *busy, causes.exposed(stage), *idle)
        }));
    }
    let (busy, exposed) = (mean(&causes.busy), causes.average_exposed());
    let average = causes.average();
    rows.push(line("average".to_owned(), busy, exposed, average));
    let share = |time: i64| format::percent(ratio(time, causes.cost));
    let total = average.iter().sum::<i64>() - whole(exposed);
    let parts = shown.iter().map(|cause| share(average[*cause as usize]));
    let head = ["of the step".to_owned(), share(whole(busy))].into_iter();
    let head = head.chain(steps.then(|| share(whole(causes.optimizer)))).chain([share(total)]);
    let head = head.chain(shares.then(|| share(whole(exposed))));
    rows.push(head.chain(parts).collect());
    Sheet::table(&header, rows)
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
    let row = |lever: &Lever| {
        let order = if lever.rebuilt { "rebuilt" } else { "kept" };
        let change = format::percent(ratio(lever.change, levers.base));
        [&lever.name, &format::time(lever.step), &signed(lever.change), &change, order]
            .map(ToString::to_string)
            .to_vec()
    };
    let all = &levers.ranked;
    let saving = all.iter().filter(|lever| lever.change < 0).take(MOST_LEVERS[0]);
    let costing = all.iter().rev().filter(|lever| lever.change > 0).take(MOST_LEVERS[1]);
    let costing: Vec<&Lever> = costing.collect();
    let rows: Vec<Vec<String>> = saving.chain(costing.into_iter().rev()).map(row).collect();
    let mut sheet = match rows.is_empty() {
        true => Sheet::default().and_text("no lever tried changes the step\n"),
        false => Sheet::table(&["lever", "step", "change", "of the step", "order"], rows),
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

#[derive(Serialize)]
pub struct ExplanationJson {
    /// Step time: the longest span of a stage; on hardware, with the time between two steps.
    cost_ns: u64,
    /// That, once each cause and those before it are gone.
    cost_without_ns: BTreeMap<&'static str, u64>,
    stages: Vec<StageJson>,
    critical_path: Vec<LinkJson>,
    levers: Vec<LeverJson>,
    notes: Vec<String>,
}

#[derive(Serialize)]
struct StageJson {
    stage: usize,
    busy_ns: u64,
    optimizer_ns: u64,
    /// The sum of the causes, without exposed communication.
    idle_ns: i64,
    #[serde(flatten)]
    streams: Option<streams::StreamsJson>,
    #[serde(flatten)]
    causes: BTreeMap<&'static str, i64>,
}

#[derive(Serialize)]
struct LinkJson {
    stage: usize,
    pass: String,
    start_ns: u64,
    end_ns: u64,
    waited_for: String,
}

#[derive(Serialize)]
struct LeverJson {
    lever: String,
    /// `kept` or `rebuilt`.
    order: &'static str,
    step_ns: u64,
    change_ns: i64,
    /// Share of the step.
    change: f64,
}

impl From<&Explanation> for ExplanationJson {
    fn from(why: &Explanation) -> Self {
        let causes = &why.causes;
        let is_seen = |cause: &Cause| causes.can_have(*cause);
        let without = Cause::ALL.into_iter().zip(causes.without);
        let without = without.filter(|(cause, _)| is_seen(cause));
        let stage = |(stage, (idle, busy)): (usize, (&[i64; CAUSES], &Nanos))| StageJson {
            stage,
            busy_ns: busy.0,
            optimizer_ns: causes.optimizer.0,
            idle_ns: idle.iter().sum::<i64>() - whole(causes.exposed(stage)),
            streams: causes
                .streams
                .as_ref()
                .map(|all| streams::StreamsJson::of(&all[stage], causes.cost)),
            causes: Cause::ALL
                .into_iter()
                .filter(is_seen)
                .map(|cause| (cause.key(), idle[cause as usize]))
                .collect(),
        };
        let link = |link: &Link| LinkJson {
            stage: link.stage,
            pass: link.span.slot.to_string(),
            start_ns: link.span.start.0,
            end_ns: link.span.end.0,
            waited_for: waited_for(link),
        };
        let lever = |lever: &Lever| LeverJson {
            lever: lever.name.clone(),
            order: if lever.rebuilt { "rebuilt" } else { "kept" },
            step_ns: lever.step.0,
            change_ns: lever.change,
            change: ratio(lever.change, why.levers.base),
        };
        Self {
            cost_ns: causes.cost.0,
            cost_without_ns: without.map(|(cause, cost)| (cause.key(), cost.0)).collect(),
            stages: causes.idle.iter().zip(&causes.busy).enumerate().map(stage).collect(),
            critical_path: why.path.iter().map(link).collect(),
            levers: why.levers.ranked.iter().map(lever).collect(),
            notes: why.levers.notes.iter().map(|&note| levers::note(note)).collect(),
        }
    }
}
