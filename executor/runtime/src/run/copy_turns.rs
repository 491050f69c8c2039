//! The order in which the memory of a stage changes: its slots allocate and free, copies to the
//! host free, and copies back allocate. The order of slots alone does not fix how these interleave;
//! the planned times of the copies do. All stages keep this order, so that a run holds the planned
//! bytes.

use std::collections::{BTreeSet, HashMap};

use pipeline::{CopyDirection, CopyOp, CopyPart, Nanos, Schedule, Span, Timeline};

/// The planned times of an activation's copies to the host and back.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct PlannedCopy {
    pub stage: usize,
    pub chunk: u16,
    pub microbatch: u32,
    /// End of the copy to the host, which frees the memory.
    pub freed: Nanos,
    /// Start of the copy back, which allocates memory.
    pub taken: Nanos,
}

/// A copy in its stream.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(crate) struct Turn {
    pub(crate) op: CopyOp,
    /// Its number among all copies of the stage, stream by stream.
    pub(crate) number: usize,
    /// The number of its memory change among those of all copies of the stage.
    pub(crate) turn: usize,
}

/// The copies of a stage, and the position of each one's memory change.
#[derive(Clone, PartialEq, Eq, Debug)]
pub(crate) struct CopyTurns {
    pub(crate) part: CopyPart,
    pub(crate) streams: Vec<Vec<Turn>>,
    /// For each memory change in order, the number of starts and ends of slots before it.
    /// Ascending.
    pub(crate) after: Vec<u32>,
}

impl CopyTurns {
    /// No copies.
    pub(super) const fn none() -> Self {
        Self { part: CopyPart::WHOLE, streams: Vec::new(), after: Vec::new() }
    }

    /// The copies of all stages of `schedule`: each changes memory at its planned time. Without a
    /// plan, a copy is done as soon as it may begin, before the slot that follows.
    pub(super) fn of(schedule: &Schedule, plan: Option<(&Timeline, &[PlannedCopy])>) -> Vec<Self> {
        let stages = 0..schedule.shape().stages();
        let Some(copies) = schedule.copies() else { return stages.map(|_| Self::none()).collect() };
        let planned = plan.map_or(&[][..], |(_, planned)| planned).iter();
        let planned: HashMap<(usize, u16, u32), &PlannedCopy> =
            planned.map(|copy| ((copy.stage, copy.chunk, copy.microbatch), copy)).collect();
        let of_stage = |stage: usize| {
            let streams = &copies.stages()[stage];
            let spans = plan.and_then(|(timeline, _)| timeline.stages.get(stage));
            let spans = spans.map_or(&[][..], |spans| spans);
            let after = |op: &CopyOp| match planned.get(&(stage, op.chunk, op.microbatch)) {
                None => 2 * op.after,
                Some(copy) => slot_events(op.way, spans, copy),
            };
            let keys = streams.iter().map(|ops| ops.iter().map(after).collect()).collect();
            Self::merge(copies.part(), streams, keys)
        };
        stages.map(of_stage).collect()
    }

