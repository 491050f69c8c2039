//! Which activations leave a stage, and when: the rules of PipeOffload, section 3.
//!
//! The copy stream of a stage has slots that copy out and back in turn; where neighbouring stages
//! share a link to the host, one copies out while the other copies back. A copy out takes the
//! earliest free slot after its forward; a copy back the latest free one that ends the time of a
//! backward before its backward. An activation stays on the device where
//! B.start - B.duration - F.end <= 3 (t_out + t_back), or where no slots are left for it.
//!
//! The stream keeps the order of the slots, and a copy back may begin once the slots of the stage
//! have ended that end by its planned begin. So no copy ends later than planned, and no backward
//! waits, as long as copies and passes take the times they were planned with.

use std::collections::HashMap;
use std::hash::{BuildHasherDefault, Hasher};

use crate::copy_op::{CopyDirection, CopyOp, CopyPart};
use crate::costs::Costs;
use crate::offload::{CopyStreams, Lives};
use crate::schedule::Schedule;

/// How many round trips to the host must fit between forward and backward in the rule of PO-H and PO-F.
pub const ROUND_TRIPS: u64 = 3;

/// An activation that may leave.
#[derive(Clone, Copy)]
struct Candidate {
    chunk: u16,
    microbatch: u32,
    /// The slots of the stage that make it and use it.
    slots: [u32; 2],
    /// The time from which it can be copied out.
    ready: u64,
    /// The time by which it must be back.
    due: u64,
    /// Which slots of the stream it takes.
    out: u64,
    back: u64,
}

/// One stream for each stage of `schedule`, whose slots run at `spans`; `leaves` selects the chunks that are copied, and
/// a number of round trips must fit between forward and backward.
pub(super) fn streams(
    schedule: &Schedule,
    costs: &Costs,
    (part, round_trips): (CopyPart, u64),
    spans: &[Vec<[u64; 2]>],
    leaves: impl Fn(u16) -> bool,
) -> Vec<CopyStreams> {
    let lives = Lives::of(schedule.shape(), schedule.placement(), schedule.orders());
    let of_stage = |(stage, spans): (usize, &Vec<[u64; 2]>)| {
        let (shape, placement) = (schedule.shape(), schedule.placement());
        let chunks: Vec<u16> =
            placement.chunks_of(shape, stage).filter(|&chunk| leaves(chunk)).collect();
        let longest = |way: CopyDirection| {
            let times = chunks.iter().map(|&chunk| part.of_time(costs.copy(chunk, way)).0);
            times.max().unwrap_or(0)
        };
        let clock = Clock {
            out: longest(CopyDirection::Out),
            back: longest(CopyDirection::Back),
            late: stage % 2 == 1,
        };
        let cells =
            chunks.iter().flat_map(|&chunk| (0..shape.microbatches()).map(move |m| (chunk, m)));
        let mut candidates: Vec<Candidate> = cells
            .filter_map(|(chunk, microbatch)| {
                let slots = lives.of_cell(chunk, microbatch);
                let [forward, backward] = slots.map(|slot| spans[slot as usize]);
                let due = backward[0].saturating_sub(backward[1] - backward[0]);
                let stays = due.saturating_sub(forward[1])
                    <= round_trips.saturating_mul(clock.out + clock.back);
                let ready = forward[1];
                let one = Candidate { chunk, microbatch, slots, ready, due, out: 0, back: 0 };
                (!stays).then_some(one)
            })
            .collect();
        clock.place(&mut candidates);
        vec![clock.stream(&candidates, spans)]
    };
    spans.iter().enumerate().map(of_stage).collect()
}

/// The slots of a stream: out and back in turn, numbered by turns from 0.
struct Clock {
    /// How long a slot is that copies out, in nanoseconds.
    out: u64,
    /// And one that copies back.
    back: u64,
    /// Whether the first slot copies back: the other half of a pair of stages.
    late: bool,
}

impl Clock {
    /// Whether copies never stand in each other's way: a slot is then a moment in nanoseconds.
    const fn takes_no_time(&self) -> bool {
        self.out + self.back == 0
    }

    fn turn(&self) -> u64 {
        (self.out + self.back).max(1)
    }

    fn out_begin(&self, turn: u64) -> u64 {
        turn * self.turn() + if self.late { self.back } else { 0 }
    }

    fn back_begin(&self, turn: u64) -> u64 {
        turn * self.turn() + if self.late { 0 } else { self.out }
    }

    /// The first turn whose copy out begins at `time` or later.
    fn first_out(&self, time: u64) -> u64 {
        time.saturating_sub(self.out_begin(0)).div_ceil(self.turn())
    }

    /// The last turn whose copy back has ended at `time`.
    fn last_back(&self, time: u64) -> Option<u64> {
        Some(time.checked_sub(self.back_begin(0) + self.back)? / self.turn())
    }

