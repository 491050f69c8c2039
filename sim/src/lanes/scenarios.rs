//! Scenarios of other durations and hops.

use std::borrow::Borrow;

use pipeline::{Costs, Fault, Slot};

use super::order::{CompiledOrder, Row, Work};
use super::{Clocks, Lanes, StepTimes, later};

/// Scenarios that are timed at once: as many as keep a clock in registers.
pub const SCENARIOS: usize = 8;

/// Times an order under [`SCENARIOS`] costs at once. Its tables serve any number of calls.
pub struct Scenarios<O> {
    order: O,
    /// Duration and hop of each row.
    rows: Vec<[Lanes<SCENARIOS>; 2]>,
    /// Sum of all slots of all stages.
    busy: [u128; SCENARIOS],
    clocks: Clocks<SCENARIOS>,
}

impl<O: Borrow<CompiledOrder>> Scenarios<O> {
    /// Scenarios of `order` in which nothing takes time.
    #[must_use]
    pub fn new(order: O) -> Self {
        let of = order.borrow();
        let (rows, clocks) = (vec![[Lanes::ZERO; 2]; of.rows.len()], Clocks::new(of));
        Self { order, rows, busy: [0; SCENARIOS], clocks }
    }

    /// Gives the scenario in `lane` the times of `costs`; returns whether lanes have them, which they do unless the work
    /// of microbatches differs.
    ///
    /// # Errors
    /// If `costs` are those of another pipeline, or so large that the clock overflows.
    ///
    /// # Panics
    /// If there is no such lane.
    pub fn set(&mut self, lane: usize, costs: &Costs) -> Result<bool, Fault> {
        self.set_with(lane, costs, |_, _, time| time)
    }

    /// The same with hops as `hop_of` changes them, by the stages that they are between.
    #[allow(clippy::cast_precision_loss)]
    pub(crate) fn set_with(
        &mut self,
        lane: usize,
        costs: &Costs,
        hop_of: impl Fn(usize, usize, u64) -> u64,
    ) -> Result<bool, Fault> {
        let order = self.order.borrow();
        let (shape, placement) = order.at;
        costs.check(shape)?;
        costs.hops().check_placed(shape, placement)?;
        self.busy[lane] = 0;
        for (row, [durations, hops]) in order.rows.iter().zip(&mut self.rows) {
            let [duration, hop] = nominal(row, costs);
            let hop = row.from.map_or(0, |from| hop_of(from, row.stage, hop));
            self.busy[lane] += u128::from(duration) * u128::from(row.count);
            (durations.0[lane], hops.0[lane]) = (duration as f64, hop as f64);
        }
        Ok(costs.microbatch_work().is_none())
    }

    /// The step of each scenario; nothing where floats do not count it exactly.
    pub fn replay(&mut self) -> [Option<StepTimes>; SCENARIOS] {
        let order = self.order.borrow();
        let Clocks { free, made } = &mut self.clocks;
        free.fill(Lanes::ZERO);
        let mut rest = &order.ops[..];
        for &length in &order.runs {
            let (run, behind) = rest.split_at(length as usize);
            rest = behind;
            let Some(first) = run.first() else { continue };
            let mut clock = free[first.stage as usize].0;
            for op in run {
                let [durations, hops] = &self.rows[op.row as usize];
                let needs = made[op.needs as usize].0;
                for lane in 0..SCENARIOS {
                    let ready = needs[lane] + hops.0[lane];
                    clock[lane] = later(clock[lane], ready) + durations.0[lane];
                }
                made[op.makes as usize] = Lanes(clock);
            }
            free[first.stage as usize] = Lanes(clock);
        }
        let (ends, stages) = (self.clocks.ends(), order.stages);
        std::array::from_fn(|lane| {
            let [span, makespan] = ends[lane]?;
            Some(StepTimes { span, makespan, busy: self.busy[lane], stages })
        })
    }
}

/// Duration and hop of `row` under `costs`, in nanoseconds.
pub(super) fn nominal(row: &Row, costs: &Costs) -> [u64; 2] {
    let whole = |part: usize| costs.times(row.pass.chunk, 0).whole_in_parts()[part].0;
    let duration = match row.work {
        Work::Begin => 0,
        Work::Pass => costs.of_slot(Slot::One(row.pass)).0,
        Work::Input => whole(0),
        Work::Weight => whole(1),
    };
    let hop = row.from.map_or(0, |from| costs.hops().between(from, row.stage).0);
    [duration, hop]
}