    /// Merges the streams into one order that keeps the order of each, puts no copy back before its
    /// copy out, and otherwise follows the number of starts and ends of slots that each is planned
    /// `after`; frees come first.
    fn merge(part: CopyPart, streams: &[Vec<CopyOp>], mut after: Vec<Vec<u32>>) -> Self {
        for (ops, after) in streams.iter().zip(&mut after) {
            let mut least = 0;
            for (op, after) in ops.iter().zip(after) {
                least = least.max(2 * op.after).max(*after);
                *after = least;
            }
        }
        let mut merged = Self::none();
        merged.part = part;
        merged.streams = streams.iter().map(|_| Vec::new()).collect();
        let firsts: Vec<usize> = streams
            .iter()
            .scan(0, |sum, ops| Some(std::mem::replace(sum, *sum + ops.len())))
            .collect();
        let mut is_out = BTreeSet::new();
        loop {
            let heads = streams.iter().enumerate().filter_map(|(stream, ops)| {
                let at = merged.streams[stream].len();
                Some((stream, *ops.get(at)?, after[stream][at]))
            });
            let free = heads.filter(|(_, op, _)| {
                op.way == CopyDirection::Out || is_out.contains(&(op.chunk, op.microbatch))
            });
            let next = free.min_by_key(|&(stream, op, after)| (after, op.way, stream));
            let Some((stream, op, after)) = next else { return merged };
            if op.way == CopyDirection::Out {
                is_out.insert((op.chunk, op.microbatch));
            }
            let number = firsts[stream] + merged.streams[stream].len();
            let turn = merged.after.len();
            merged.streams[stream].push(Turn { op, number, turn });
            let least = merged.after.last().copied().unwrap_or(0);
            merged.after.push(after.max(least));
        }
    }

    /// Number of copies.
    pub(crate) fn count(&self) -> usize {
        self.after.len()
    }
}

/// The number of starts and ends of the slots of a stage, which run at `spans`, before a copy in
/// direction `way` changes memory as planned: at one moment, slots end first and begin last.
fn slot_events(way: CopyDirection, spans: &[Span], copy: &PlannedCopy) -> u32 {
    let at = match way {
        CopyDirection::Out => copy.freed,
        CopyDirection::Back => copy.taken,
    };
    let begun = spans.partition_point(|span| span.start < at);
    let ended = spans.partition_point(|span| span.end <= at);
    let events = 2 * ended + usize::from(begun > ended);
    u32::try_from(events).unwrap_or(u32::MAX)
}

#[cfg(test)]
mod tests {
    use super::*;

    /// F and B of three microbatches; microbatch 0 goes out and comes back.
    const ORDER: &str = "F0.0 F0.1 F0.2 B0.0 W0.0 B0.1 W0.1 B0.2 W0.2 | O0.0@1 R0.0@2";

    fn planned(times: [u64; 2]) -> Vec<u32> {
        let schedule: Schedule = ORDER.parse().unwrap();
        let slots = schedule.orders()[0].slots();
        let span = |(at, slot)| {
            let [start, end] = [at, at + 10].map(Nanos);
            Span { slot, start, end }
        };
        let timeline = Timeline { stages: vec![(0..).step_by(10).zip(slots).map(span).collect()] };
        let [freed, taken] = times.map(Nanos);
        let copy = PlannedCopy { stage: 0, chunk: 0, microbatch: 0, freed, taken };
        CopyTurns::of(&schedule, Some((&timeline, &[copy])))[0].after.clone()
    }

    #[test]
    fn memory_changes_between_the_slots_between_which_it_is_planned_to() {
        // Ended with the second slot, in the middle of it, and begun with the third.
        assert_eq!(planned([20, 25]), [4, 5]);
        assert_eq!(planned([15, 20]), [3, 4]);
        assert_eq!(planned([10, 20]), [2, 4]);
        // Never before the slots that a copy waits for.
        assert_eq!(planned([0, 0]), [2, 4]);
    }

    #[test]
    fn without_a_plan_copies_go_at_once_stream_after_stream() {
        let text = "F0.0 F0.1 B0.0 W0.0 B0.1 W0.1 | O0.0@1 O0.1@2 | R0.0@1 R0.1@4";
        let schedule: Schedule = text.parse().unwrap();
        let turns = &CopyTurns::of(&schedule, None)[0];
        let turn = |stream: usize| turns.streams[stream].iter().map(|one| one.turn).collect();
        let all: [Vec<usize>; 2] = [turn(0), turn(1)];
        assert_eq!(all, [vec![0, 2], vec![1, 3]]);
        assert_eq!(turns.after, [2, 2, 4, 8]);
        assert_eq!(turns.streams[1][0].number, 2);
    }
}
