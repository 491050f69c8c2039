//! Schedules of zero-bubble forks: sail-sg's, and Primus' copy of it.

use super::super::arguments::{Arguments, Wrong};
use super::Notes;

/// The schedule of sail-sg's flags on `stages` stages, if they turn one on.
pub(in super::super) fn of_zero_bubble(
    arguments: &Arguments,
    stages: u64,
    notes: &mut Notes,
) -> Result<Option<&'static str>, Wrong> {
    let memory = arguments.text("zero-bubble-v-schedule-mem-setup")?;
    let pending = arguments.text("zero-bubble-max-pending-backward")?;
    let pending = pending.and_then(|pending| pending.parse::<u64>().ok());
    let group = arguments.whole("interleave-group-size")?.filter(|group| *group > 0);
    let is_v = arguments.has("zero-bubble-v-schedule");
    let is_plain = arguments.has("enable-zero-bubble");
    let is_early = arguments.has("enable-1f1b-v");
    Ok(match memory.as_deref() {
        Some("min") if is_v => Some("v-min"),
        Some("half") if is_v => Some("v-half"),
        _ if is_v => Some("zb-v"),
        _ if is_plain && pending == Some(stages) => Some("zb-1p"),
        _ if is_plain && pending == Some(stages.saturating_mul(2)) => Some("zb-2p"),
        _ if is_plain => Some("zb-auto"),
        _ if is_early => Some("1f1b-v"),
        _ if arguments.has("enable-zbh1-pipeline") => Some("zb-h1"),
        _ => {
            let note = |group| {
                format!(
                    "groups of {group} microbatches: the schedule gis has its own number of them"
                )
            };
            notes.extend(group.map(note));
            group.map(|_| "gis")
        }
    })
}