    /// Keeps the candidates for which there are slots, and says which.
    fn place(&self, candidates: &mut Vec<Candidate>) {
        // First come, first served decides which candidates have slots at all.
        candidates.sort_by_key(|one| (one.ready, one.chunk, one.microbatch));
        let (mut out, mut back) = (Free::default(), Free::default());
        candidates.retain_mut(|one| self.assign(one, &mut out, &mut back));
        if self.takes_no_time() {
            return;
        }
        // Then the copies back, right to left: those needed last take the last slots.
        let mut by_due: Vec<usize> = (0..candidates.len()).collect();
        by_due.sort_by_key(|&at| (candidates[at].due, at));
        let mut back = Free::default();
        let latest = by_due.into_iter().rev().map(|at| {
            let turn = self.last_back(candidates[at].due).and_then(|turn| back.downwards(turn));
            turn.map(|turn| (at, turn))
        });
        let Some(latest) = latest.collect::<Option<Vec<_>>>() else { return };
        if latest.iter().all(|&(at, turn)| self.is_after(turn, candidates[at].out)) {
            latest.into_iter().for_each(|(at, turn)| candidates[at].back = turn);
        }
    }

    /// The earliest slot out and the latest back that are free, if the one lies before the other.
    fn assign(&self, one: &mut Candidate, out: &mut Free, back: &mut Free) -> bool {
        if self.takes_no_time() {
            (one.out, one.back) = (one.ready, one.due);
            return true;
        }
        let first = out.peek_upwards(self.first_out(one.ready));
        let Some(last) = self.last_back(one.due).and_then(|turn| back.peek_downwards(turn)) else {
            return false;
        };
        if !self.is_after(last, first) {
            return false;
        }
        (one.out, one.back) = (first, last);
        out.take_upwards(first);
        back.take_downwards(last);
        true
    }

    fn is_after(&self, back: u64, out: u64) -> bool {
        self.back_begin(back) >= self.out_begin(out) + self.out
    }

    /// The copies in the order of their slots, each with the number of slots of the stage that must
    /// have ended.
    fn stream(&self, candidates: &[Candidate], spans: &[[u64; 2]]) -> Vec<CopyOp> {
        let mut stream: Vec<([u64; 2], CopyOp)> = Vec::with_capacity(2 * candidates.len());
        for one in candidates {
            let Candidate { chunk, microbatch, slots: [forward, backward], .. } = *one;
            let [leaves, begin] = match self.takes_no_time() {
                true => [one.out, one.back],
                false => [self.out_begin(one.out), self.back_begin(one.back)],
            };
            let out = CopyOp { way: CopyDirection::Out, chunk, microbatch, after: forward + 1 };
            let ended = spans.partition_point(|&[_, end]| end <= begin);
            let after = u32::try_from(ended).unwrap_or(u32::MAX).clamp(forward + 1, backward);
            let back = CopyOp { way: CopyDirection::Back, chunk, microbatch, after };
            stream.extend([([leaves, leaves + self.out], out), ([begin, begin + self.back], back)]);
        }
        // Where one way takes no time, it goes before what begins at the same moment.
        stream.sort_by_key(|&(slot, op)| (slot, op.after, op.way, op.chunk, op.microbatch));
        stream.into_iter().map(|(_, op)| op).collect()
    }
}

/// Numbers that are still free; finding the next one up or down takes about constant time.
#[derive(Default)]
struct Free {
    /// Of a taken number, one that is no farther than the next free one, plus 1: 0 says that there is
    /// none below.
    next: HashMap<u64, u64, BuildHasherDefault<Spread>>,
}

/// Numbers of slots are spread over a table by one product (Knuth, *Sorting and Searching*, section 6.4): nobody
/// chooses them to fall on each other.
#[derive(Default)]
struct Spread(u64);

impl Hasher for Spread {
    fn finish(&self) -> u64 {
        self.0
    }

    fn write(&mut self, bytes: &[u8]) {
        bytes.iter().for_each(|&byte| self.write_u64(byte.into()));
    }

    fn write_u64(&mut self, number: u64) {
        // 2^64 over the golden ratio; the high bits, which the table looks at first, are those well mixed.
        let product = (self.0 ^ number).wrapping_mul(0x9E37_79B9_7F4A_7C15);
        self.0 = product ^ product >> 32;
    }
}

impl Free {
    /// The first number from `from` on that is free.
    fn peek_upwards(&mut self, from: u64) -> u64 {
        self.find(from + 1) - 1
    }

    /// Takes `number`, of numbers that are looked for upwards.
    fn take_upwards(&mut self, number: u64) {
        self.next.insert(number + 1, number + 2);
    }

    /// The last number up to `from` that is free.
    fn peek_downwards(&mut self, from: u64) -> Option<u64> {
        self.find(from + 1).checked_sub(1)
    }

    /// Takes `number`, of numbers that are looked for downwards.
    fn take_downwards(&mut self, number: u64) {
        self.next.insert(number + 1, number);
    }

    fn downwards(&mut self, from: u64) -> Option<u64> {
        let number = self.peek_downwards(from)?;
        self.take_downwards(number);
        Some(number)
    }

    fn find(&mut self, from: u64) -> u64 {
        let mut root = from;
        while let Some(&next) = self.next.get(&root) {
            root = next;
        }
        let mut at = from;
        while let Some(next) = self.next.get_mut(&at) {
            at = std::mem::replace(next, root);
        }
        root
    }
}
