//! The dry run that proves a set of orders free of deadlock, or finds the cycle of waits.

use crate::fault::{Cycle, Fault, Wait};
use crate::order::Order;
use crate::pass::{Pass, Value};
use crate::shape::{Placement, Shape};

/// The next `passes` passes of `stage`, none of which needs a value that is not made by then.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct WalkStep {
    /// The stage that runs.
    pub stage: u16,
    /// Number of passes that it does; a pair is never torn apart.
    pub passes: u16,
}

/// The number of passes from which on neither a pass nor a pair is added to a step.
const FULL: usize = u16::MAX as usize - 1;

/// A walk over all stages.
#[derive(Clone, PartialEq, Eq, Debug)]
pub(crate) struct Walk {
    pub(crate) steps: Vec<WalkStep>,
    /// Values of a row that the walk keeps at a time, a power of two: when a value is read, fewer later ones of its row are
    /// made. Nothing where rows are not made in the order of microbatches.
    pub(crate) columns: Option<u32>,
}

/// Runs every stage as far as it can, until all are done or all are blocked.
///
/// Linear in the number of passes: a stage that must wait stands in line for the value it lacks and
/// is called when that value is made.
pub(crate) fn walk(shape: Shape, placement: Placement, orders: &[Order]) -> Result<Walk, Fault> {
    let ended = |at: &[usize]| at.iter().zip(orders).position(|(&at, of)| at < of.passes().len());
    let mut rows = Rows { shape, rows: vec![Row::default(); 2 * usize::from(shape.chunks())] };
    if let Some((steps, at)) = run(shape, orders, &mut rows)
        && ended(&at).is_none()
    {
        return Ok(Walk { steps, columns: rows.columns() });
    }
    let mut cells = Cells::new(shape, orders.len());
    let (steps, at) = run(shape, orders, &mut cells).unwrap_or_default();
    match ended(&at) {
        None => Ok(Walk { steps, columns: None }),
        Some(stuck) => {
            let made = |value: Value| cells.values[shape.value_cell(value)] == MADE;
            Err(Fault::Deadlock(cycle(shape, placement, orders, &at, made, stuck)))
        }
    }
}

/// Which values have been made, and which stages wait for which.
trait Values {
    fn has(&mut self, value: Value) -> bool;

    /// Puts `stage` in line for `value`; nothing if there is no place for it.
    fn wait(&mut self, value: Value, stage: u32) -> Option<()>;

    /// Notes that a pass has made `value` or its part of it, and calls the stages that waited, the last first; nothing if that
    /// cannot be noted.
    fn make(&mut self, value: Value, call: impl FnMut(u32)) -> Option<()>;
}

/// The walk, and how many passes of each stage it has; nothing where `values` cannot follow it.
fn run(
    shape: Shape,
    orders: &[Order],
    values: &mut impl Values,
) -> Option<(Vec<WalkStep>, Vec<usize>)> {
    let mut at = vec![0usize; orders.len()];
    let mut ready: Vec<u32> = (0..u32::from(u16::MAX)).take(orders.len()).rev().collect();
    let mut steps = Vec::new();
    while let Some(stage) = ready.pop() {
        let here = stage as usize;
        let order = &orders[here];
        let begin = at[here];
        let passes = order.passes();
        while let Some(&pass) = passes.get(at[here]) {
            if at[here] - begin >= FULL {
                ready.push(stage);
                break;
            }
            let other = order.is_pair(at[here]).then(|| passes[at[here] + 1]);
            let lacking = lacking(pass, shape, values);
            let lacking = lacking.or_else(|| self::lacking(other?, shape, values));
            if let Some(value) = lacking {
                values.wait(value, stage)?;
                break;
            }
            for pass in [Some(pass), other].into_iter().flatten() {
                at[here] += 1;
                if let Some(value) = pass.makes() {
                    values.make(value, |waiting| ready.push(waiting))?;
                }
            }
        }
        if at[here] > begin {
            let narrow = |count: usize| u16::try_from(count).unwrap_or(u16::MAX);
            steps.push(WalkStep { stage: narrow(here), passes: narrow(at[here] - begin) });
        }
    }
    Some((steps, at))
}

/// Values of chunks that are made in the order of microbatches, with one stage at most in line for those of a row: some
/// numbers a row, however many microbatches there are.
struct Rows {
    shape: Shape,
    rows: Vec<Row>,
}

