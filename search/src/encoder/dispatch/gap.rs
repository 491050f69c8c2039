//! How long a stage has until its next slot, and how many layers of the encoder fit before it.

use pipeline::EncoderKind;
use sim::encoder::Need;

use super::{Pass, State, UNMADE, run};

/// The number of makers, one before the other, by which the time of a slot is foreseen.
const FORESIGHT: u32 = 8;

/// Time until the next slot of a stage.
#[derive(Clone, Copy)]
pub(super) enum Gap {
    /// It is ready.
    None,
    /// It will be ready at that time.
    Until(u64),
    /// It will be ready no sooner than that.
    AtLeast(u64),
    /// No slot is left.
    Open,
}

impl State<'_> {
    /// How long `stage` has until its next slot.
    pub(super) fn gap(&self, stage: usize) -> Gap {
        let linked = self.job.linked;
        let Some(slot) = linked.stages[stage].get(self.stages[stage].slot) else {
            return Gap::Open;
        };
        let known = slot.needs.iter().all(|need| self.made[need.cell] != UNMADE);
        let at = self.soonest(stage, self.stages[stage].slot, FORESIGHT);
        match (known, at > self.now) {
            (true, false) => Gap::None,
            (true, true) => Gap::Until(at),
            (false, _) => Gap::AtLeast(at),
        }
    }

    /// A time before which all that the slot `at` of `stage` needs cannot be there, by so many makers before it.
    fn soonest(&self, stage: usize, at: usize, foresight: u32) -> u64 {
        let linked = self.job.linked;
        let arrival = |need: &Need| {
            let made = match self.made[need.cell] {
                UNMADE => self.soonest_made(stage, need.cell, foresight),
                made => made,
            };
            made.saturating_add(need.hop)
        };
        linked.stages[stage][at].needs.iter().map(arrival).fold(self.now, u64::max)
    }

    /// The same of the value of `cell`, which `stage` waits for.
    fn soonest_made(&self, stage: usize, cell: usize, foresight: u32) -> u64 {
        let linked = self.job.linked;
        if let Some((by, slot)) = linked.makers.get(cell).copied().flatten() {
            let begun = &self.job.work[by];
            let of = &self.stages[by];
            let work = begun[slot] - begun[of.slot.min(slot)];
            let ready = match foresight {
                0 => 0,
                more => self.soonest(by, slot, more - 1),
            };
            let after = self.now.max(of.free).saturating_add(work).max(ready);
            return after.saturating_add(linked.stages[by][slot].duration);
        }
        let Some(microbatch) = linked.output_of(cell) else { return self.now };
        let mut pass = Pass { kind: EncoderKind::Forward, microbatch, done: 0 };
        let mut at = self.now;
        for (other, of) in self.stages.iter().enumerate() {
            if let Some(begun) = of.forward.filter(|begun| begun.microbatch == microbatch) {
                // What a stage waits for that it makes itself leaves all the time.
                if other == stage {
                    return UNMADE - 1;
                }
                (pass, at) = (begun, at.max(of.free).saturating_add(linked.transfer_of(other)));
            }
        }
        let left = self.job.encoder.layers() - pass.done;
        at.saturating_add(self.job.encoder.time(run(pass, left)).0)
    }

    /// How many layers of `pass` run before the next slot.
    pub(super) fn fitting(&self, stage: usize, pass: Pass, gap: Gap) -> u32 {
        let left = self.job.encoder.layers() - pass.done;
        let room = match gap {
            Gap::None => 0,
            Gap::Open => return left,
            Gap::Until(at) => at - self.now,
            Gap::AtLeast(_) if self.plan.eager[stage] => return 1,
            Gap::AtLeast(at) => at - self.now,
        };
        let (mut least, mut most) = (0, left);
        while least < most {
            let layers = (least + most).div_ceil(2);
            match self.job.encoder.time(run(pass, layers)).0 <= room {
                true => least = layers,
                false => most = layers - 1,
            }
        }
        least
    }
}
