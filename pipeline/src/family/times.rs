//! When the slots of an order run as long as no copy holds them up and the output layer is whole: what
//! copies are planned by, and what S and T are put in by.

use crate::costs::Costs;
use crate::pass::{Pass, Slot, Value};
use crate::schedule::Schedule;

/// Start and end of each slot in nanoseconds, stage by stage.
pub(super) fn spans(schedule: &Schedule, costs: &Costs) -> Vec<Vec<[u64; 2]>> {
    let places = (schedule.shape(), schedule.placement());
    let way = |value, stage| costs.arrival(value, places, stage).0;
    spans_of(schedule, |slot| costs.of_slot(slot).0, way)
}

/// Start and end of each slot, stage by stage, by one pass along the schedule's walk: a slot takes `time`, and a
/// value `way` to another stage.
pub(crate) fn spans_of(
    schedule: &Schedule,
    time: impl Fn(Slot) -> u64,
    way: impl Fn(Value, usize) -> u64,
) -> Vec<Vec<[u64; 2]>> {
    let (shape, placement) = (schedule.shape(), schedule.placement());
    let mut made = vec![0u64; shape.value_cells()];
    let mut spans: Vec<Vec<[u64; 2]>> = vec![Vec::new(); shape.stages()];
    let mut at = vec![0usize; shape.stages()];
    for run in schedule.walk() {
        let stage = run.stage as usize;
        let end = at[stage] + run.passes as usize;
        while at[stage] < end {
            let slot = schedule.orders()[stage].slot_at(at[stage]);
            let mut start = spans[stage].last().map_or(0, |&[_, end]| end);
            for value in slot.passes().flat_map(|pass| pass.needs(shape)) {
                let is_own = placement.maker(shape, value) == Some(stage);
                let way = if is_own { 0 } else { way(value, stage) };
                start = start.max(made[shape.value_cell(value)] + way);
            }
            let end = start + time(slot);
            for value in slot.passes().filter_map(Pass::makes) {
                let made = &mut made[shape.value_cell(value)];
                *made = end.max(*made);
            }
            at[stage] += slot.passes().count();
            spans[stage].push([start, end]);
        }
    }
    spans
}