#[derive(Clone, Copy, Default)]
struct Row {
    /// Microbatches whose value is made.
    made: u32,
    /// The most that were made from a value on when it was read.
    most: u32,
    /// The stage that waits, plus 1; 0 if none does.
    waiting: u32,
    /// The microbatch that it waits for.
    wanted: u32,
}

impl Rows {
    fn columns(&self) -> Option<u32> {
        let most = self.rows.iter().map(|row| row.most).max()?;
        most.max(1).checked_next_power_of_two().filter(|&all| all < self.shape.microbatches())
    }
}

impl Values for Rows {
    #[inline]
    fn has(&mut self, value: Value) -> bool {
        // Values that all stages make have no row here, and are not made.
        let Some(row) = self.rows.get_mut(value.row(self.shape)) else { return false };
        match row.made.checked_sub(value.microbatch()) {
            None | Some(0) => false,
            Some(since) => {
                row.most = row.most.max(since);
                true
            }
        }
    }

    fn wait(&mut self, value: Value, stage: u32) -> Option<()> {
        let row = self.rows.get_mut(value.row(self.shape)).filter(|row| row.waiting == 0)?;
        (row.waiting, row.wanted) = (stage + 1, value.microbatch());
        Some(())
    }

    #[inline]
    fn make(&mut self, value: Value, mut call: impl FnMut(u32)) -> Option<()> {
        let row = self.rows.get_mut(value.row(self.shape))?;
        if value.microbatch() != row.made {
            return None;
        }
        row.made += 1;
        if row.waiting != 0 && row.wanted < row.made {
            call(row.waiting - 1);
            row.waiting = 0;
        }
        Some(())
    }
}

/// State of a value that has been made; any other state is the last stage in line for it, plus 1,
/// or 0 if no stage waits.
const MADE: u32 = u32::MAX;

/// Every value by itself.
struct Cells {
    shape: Shape,
    values: Vec<u32>,
    next_in_line: Vec<u32>,
    /// Number of passes that are still to come for each value that all stages make together.
    left: Vec<u16>,
}

impl Cells {
    fn new(shape: Shape, stages: usize) -> Self {
        let shared = shape.value_cells() - 2 * shape.cells();
        Self {
            shape,
            values: vec![0; shape.value_cells()],
            next_in_line: vec![0; stages],
            left: vec![u16::try_from(shape.stages()).unwrap_or(u16::MAX); shared],
        }
    }

    /// Whether the pass that has run is the last that `value` waits for.
    fn is_last(&mut self, value: Value) -> bool {
        if value.chunk().is_some() {
            return true;
        }
        let left = &mut self.left[self.shape.value_cell(value) - 2 * self.shape.cells()];
        *left -= 1;
        *left == 0
    }
}

impl Values for Cells {
    #[inline]
    fn has(&mut self, value: Value) -> bool {
        self.values[self.shape.value_cell(value)] == MADE
    }

    fn wait(&mut self, value: Value, stage: u32) -> Option<()> {
        let line = &mut self.values[self.shape.value_cell(value)];
        self.next_in_line[stage as usize] = std::mem::replace(line, stage + 1);
        Some(())
    }

    #[inline]
    fn make(&mut self, value: Value, mut call: impl FnMut(u32)) -> Option<()> {
        if !self.is_last(value) {
            return Some(());
        }
        let mut waiting = std::mem::replace(&mut self.values[self.shape.value_cell(value)], MADE);
        while waiting != 0 {
            call(waiting - 1);
            waiting = self.next_in_line[waiting as usize - 1];
        }
        Some(())
    }
}

