//! Activation memory along the order of a schedule: no clock is needed for the peak.

use crate::costs::{Change, Footprints};
use crate::fault::Fault;
use crate::order::Order;
use crate::pass::{Kind, Slot};
use crate::problem::Limits;
use crate::schedule::Schedule;
use crate::units::Bytes;

/// The most each stage holds while it works through its order.
#[derive(Clone, PartialEq, Eq, Debug)]
pub struct Memory {
    /// Peak activation bytes per stage.
    pub peak: Vec<Bytes>,
}

impl Memory {
    /// Follows `footprints` along the order of every stage.
    ///
    /// # Errors
    /// If the footprints are those of another pipeline, or of one that recomputes more.
    pub fn of(schedule: &Schedule, footprints: &Footprints) -> Result<Self, Fault> {
        footprints.check_for(schedule)?;
        let peak = schedule.orders().iter().map(|order| peak(order, footprints)).collect();
        Ok(Self { peak })
    }

    /// The first stage that would need more than its limit, and how much.
    #[must_use]
    pub fn over(&self, limits: &Limits) -> Option<(usize, Bytes)> {
        let mut stages = self.peak.iter().copied().zip(limits.by_stage()).enumerate();
        let over = stages.find(|(_, (peak, limit))| peak > limit);
        over.map(|(stage, (peak, _))| (stage, peak))
    }
}

fn peak(order: &Order, footprints: &Footprints) -> Bytes {
    let mut ledger = Ledger::default();
    if order.is_unpaired() {
        order.passes().iter().for_each(|&pass| ledger.change(footprints.change(pass)));
    } else {
        order.slots().for_each(|slot| ledger.run(slot, footprints));
    }
    ledger.peak
}

/// The bytes a stage holds, slot after slot.
#[derive(Clone, Copy, PartialEq, Eq, Default, Debug)]
pub struct Ledger {
    /// Held now.
    pub held: Bytes,
    /// The most held so far.
    pub peak: Bytes,
}

impl Ledger {
    /// Runs `slot`: during it the stage holds all that both passes allocate at their start; at its
    /// end it holds what they leave. The M_W into which a B turns M_B is not counted beside M_B,
    /// since it is a part of the same activations.
    ///
    /// # Panics
    /// With overflow checks, if it frees what was never taken; the orders of a [`Schedule`] do not.
    #[inline]
    pub fn run(&mut self, slot: impl Into<Slot>, footprints: &Footprints) {
        let slot = match slot.into() {
            Slot::One(pass) => return self.change(footprints.change(pass)),
            pair => pair,
        };
        for pass in slot.passes() {
            self.held += footprints.change(pass).taken_at_start;
        }
        self.peak = self.peak.max(self.held);
        for pass in slot.passes() {
            let change = footprints.change(pass);
            self.held = self.held + change.taken_at_end - change.freed_at_end;
        }
        self.peak = self.peak.max(self.held);
    }

    /// Applies the change of one pass.
    #[inline]
    fn change(&mut self, change: Change) {
        self.held += change.taken_at_start;
        self.peak = self.peak.max(self.held);
        self.held = self.held + change.taken_at_end - change.freed_at_end;
        self.peak = self.peak.max(self.held);
    }
}

/// The most chunk activations each stage holds at once: a microbatch is in flight in a chunk from
/// the start of its F to the end of its W or BW.
#[must_use]
pub fn peak_in_flight(schedule: &Schedule) -> Vec<u32> {
    let most = |order: &Order| {
        let (mut now, mut peak) = (0u32, 0u32);
        for slot in order.slots() {
            let count = |wanted: fn(Kind) -> bool| {
                slot.passes().map(|pass| u32::from(wanted(pass.kind))).sum::<u32>()
            };
            now += count(|kind| kind == Kind::F);
            peak = peak.max(now);
            now -= count(|kind| matches!(kind, Kind::W | Kind::BW));
        }
        peak
    };
    schedule.orders().iter().map(most).collect()
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::{Footprint, Schedule};

    #[test]
    fn buffers_are_held_while_passes_run_and_add_up_in_a_pair() {
        let peak = |text: &str, buffers| {
            let schedule: Schedule = text.parse().unwrap();
            let held = Footprint { until_backward: Bytes(10), until_weight: Bytes(4) };
            let footprints = Footprints::uniform(schedule.shape(), held).with_buffers(buffers);
            Memory::of(&schedule, &footprints).unwrap().peak[0].0
        };
        let apart = "F0.0 BW0.0 F0.1 BW0.1";
        assert_eq!([peak(apart, vec![]), peak(apart, vec![Bytes(3)])], [10, 13]);
        let pair = "F0.0 F0.1&BW0.0 BW0.1";
        assert_eq!([peak(pair, vec![]), peak(pair, vec![Bytes(3)])], [20, 26]);
        // W has none.
        let split = "F0.0 B0.0 F0.1 W0.0 B0.1 W0.1";
        assert_eq!([peak(split, vec![]), peak(split, vec![Bytes(3)])], [14, 17]);
    }
}
