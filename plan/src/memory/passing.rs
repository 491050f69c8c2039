//! Whole gradients that a stage holds for a part of the step, beside its activations.

use pipeline::{Bytes, Footprints, Kind, Ledger, Order, Pass, Schedule};

/// Peak of activations and gradients of a stage together.
#[derive(Clone, Copy, PartialEq, Eq, Default, Debug)]
pub(crate) struct Peak {
    pub(crate) activations: Bytes,
    pub(crate) gradients: Bytes,
}

impl Peak {
    fn sum(self) -> Bytes {
        Bytes(self.activations.0.saturating_add(self.gradients.0))
    }
}

/// The peak of each stage of `schedule`, where the gradients of a chunk, which take `gradients` by chunk,
/// are held from its first pass that makes any to the end of its last.
pub(crate) fn peaks(
    schedule: &Schedule,
    footprints: &Footprints,
    gradients: &[Bytes],
) -> Vec<Peak> {
    schedule.orders().iter().map(|order| peak(order, footprints, gradients)).collect()
}

fn peak(order: &Order, footprints: &Footprints, gradients: &[Bytes]) -> Peak {
    let makes = |pass: &Pass| matches!(pass.kind, Kind::W | Kind::BW);
    let chunk = |pass: Pass| usize::from(pass.chunk);
    let mut left = vec![0usize; gradients.len()];
    for pass in order.slots().flat_map(|slot| slot.passes()).filter(makes) {
        left[chunk(pass)] += 1;
    }
    let all = left.clone();
    let (mut ledger, mut held, mut most) = (Ledger::default(), 0, Peak::default());
    for slot in order.slots() {
        for pass in slot.passes().filter(makes) {
            // Taken before the first.
            held +=
                if left[chunk(pass)] == all[chunk(pass)] { gradients[chunk(pass)].0 } else { 0 };
            left[chunk(pass)] -= 1;
        }
        ledger.peak = ledger.held;
        ledger.run(slot, footprints);
        let now = Peak { activations: ledger.peak, gradients: Bytes(held) };
        if now.sum() > most.sum() {
            most = now;
        }
        for pass in slot.passes().filter(makes).filter(|pass| left[chunk(*pass)] == 0) {
            held -= gradients[chunk(pass)].0;
        }
    }
    most
}