/// The first value that `pass` lacks. Matches, not chains of iterators: those are not inlined, and this is asked of every
/// pass.
#[inline]
fn lacking(pass: Pass, shape: Shape, values: &mut impl Values) -> Option<Value> {
    let [one, other] = pass.both_needs(shape);
    match one {
        Some(value) if !values.has(value) => one,
        _ => match other {
            Some(value) if !values.has(value) => other,
            _ => None,
        },
    }
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

#[cfg(test)]
mod tests {
    use super::*;
    use crate::{Costs, Family, Kind, Nanos, PassTimes, Problem, Schedule, Slot};

    /// Schedules of all families, of few stages and many.
    fn schedules() -> impl Iterator<Item = Schedule> {
        let shapes = [(1, 1, 5), (2, 2, 4), (3, 1, 20), (4, 2, 12), (4, 4, 40), (6, 2, 7)];
        shapes.into_iter().flat_map(|(stages, chunks, microbatches)| {
            Family::ALL.into_iter().filter_map(move |family| {
                let chunks = family.about().chunks.of(Some(chunks));
                let shape = Shape::new(stages, chunks, microbatches).ok()?;
                let times = PassTimes::new(Nanos(5), Nanos(6), Nanos(3));
                let problem = Problem::new(shape, Costs::uniform(shape, times, Nanos(1))).ok()?;
                family.schedule(&problem).ok()
            })
        })
    }

    #[test]
    fn a_walk_by_rows_is_that_by_values() {
        let (mut by_rows, mut all) = (0, 0);
        for schedule in schedules() {
            let (shape, orders) = (schedule.shape(), schedule.orders());
            let cells = run(shape, orders, &mut Cells::new(shape, orders.len())).unwrap();
            assert_eq!(schedule.walk(), cells.0);
            all += 1;
            by_rows += usize::from(schedule.columns().is_some());
        }
        assert!(all > 100 && 3 * by_rows > all, "{by_rows} of {all}");
    }

    /// A stage alone whose step ends between two passes of a pair, if pairs are torn.
    fn long_pairs() -> Schedule {
        let shape = Shape::new(1, 1, 40_000).unwrap();
        let pass = |kind, microbatch| Pass { kind, chunk: 0, microbatch };
        let mut order = Order::with_capacity(80_000);
        for microbatch in [0, 1] {
            order.push(Slot::One(pass(Kind::F, microbatch)));
        }
        for microbatch in 2..40_000 {
            order.push(Slot::Pair(pass(Kind::F, microbatch), pass(Kind::BW, microbatch - 2)));
        }
        for microbatch in [39_998, 39_999] {
            order.push(Slot::One(pass(Kind::BW, microbatch)));
        }
        Schedule::new(shape, Placement::Looped, vec![order]).unwrap()
    }

    #[test]
    fn no_step_is_longer_than_its_count_can_say() {
        let times = PassTimes::new(Nanos(5), Nanos(6), Nanos(3));
        let families = [(Family::GPipe, 1), (Family::GPipe, 2), (Family::DualPipe, 2)];
        let of_family = |(family, stages): (Family, u64)| {
            let shape = Shape::new(stages, 1, 100_000).unwrap();
            let problem = Problem::new(shape, Costs::uniform(shape, times, Nanos(1))).unwrap();
            family.schedule(&problem).unwrap()
        };
        for schedule in families.into_iter().map(of_family).chain([long_pairs()]) {
            let mut at = vec![0; schedule.shape().stages()];
            for step in schedule.walk() {
                let (stage, passes) = (usize::from(step.stage), usize::from(step.passes));
                at[stage] += passes;
                let pairs = schedule.orders()[stage].pairs();
                assert!(pairs.binary_search(&(at[stage] - 1)).is_err(), "a pair is torn");
            }
            let all: Vec<usize> =
                schedule.orders().iter().map(|order| order.passes().len()).collect();
            assert_eq!(at, all);
        }
    }

    #[test]
    fn columns_keep_each_value_until_it_is_read() {
        for schedule in schedules() {
            let Some(columns) = schedule.columns() else { continue };
            let shape = schedule.shape();
            let cell = |value: Value| {
                value.row(shape) * columns as usize + (value.microbatch() % columns) as usize
            };
            let mut kept = vec![None; shape.rows() * columns as usize];
            let mut at = vec![0; shape.stages()];
            for step in schedule.walk() {
                let stage = step.stage as usize;
                let next = at[stage] + step.passes as usize;
                while at[stage] < next {
                    let slot = schedule.orders()[stage].slot_at(at[stage]);
                    for value in slot.passes().flat_map(|pass| pass.needs(shape)) {
                        assert_eq!(kept[cell(value)], Some(value), "{schedule}");
                    }
                    for value in slot.passes().filter_map(Pass::makes) {
                        kept[cell(value)] = Some(value);
                    }
                    at[stage] += slot.passes().count();
                }
            }
        }
    }
}
