//! Recomputation: R put before the backwards of an order.
//!
//! R stands directly before its backward. It waits for nothing but its own forward, so that it runs as
//! soon as its stage is free and hides in the wait for the gradient; and no more than one microbatch
//! holds all of its activations at a time.

use crate::copy_op::CopyOp;
use crate::fault::Fault;
use crate::offload::CopyStreams;
use crate::order::Order;
use crate::pass::{Kind, Pass, Slot};
use crate::schedule::Schedule;
use crate::shape::MAX_PASSES;

impl Schedule {
    /// The same where the chunks for which `wanted` is true recompute, as those do that did so before: an R directly
    /// before each of their backwards. Copies to the host of other chunks stay as they are.
    ///
    /// # Errors
    /// [`Fault::TooManyPasses`], or [`Fault::Copies`] if activations of such a chunk go to the host.
    pub fn recomputing(self, wanted: impl Fn(u16) -> bool) -> Result<Self, Fault> {
        let shape = self.shape();
        let anew: Vec<bool> =
            (0..shape.chunks()).map(|chunk| wanted(chunk) && !self.recomputes(chunk)).collect();
        let count = anew.iter().filter(|&&one| one).count();
        if count == 0 {
            return Ok(self);
        }
        let passes = self.passes() as u128 + count as u128 * u128::from(shape.microbatches());
        if passes > u128::from(MAX_PASSES) {
            return Err(Fault::TooManyPasses { passes });
        }
        let orders = self.orders().iter().map(|order| with_recompute(order, &anew)).collect();
        let schedule = Self::new(shape, self.placement(), orders)?;
        let Some(copies) = self.copies() else { return Ok(schedule) };
        let stages = self.orders().iter().zip(copies.stages());
        let streams = stages.map(|(order, streams)| moved(order, &anew, streams)).collect();
        schedule.with_copies(copies.policy(), streams)
    }
}

/// The R that must stand before `slot` where the chunks of `wanted` recompute.
fn before(slot: Slot, wanted: &[bool]) -> impl Iterator<Item = Pass> {
    let is_backward = |pass: &Pass| matches!(pass.kind, Kind::B | Kind::BW);
    let backwards = slot.passes().filter(is_backward);
    let wanted = backwards.filter(|pass| wanted[usize::from(pass.chunk)]);
    wanted.map(|pass| Pass::r(pass.chunk, pass.microbatch))
}

fn with_recompute(order: &Order, wanted: &[bool]) -> Order {
    let with = |slot: Slot| before(slot, wanted).map(Slot::One).chain([slot]);
    order.slots().flat_map(with).collect()
}

/// The copies of a stage, counting the slots of its order with R.
fn moved(order: &Order, wanted: &[bool], streams: &CopyStreams) -> CopyStreams {
    // By how many slots of the old order have ended, how many of the new one.
    let mut ended = vec![0u32];
    for slot in order.slots() {
        let so_far = ended[ended.len() - 1];
        let more = u32::try_from(before(slot, wanted).count()).unwrap_or(u32::MAX);
        ended.push(so_far.saturating_add(more).saturating_add(1));
    }
    let after = |copy: &CopyOp| ended.get(copy.after as usize).copied().unwrap_or(u32::MAX);
    let moved = |copy: &CopyOp| CopyOp { after: after(copy), ..*copy };
    streams.iter().map(|stream| stream.iter().map(moved).collect()).collect()
}

#[cfg(test)]
mod tests {
    use crate::copy_op::CopyPart;
    use crate::costs::{Footprint, Footprints};
    use crate::memory::Memory;
    use crate::units::Bytes;

    use super::*;

    #[test]
    fn orders_that_cannot_recompute() {
        let fault = |text: &str| text.parse::<Schedule>().unwrap_err().to_string();
        for (text, what) in [
            ("F0.0 BW0.0 R0.0", "R0.0 on stage 0 does not come before the backward"),
            ("F0.0 R0.0&BW0.0", "R0.0 on stage 0 does not come before the backward"),
            ("R0.0 F0.0 BW0.0", "R0.0 on stage 0 waits for F0.0"),
            ("F0.0 R0.0 R0.0 BW0.0", "R0.0 on stage 0 does work that was already done"),
            ("F0.0 F0.1 R0.0 BW0.0 BW0.1", "R0.1 is missing from stage 0"),
            ("F0.0 R0.0 BW0.0\nF1.0 R0.0 BW1.0", "R0.0 is on stage 1"),
        ] {
            let fault = fault(text);
            assert!(fault.contains(what), "{text}: {fault}");
        }
        let kept: Schedule = "F0.0 BW0.0".parse().unwrap();
        let held = Footprint { until_backward: Bytes(20), until_weight: Bytes(7) };
        let footprints = Footprints::new(vec![held]).with_kept(vec![Some(Bytes(3))]);
        let fault = Fault::NotRecomputed { chunk: 0 };
        assert_eq!(Memory::of(&kept, &footprints), Err(fault));
    }

    #[test]
    fn copies_of_other_chunks_stay_and_count_the_new_slots() {
        let text = "F0.0 F2.0 F0.1 F2.1 BW2.0 BW0.0 BW2.1 BW0.1 | O0.0@1 R0.0@4\n\
                    F1.0 F3.0 F1.1 F3.1 BW3.0 BW1.0 BW3.1 BW1.1\n";
        let plain: Schedule = text.parse().unwrap();
        let with = plain.clone().recomputing(|chunk| chunk == 2).unwrap();
        let copied = with.to_string();
        assert!(
            copied.contains("F2.1 R2.0 BW2.0 BW0.0 R2.1 BW2.1 BW0.1 | O0.0@1 R0.0@4\n"),
            "{copied}"
        );
        let fault = plain.recomputing(|chunk| chunk == 0).unwrap_err().to_string();
        assert!(fault.contains("is of an activation that is discarded and recomputed"), "{fault}");
        // Discarded activations are not copied when offload is asked of any order.
        let both = with.offloaded(CopyPart::WHOLE, 1);
        let copies = both.copies().unwrap().stages().iter().flatten().flatten();
        assert!(copies.clone().count() > 0 && copies.clone().all(|copy| copy.chunk != 2));
    }
}
