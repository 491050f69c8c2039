//! The tables of dead workers.

use pipeline::{Bytes, Nanos};
use question::failures::{DealKey, FailureKeys};
use question::format;
use question::scenario::Scenario;
use question::sheet::Sheet;

use super::asked::default;
use super::{FailureRow, FailuresAnswer, float};

/// Columns of a line of words.
const COLUMNS: usize = 110;

/// The columns of CSV, each with its place in the JSON of a row.
pub(super) const COLUMNS_OF_CSV: &[(&str, &str)] = &[
    ("setting", "setting"),
    ("schedule", "schedule"),
    ("backward", "backward"),
    ("pipelines", "pipelines"),
    ("stages", "stages"),
    ("microbatches", "microbatches"),
    ("dead", "dead"),
    ("healthy_ns", "healthy.step_ns"),
    ("rerouted_ns", "rerouted.step_ns"),
    ("bound_ns", "rerouted.bound_ns"),
    ("staggered_healthy_ns", "healthy.staggered_ns"),
    ("staggered_rerouted_ns", "rerouted.staggered_ns"),
    ("staggered_bound_ns", "rerouted.staggered_bound_ns"),
    ("dropped_ns", "dropped.step_ns"),
    ("fault_scaled_ns", "fault_scaled_ns"),
    ("peak_bytes", "rerouted.peak_bytes"),
    ("unlimited_ns", "unlimited.step_ns"),
    ("unlimited_peak_bytes", "unlimited.peak_bytes"),
];

/// What was assumed, a sentence each.
pub(super) fn assumed(scenario: &Scenario, keys: &FailureKeys) -> Vec<String> {
    let mut all = vec![
        "every pipeline has the stages, times and microbatches of the question, and a worker that dies has a peer \
         with its weights in every other pipeline"
            .to_owned(),
        match keys.deal {
            DealKey::Balanced => "microbatches of dead workers go to the peer with the least work",
            DealKey::InTurn => "microbatches of each dead worker go to its peers in turn",
        }
        .to_owned(),
        match keys.peer_hop {
            Some(hop) => format!("a hop to another pipeline takes {hop}"),
            None => "a hop to another pipeline takes as long as one within".to_owned(),
        },
        match keys.update {
            Some(time) => format!("all-reduce and optimizer of a stage take {time} after its last pass"),
            None => "all-reduce and optimizer of a stage take what the scenario says of its step boundary, or no time"
                .to_owned(),
        },
    ];
    if scenario.settings.iter().any(|setting| setting.keys.hardware.cluster.is_some()) {
        all.push("transfers take the time of an idle network and block no worker".to_owned());
    }
    if keys.most_dead > 1 || keys.mtbf.is_some() {
        all.push(format!(
            "steps with several dead workers are means over {} sets of them, drawn by chance",
            keys.draws
        ));
    }
    if let Some(mtbf) = keys.mtbf {
        let time = |key: Option<Nanos>, or: Nanos| key.unwrap_or(or).to_string();
        all.push(format!(
            "workers fail by chance, any of them every {mtbf} in the mean, and are back after {} in the mean",
            time(keys.repair, default::REPAIR)
        ));
        all.push(format!(
            "reroute and drop-pipeline take {} to go on after a failure, lose half of a step, and take as long \
             when a worker is back; a stage without a live worker waits for a repair",
            time(keys.reconfigure, default::RECONFIGURE)
        ));
        let checkpoints = match keys.checkpoint_interval {
            Some(interval) => format!("every {interval}"),
            None => "at the interval that loses least (Daly 2006)".to_owned(),
        };
        all.push(format!(
            "wait-for-spare has {} spares, restarts in {}, and writes checkpoints in {} {checkpoints}",
            keys.spares,
            time(keys.restart, default::RESTART),
            time(keys.checkpoint, default::CHECKPOINT),
        ));
    }
    all
}

pub(super) fn name(row: &FailureRow) -> String {
    let setting = row.setting.iter().map(|name| format!("{name}: ")).collect::<String>();
    format!("{setting}{}", row.schedule)
}

fn longer(time: u64, than: u64) -> String {
    format::signed_percent(float(time) / float(than.max(1)) - 1.0)
}

pub(super) fn time(nanos: u64) -> String {
    format::time(Nanos(nanos))
}

/// The headline, the tables with the shortest steps and the most steps per hour first, and the words below them.
pub(super) fn sheet(answer: &FailuresAnswer) -> Sheet {
    let mut rows: Vec<&FailureRow> = answer.results.iter().collect();
    rows.sort_by_key(|row| {
        let dropped = row.dropped_that_fits().map_or(u64::MAX, |one| one.step.step_ns);
        let setting = answer.results.iter().position(|one| one.setting == row.setting);
        (setting, row.healthy_fits == Some(false), dropped.min(row.rerouted.step.step_ns))
    });
    let rows = &rows[..];
    let mut sheet = Sheet::default().and_text(heading(rows)).and(steps(rows, false));
    sheet.push_text(
        "\nstaggered optimizer: a stage begins its next step when its own optimizer is done\n",
    );
    sheet.push(steps(rows, true));
    sheet.push(memory(rows).under_a_gap());
    if rows.iter().any(|row| !row.borne.is_empty()) {
        sheet.push(borne(rows).under_a_gap());
    }
    if rows.iter().any(|row| !row.policies.is_empty()) {
        sheet.push(policies(rows).under_a_gap());
    }
    let wrapped = |one: &String| format::wrapped(&format!("assumed: {one}"), COLUMNS, "  ");
    let assumed = answer.assumed.iter().map(|one| format!("{}\n", wrapped(one).trim_end()));
    sheet.and_text(format!("\n{}", assumed.collect::<String>())).headed(&answer.headline)
}

