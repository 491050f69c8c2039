//! Orders in which weights may change while the pipeline runs.

use pipeline::{Kind, Pass, Placement, Schedule};

use crate::weights::Updates;

/// Whether `pass` adds to gradients of weights.
pub(super) const fn weighs(pass: Pass) -> bool {
    matches!(pass.kind, Kind::W | Kind::BW)
}

/// The reason why weights cannot change this way while `schedule` runs, if there is one: every
/// stage must have all gradients of an update before any of the next, and the last stage no forward
/// of the next.
pub(super) fn obstacle(schedule: &Schedule, updates: Updates) -> Option<String> {
    let (shape, every) = (schedule.shape(), updates.microbatches);
    if schedule.placement() != Placement::Looped || shape.chunks_per_stage() != 1 {
        return Some("every stage must hold one chunk of its own".to_owned());
    }
    if every == 0 || !shape.microbatches().is_multiple_of(every) {
        let all = shape.microbatches();
        return Some(format!("{all} microbatches are not whole updates of {every}"));
    }
    let last = shape.stages() - 1;
    for (stage, order) in schedule.orders().iter().enumerate() {
        let mut done = 0;
        for pass in order.passes() {
            let update = pass.microbatch / every;
            let is_early = (weighs(*pass) || (stage == last && pass.kind == Kind::F))
                && update != done / every;
            if is_early {
                return Some(format!("{pass} of stage {stage} comes before update {update}"));
            }
            done += u32::from(weighs(*pass));
        }
    }
    None
}
