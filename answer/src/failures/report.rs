//! The tables of dead workers.

use pipeline::{Bytes, Nanos};
use question::failures::{DealKey, FailureKeys};
use question::scenario::Scenario;
use question::sheet::Sheet;
use question::{format, table};

use super::asked::default;
use super::{FailureRow, FailuresAnswer, PolicyRow, StepRow, float};

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
    let rows = rows.iter().map(|row| {
        let rerouted = &row.rerouted;
        let (bound, gap) = match staggered {
            true => (rerouted.staggered_bound_ns, rerouted.staggered_gap),
            false => (rerouted.bound_ns, rerouted.gap),
        };
        (row, [row.healthy, rerouted.step].map(|step| step.taken(staggered)), bound, gap)
    });
    table!(
        (row, [healthy, rerouted], bound, gap) = rows,
        "schedule" = name(row),
        "backward" = row.backward,
        "dead" = row.dead.join(" "),
        "healthy" = Nanos(healthy),
        "rerouted" = Nanos(rerouted),
        "longer" = longer(rerouted, healthy),
        "bound" = Nanos(bound),
        "gap" = format::percent(gap),
        "pipeline dropped" = row.dropped.as_ref().map(|one| Nanos(one.step.taken(staggered))),
        "fault-scaled"[!staggered] = Nanos(row.fault_scaled_ns),
        "than healthy, not staggered"[staggered] = longer(rerouted, row.healthy.step_ns),
        "fits"[limited] = fits(row),
    )
}

fn memory(rows: &[&FailureRow]) -> Sheet {
    let size = |row: &FailureRow, bytes: u64| match row.counts_chunks {
        true => bytes.to_string(),
        false => format::size(Bytes(bytes)),
    };
    table!(
        row = rows,
        "activations" = name(row),
        "backward" = row.backward,
        "limit" = row.rerouted.limit_bytes.map(|bytes| size(row, bytes)),
        "held at most" = size(row, row.rerouted.peak_bytes),
        "rerouted" = Nanos(row.rerouted.step.step_ns),
        "held without a limit" = size(row, row.unlimited.peak_bytes),
        "rerouted without a limit" = Nanos(row.unlimited.step.step_ns),
    )
}

fn borne(rows: &[&FailureRow]) -> Sheet {
    let step = |of: Option<StepRow>| of.map(|one| Nanos(one.step_ns));
    let staggered = |of: Option<StepRow>| of.map(|one| Nanos(one.staggered_ns));
    table!(
        (row, one) = rows.iter().flat_map(|row| row.borne.iter().map(move |one| (row, one))),
        "dead by chance" = name(row),
        "backward" = row.backward,
        "dead" = one.dead,
        "every stage lives" = format::percent(one.survival),
        "sets" = one.sets,
        "mean step" = step(one.mean),
        "worst step" = step(one.worst),
        "mean staggered" = staggered(one.mean),
        "worst staggered" = staggered(one.worst),
    )
}

fn policies(rows: &[&FailureRow]) -> Sheet {
    let mut all: Vec<(&FailureRow, &PolicyRow)> =
        rows.iter().flat_map(|row| row.policies.iter().map(|one| (*row, one))).collect();
    for setting in all.chunk_by_mut(|(one, _), (other, _)| one.setting == other.setting) {
        setting.sort_by(|(_, one), (_, other)| one.by_rate(other));
    }
    let starts = (0..all.len()).filter(|&at| at == 0 || all[at - 1].0.setting != all[at].0.setting);
    let best = starts.filter(|&at| all[at].1.fits != Some(false));
    let sheet = table!(
        (row, one) = &all,
        "in the long run" = name(row),
        "backward" = row.backward,
        "policy" = one.policy,
        "steps/h" = format!("{:.1}", one.steps_per_hour),
        "goodput" = format::percent(one.goodput),
        "overhead" = format::percent(one.overhead),
        "stopped" = format::percent(one.stopped),
        "workers" = one.workers,
        "steps/h of a worker" = format!("{:.3}", one.steps_per_worker_hour),
        "fits"[all.iter().any(|(_, one)| one.fits.is_some())] = one.fits,
    );
    sheet.with_best(best)
}
