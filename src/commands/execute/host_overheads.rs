//! How far the host keeps ahead of devices that run by themselves, and the cost of a launch and of a
//! hand-over there.

use draw::text;
use executor::{HostBound, Overheads};
use question::sheet::Sheet;
use question::{format, object};
use serde::Serialize;

/// The share of passes from which on the host is said to hold the run up.
const NOTED: f64 = 0.01;

/// All passes of a run, those of every stage; `None` where they run on the host.
pub fn total(stages: &[HostBound]) -> Option<HostBound> {
    stages.iter().copied().reduce(HostBound::and)
}

/// The note about a run whose passes wait for launches of the host.
pub fn note(stages: &[HostBound]) -> Option<String> {
    let all = total(stages).filter(|all| all.share() > NOTED)?;
    let worst = stages.iter().enumerate().max_by(|one, other| {
        // Of equal ones the first.
        one.1.share().total_cmp(&other.1.share()).then(other.0.cmp(&one.0))
    });
    let (stage, most) = worst?;
    Some(format!(
        "the host is too slow: {} of all passes begin before their last kernel is launched (stage \
         {stage}: {}), and their times include waiting for the host; use larger passes \
         (--microbatch-size, --hidden), fewer stages, or a machine with idle cores",
        format::percent(all.share()),
        format::percent(most.share()),
    ))
}

/// The host-bound passes of every schedule and stage, as a table; empty where passes run on the host.
pub fn table<'a>(runs: impl Iterator<Item = (String, &'a [HostBound])>) -> String {
    let runs: Vec<_> = runs.filter(|(_, stages)| !stages.is_empty()).collect();
    let most = runs.iter().map(|(_, stages)| stages.len()).max().unwrap_or(0);
    if most == 0 {
        return String::new();
    }
    let numbers = (0..most).map(|stage| format!("stage {stage}"));
    let header = ["host-bound passes", "all stages"].map(str::to_owned).into_iter().chain(numbers);
    let rows = runs.into_iter().map(|(name, stages)| {
        let cell = |one: Option<HostBound>| {
            one.map_or_else(String::new, |one| format!("{} of {}", one.bound, one.passes))
        };
        let each = (0..most).map(|stage| cell(stages.get(stage).copied()));
        [name, cell(total(stages))].into_iter().chain(each).collect()
    });
    text::sheet(&Sheet::table(header, rows).under_a_gap())
}

/// The cost of the host in a line.
pub fn line(overheads: &Overheads) -> String {
    let Overheads { launches_per_second, threads, launches_per_second_together, hand_over } =
        overheads;
    let thousands = |rate: f64| format!("{:.0} k", rate / 1e3);
    let mut text = format!("host: {} launches/s from 1 thread", thousands(*launches_per_second));
    if *threads > 1 {
        text += &format!(", {} from {threads}", thousands(*launches_per_second_together));
    }
    if let Some(time) = hand_over {
        text += &format!("; a hand-over takes {}", format::time(*time));
    }
    text + "\n"
}

/// The host-bound passes of every stage.
pub fn json(stages: &[HostBound]) -> Vec<impl Serialize + use<>> {
    let one = |(stage, one): (usize, &HostBound)| {
        object!(stage = stage, host_bound_passes = one.bound, passes = one.passes)
    };
    stages.iter().enumerate().map(one).collect()
}

/// The cost of launches and of a hand-over.
#[derive(Serialize)]
pub struct OverheadsJson {
    launches_per_second: f64,
    threads: usize,
    launches_per_second_together: f64,
    #[serde(skip_serializing_if = "Option::is_none")]
    hand_over_ns: Option<u64>,
}

impl From<&Overheads> for OverheadsJson {
    fn from(overheads: &Overheads) -> Self {
        let Overheads { launches_per_second, threads, launches_per_second_together, hand_over } =
            *overheads;
        let hand_over_ns = hand_over.map(|time| time.0);
        Self { launches_per_second, threads, launches_per_second_together, hand_over_ns }
    }
}

/// The cells of a row of the CSV: share of host-bound passes, of all stages and of the worst one.
pub fn cells(stages: &[HostBound]) -> [String; 2] {
    let percent = |share: f64| format!("{:.2}", 100.0 * share);
    let all = total(stages).map_or_else(String::new, |all| percent(all.share()));
    let worst = stages.iter().map(|one| one.share()).reduce(f64::max);
    [all, worst.map_or_else(String::new, percent)]
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_host_that_holds_up_more_than_one_pass_in_a_hundred_is_noted_with_its_worst_stage() {
        let bound = |bound| HostBound { bound, passes: 100 };
        assert_eq!(note(&[]), None);
        assert_eq!(note(&[bound(0), bound(2)]), None);
        let text = note(&[bound(1), bound(6), bound(6)]).unwrap();
        assert!(text.contains("4.33 %") && text.contains("(stage 1: 6.00 %)"), "{text}");
        assert_eq!(cells(&[bound(1), bound(6)]), ["3.50", "6.00"]);
        assert_eq!(cells(&[]), ["", ""]);
    }

    #[test]
    fn counts_stand_by_schedule_and_stage_and_nothing_where_passes_run_on_the_host() {
        let stages = [HostBound { bound: 1, passes: 71 }, HostBound { bound: 0, passes: 71 }];
        let shown = table([("zb-h1".to_owned(), &stages[..])].into_iter());
        assert!(shown.contains("1 of 142") && shown.contains("stage 1"), "{shown}");
        assert_eq!(table([("zb-h1".to_owned(), &[][..])].into_iter()), "");
    }
}