/// Whether the steps of a row that rerouting does not make keep the memory limit.
fn fits(row: &FailureRow) -> &'static str {
    match (row.healthy_fits, row.dropped.as_ref().and_then(|one| one.fits)) {
        (Some(false), Some(false)) => "no: healthy, dropped",
        (Some(false), _) => "no: healthy",
        (_, Some(false)) => "no: dropped",
        (None, None) => "-",
        _ => "yes",
    }
}

fn heading(rows: &[&FailureRow]) -> String {
    let of = |row: &&FailureRow| {
        format!(
            "{} pipelines of {} stages, {} microbatches each",
            row.pipelines, row.stages, row.microbatches
        )
    };
    let Some(first) = rows.first() else { return String::new() };
    let same = rows.iter().all(|row| of(row) == of(first));
    if same { format!("{}\n", of(first)) } else { String::new() }
}

fn steps(rows: &[&FailureRow], staggered: bool) -> Sheet {
    let limited = rows.iter().any(|row| row.healthy_fits.is_some());
    let row = |row: &&FailureRow| {
        let healthy = row.healthy.taken(staggered);
        let rerouted = row.rerouted.step.taken(staggered);
        let (bound, gap) = match staggered {
            true => (row.rerouted.staggered_bound_ns, row.rerouted.staggered_gap),
            false => (row.rerouted.bound_ns, row.rerouted.gap),
        };
        let dropped = row.dropped.as_ref().map(|one| one.step.taken(staggered));
        let mut cells = vec![
            name(row),
            row.backward.to_owned(),
            row.dead.join(" "),
            time(healthy),
            time(rerouted),
            longer(rerouted, healthy),
            time(bound),
            format::percent(gap),
            dropped.map_or_else(|| "-".to_owned(), time),
        ];
        cells.push(match staggered {
            true => longer(rerouted, row.healthy.step_ns),
            false => time(row.fault_scaled_ns),
        });
        cells.extend(limited.then(|| fits(row).to_owned()));
        cells
    };
    let last = if staggered { "than healthy, not staggered" } else { "fault-scaled" };
    let mut header = vec![
        "schedule",
        "backward",
        "dead",
        "healthy",
        "rerouted",
        "longer",
        "bound",
        "gap",
        "pipeline dropped",
        last,
    ];
    header.extend(limited.then_some("fits"));
    Sheet::table(&header, rows.iter().map(row))
}

fn memory(rows: &[&FailureRow]) -> Sheet {
    let row = |row: &&FailureRow| {
        let size = |bytes: u64| match row.counts_chunks {
            true => bytes.to_string(),
            false => format::size(Bytes(bytes)),
        };
        vec![
            name(row),
            row.backward.to_owned(),
            row.rerouted.limit_bytes.map_or_else(|| "-".to_owned(), size),
            size(row.rerouted.peak_bytes),
            time(row.rerouted.step.step_ns),
            size(row.unlimited.peak_bytes),
            time(row.unlimited.step.step_ns),
        ]
    };
    let header = [
        "activations",
        "backward",
        "limit",
        "held at most",
        "rerouted",
        "held without a limit",
        "rerouted without a limit",
    ];
    Sheet::table(&header, rows.iter().map(row))
}

fn borne(rows: &[&FailureRow]) -> Sheet {
    let cells = |row: &FailureRow, one: &super::BorneRow| {
        let step =
            |of: Option<super::StepRow>| of.map_or_else(|| "-".to_owned(), |one| time(one.step_ns));
        let staggered = |of: Option<super::StepRow>| {
            of.map_or_else(|| "-".to_owned(), |one| time(one.staggered_ns))
        };
        vec![
            name(row),
            row.backward.to_owned(),
            one.dead.to_string(),
            format::percent(one.survival),
            one.sets.to_string(),
            step(one.mean),
            step(one.worst),
            staggered(one.mean),
            staggered(one.worst),
        ]
    };
    let all = rows.iter().flat_map(|row| row.borne.iter().map(move |one| cells(row, one)));
    let header = [
        "dead by chance",
        "backward",
        "dead",
        "every stage lives",
        "sets",
        "mean step",
        "worst step",
        "mean staggered",
        "worst staggered",
    ];
    Sheet::table(&header, all)
}

fn policies(rows: &[&FailureRow]) -> Sheet {
    let mut all: Vec<(&FailureRow, &super::PolicyRow)> =
        rows.iter().flat_map(|row| row.policies.iter().map(|one| (*row, one))).collect();
    for setting in all.chunk_by_mut(|(one, _), (other, _)| one.setting == other.setting) {
        setting.sort_by(|(_, one), (_, other)| one.by_rate(other));
    }
    let limited = all.iter().any(|(_, one)| one.fits.is_some());
    let cells = |&(row, one): &(&FailureRow, &super::PolicyRow)| {
        let mut cells = vec![
            name(row),
            row.backward.to_owned(),
            one.policy.to_owned(),
            format!("{:.1}", one.steps_per_hour),
            format::percent(one.goodput),
            format::percent(one.overhead),
            format::percent(one.stopped),
            one.workers.to_string(),
            format!("{:.3}", one.steps_per_worker_hour),
        ];
        cells.extend(one.fits.map(|fits| if fits { "yes" } else { "no" }.to_owned()));
        cells
    };
    let mut header = vec![
        "in the long run",
        "backward",
        "policy",
        "steps/h",
        "goodput",
        "overhead",
        "stopped",
        "workers",
        "steps/h of a worker",
    ];
    header.extend(limited.then_some("fits"));
    let starts = (0..all.len()).filter(|&at| at == 0 || all[at - 1].0.setting != all[at].0.setting);
    let best = starts.filter(|&at| all[at].1.fits != Some(false));
    Sheet::table(&header, all.iter().map(cells)).with_best(best)
}
