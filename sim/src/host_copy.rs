//! Copies of activations to the host and back, and their times where no link to a host is shared.

use pipeline::{
    Bytes, Copies, CopyDirection, CopyOp, Costs, Footprints, Kind, Nanos, Pass, Schedule, Slot,
};

/// An activation's way to the host and back.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct HostCopy {
    /// Whose it is.
    pub stage: usize,
    /// The forward that made it.
    pub pass: Pass,
    /// The step.
    pub step: u32,
    /// How much of it is copied.
    pub bytes: Bytes,
    /// Begin and end of the copy to the host. It is freed on the device at the end.
    pub out: [Nanos; 2],
    /// Begin and end of the copy back. It takes memory from the begin on.
    pub back: [Nanos; 2],
}

impl HostCopy {
    /// That of the activation of `op` on `stage`, when nothing of it has happened.
    pub(crate) const fn new(op: CopyOp, stage: usize, step: u32, bytes: Bytes) -> Self {
        let never = [Nanos(0); 2];
        let pass = Pass::f(op.chunk, op.microbatch);
        Self { stage, pass, step, bytes, out: never, back: never }
    }

    /// Begin and end of one way.
    pub(crate) const fn way(&mut self, way: CopyDirection) -> &mut [Nanos; 2] {
        match way {
            CopyDirection::Out => &mut self.out,
            CopyDirection::Back => &mut self.back,
        }
    }
}

/// The bytes that `copies` copy of the activations that a chunk keeps until its backward.
pub(crate) fn bytes(copies: &Copies, footprints: &Footprints, chunk: u16) -> Bytes {
    copies.part().of_bytes(footprints.of(chunk).until_backward)
}

/// How long what `copies` copy of an activation of `chunk` takes one way, by `costs`.
pub(crate) fn duration(copies: &Copies, costs: &Costs, chunk: u16, way: CopyDirection) -> u64 {
    copies.part().of_time(costs.copy(chunk, way)).0
}

/// No copy.
pub(crate) const NONE: u32 = u32::MAX;

/// Whether `pass` uses what its forward has kept.
pub(crate) const fn is_backward(pass: Pass) -> bool {
    matches!(pass.kind, Kind::B | Kind::BW)
}

/// The copy streams of all stages, while slots end one after the other.
pub(crate) struct Clock<'a, D> {
    schedule: &'a Schedule,
    copies: &'a Copies,
    /// Duration of a copy, by chunk and way.
    duration: D,
    /// The end of each slot, by stage.
    ended: Vec<Vec<u64>>,
    /// The next copy of each stream, and the time at which the stream is free, by stage and stream.
    at: Vec<Vec<(usize, u64)>>,
    /// By cell, its number in `done`, or [`NONE`].
    of_cell: Vec<u32>,
    done: Vec<HostCopy>,
}

impl<'a, D: Fn(u16, CopyDirection) -> u64> Clock<'a, D> {
    /// At the begin of `schedule`; none if it copies nothing.
    pub(crate) fn new(schedule: &'a Schedule, duration: D) -> Option<Self> {
        let copies = schedule.copies()?;
        let slots = schedule.orders().iter().map(|order| Vec::with_capacity(order.passes().len()));
        Some(Self {
            schedule,
            copies,
            duration,
            ended: slots.collect(),
            at: copies.stages().iter().map(|streams| vec![(0, 0); streams.len()]).collect(),
            of_cell: vec![NONE; schedule.shape().cells()],
            done: Vec::with_capacity(copies.count()),
        })
    }

    /// Arrival of the last activation that the backwards of `slot`, the next of `stage`, need from the host, or of
    /// the last that has to be on the host by then.
    pub(crate) fn ready(&mut self, stage: usize, slot: Slot) -> u64 {
        let at = u32::try_from(self.ended[stage].len()).unwrap_or(u32::MAX);
        let (copies, shape) = (self.copies, self.schedule.shape());
        let mut joined = copies.joined_by(stage, at).peekable();
        if joined.peek().is_none() && !slot.passes().any(is_backward) {
            return 0;
        }
        self.advance(stage);
        let out = joined.map(|(chunk, microbatch)| {
            let copy = self.of_cell[shape.cell(chunk, microbatch)];
            self.done.get(copy as usize).map_or(0, |copy| copy.out[1].0)
        });
        let back = slot.passes().filter(|&pass| is_backward(pass)).map(|pass| {
            match self.of_cell[shape.cell(pass.chunk, pass.microbatch)] {
                NONE => 0,
                copy => self.done[copy as usize].back[1].0,
            }
        });
        back.chain(out).max().unwrap_or(0)
    }

    /// The next slot of `stage` has ended at `time`.
    pub(crate) fn end(&mut self, stage: usize, time: u64) {
        self.ended[stage].push(time);
    }

    /// Every copy, by forward within a stage.
    pub(crate) fn into_done(mut self) -> Vec<HostCopy> {
        (0..self.ended.len()).for_each(|stage| self.advance(stage));
        self.done.sort_by_key(|copy| (copy.out, copy.stage, copy.pass));
        self.done
    }

    /// Times the copies of `stage` that may begin by what has ended.
    fn advance(&mut self, stage: usize) {
        let mut moved = true;
        while std::mem::take(&mut moved) {
            for (stream, ops) in self.copies.stages()[stage].iter().enumerate() {
                while let Some(&op) = ops.get(self.at[stage][stream].0) {
                    let Some(begin) = self.begin(stage, op) else { break };
                    let (next, free) = &mut self.at[stage][stream];
                    let begin = begin.max(*free);
                    let end = begin.saturating_add((self.duration)(op.chunk, op.way));
                    (*next, *free) = (*next + 1, end);
                    self.record(stage, op, [Nanos(begin), Nanos(end)]);
                    moved = true;
                }
            }
        }
    }

    /// From when on `op` can begin, as far as that is known.
    fn begin(&self, stage: usize, op: CopyOp) -> Option<u64> {
        let released = match op.after.checked_sub(1) {
            Some(last) => *self.ended[stage].get(last as usize)?,
            None => 0,
        };
        let copy = self.of_cell[self.schedule.shape().cell(op.chunk, op.microbatch)];
        match op.way {
            CopyDirection::Out => Some(released),
            CopyDirection::Back => Some(released.max(self.done.get(copy as usize)?.out[1].0)),
        }
    }

    fn record(&mut self, stage: usize, op: CopyOp, times: [Nanos; 2]) {
        let copy = &mut self.of_cell[self.schedule.shape().cell(op.chunk, op.microbatch)];
        if *copy == NONE {
            *copy = u32::try_from(self.done.len()).unwrap_or(NONE);
            self.done.push(HostCopy::new(op, stage, 0, Bytes(0)));
        }
        *self.done[*copy as usize].way(op.way) = times;
    }
}
