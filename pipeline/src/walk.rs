//! The dry run that proves a set of orders free of deadlock, or finds the cycle of waits.

use crate::fault::{Cycle, Fault, Wait};
use crate::order::Order;
use crate::pass::{Pass, Slot, Value};
use crate::shape::{Placement, Shape};

/// The next `passes` passes of `stage`, none of which needs a value that is not made by then.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct WalkStep {
    /// The stage that runs.
    pub stage: u32,
    /// Number of passes that it does; a pair is never torn apart.
    pub passes: u32,
}

/// State of a value that has been made; any other state is the last stage in line for it, plus 1,
/// or 0 if no stage waits.
const MADE: u32 = u32::MAX;

/// Runs every stage as far as it can, until all are done or all are blocked.
///
/// Linear in the number of passes: a stage that must wait stands in line for the value it lacks and
/// is called when that value is made.
pub(crate) fn walk(
    shape: Shape,
    placement: Placement,
    orders: &[Order],
) -> Result<Vec<WalkStep>, Fault> {
    let mut values = vec![0u32; shape.value_cells()];
    let mut makers = Makers::new(shape);
    let mut next_in_line = vec![0u32; orders.len()];
    let mut at = vec![0usize; orders.len()];
    let mut ready: Vec<u32> = (0..u32::from(u16::MAX)).take(orders.len()).rev().collect();
    let mut runs = Vec::new();
    while let Some(stage) = ready.pop() {
        let here = stage as usize;
        let order = &orders[here];
        let begin = at[here];
        while at[here] < order.passes().len() {
            let slot = order.slot_at(at[here]);
            if let Some(value) =
                first_lacking(slot, shape, |value| values[shape.value_cell(value)] == MADE)
            {
                let line = &mut values[shape.value_cell(value)];
                next_in_line[here] = std::mem::replace(line, stage + 1);
                break;
            }
            for pass in slot.passes() {
                at[here] += 1;
                let Some(value) = pass.makes() else { continue };
                if !makers.last(value) {
                    continue;
                }
                let mut waiting = std::mem::replace(&mut values[shape.value_cell(value)], MADE);
                while waiting != 0 {
                    ready.push(waiting - 1);
                    waiting = next_in_line[waiting as usize - 1];
                }
            }
        }
        let passes = u32::try_from(at[here] - begin).unwrap_or(u32::MAX);
        if passes > 0 {
            runs.push(WalkStep { stage, passes });
        }
    }
    match (0..orders.len()).find(|&stage| at[stage] < orders[stage].passes().len()) {
        None => Ok(runs),
        Some(stuck) => {
            let made = |value: Value| values[shape.value_cell(value)] == MADE;
            Err(Fault::Deadlock(cycle(shape, placement, orders, &at, made, stuck)))
        }
    }
}

/// Number of passes that are still to come for each value that all stages make together.
struct Makers {
    shape: Shape,
    left: Vec<u16>,
}

impl Makers {
    fn new(shape: Shape) -> Self {
        let shared = shape.value_cells() - 2 * shape.cells();
        Self { shape, left: vec![u16::try_from(shape.stages()).unwrap_or(u16::MAX); shared] }
    }

    /// Whether the pass that has run is the last that `value` waits for.
    #[inline]
    fn last(&mut self, value: Value) -> bool {
        if value.chunk().is_some() {
            return true;
        }
        let left = &mut self.left[self.shape.value_cell(value) - 2 * self.shape.cells()];
        *left -= 1;
        *left == 0
    }
}

/// A loop, not a chain of iterators: those are not inlined, and this is asked of every pass.
#[inline]
fn first_lacking(slot: Slot, shape: Shape, made: impl Fn(Value) -> bool) -> Option<Value> {
    for pass in slot.passes() {
        for value in pass.needs(shape) {
            if !made(value) {
                return Some(value);
            }
        }
    }
    None
}

/// Follows "waits for a pass that stands behind" from the stage `stuck` until it closes a ring.
fn cycle(
    shape: Shape,
    placement: Placement,
    orders: &[Order],
    at: &[usize],
    made: impl Fn(Value) -> bool,
    stuck: usize,
) -> Cycle {
    let maker_to_come = |value: Value| {
        let stages = placement.maker(shape, value).map_or(0..orders.len(), |on| on..on + 1);
        let to_come = |on: usize| orders[on].passes()[at[on]..].iter().copied();
        let makes = |pass: &Pass| pass.makes() == Some(value);
        stages.into_iter().find_map(|on| Some((on, to_come(on).find(makes)?)))
    };
    let mut waits: Vec<Wait> = Vec::new();
    let mut place = vec![None; orders.len()];
    let mut stage = stuck;
    while place[stage].is_none() {
        let slot = orders[stage].slot_at(at[stage]);
        let lacking = slot.passes().find_map(|pass| {
            let value = pass.needs(shape).find(|&value| !made(value))?;
            let (on, needs) = maker_to_come(value)?;
            Some(Wait { stage, pass, needs, on })
        });
        // Every value has a maker and a stage stops only where it lacks one, so there is a wait.
        let Some(wait) = lacking else { break };
        place[stage] = Some(waits.len());
        waits.push(wait);
        stage = wait.on;
    }
    Cycle(waits.split_off(place[stage].unwrap_or(0)))
}
