//! Activations that spend the time between forward and backward on the host: which, in which order
//! they are copied out and back, and when a copy may begin (PipeOffload, arXiv 2503.01328,
//! section 3).
//!
//! A stage copies on streams, one copy after the other on each. A copy begins when its stream is
//! free, so many slots of its stage have ended, and, for a copy back, the copy out has ended. The
//! backward waits for the copy back. Where the copies in flight are limited, the slot after a forward waits for earlier
//! copies out ([`CopyPolicy::max_inflight`]).

use std::collections::HashMap;

use crate::copy_op::{CopyDirection, CopyOp, CopyPart, CopyPolicy};
use crate::fault::Fault;
use crate::order::Order;
use crate::pass::{Kind, Pass};
use crate::shape::{Placement, Shape};

/// The copy streams of one stage: an order of copies on each.
pub type CopyStreams = Vec<Vec<CopyOp>>;

/// The copies of a schedule to the host and back, valid from the moment they exist.
#[derive(Clone, PartialEq, Eq, Debug)]
pub struct Copies {
    policy: CopyPolicy,
    /// The copy streams of each stage.
    stages: Vec<CopyStreams>,
    /// By stage.
    joins: Vec<Vec<Join>>,
}

/// A slot, by its number in the order of its stage, and the chunk and microbatch whose copy out has ended when it
/// begins.
type Join = (u32, (u16, u32));

impl Copies {
    /// The only constructor. It checks that every activation goes out at most once, after its
    /// forward, and comes back once before its backward, on the stage that holds its chunk; and
    /// that no copy waits for a slot that waits for it.
    ///
    /// # Errors
    /// [`Fault::Copies`] with the first copy that is wrong.
    pub(crate) fn new(
        (shape, placement): (Shape, Placement),
        orders: &[Order],
        policy: CopyPolicy,
        stages: Vec<CopyStreams>,
    ) -> Result<Self, Fault> {
        if stages.len() != orders.len() {
            return Err(Fault::OrderCount { stages: orders.len(), orders: stages.len() });
        }
        let lives = Lives::of(shape, placement, orders);
        let mut done = [(); 2].map(|()| vec![false; shape.cells()]);
        for (stage, streams) in stages.iter().enumerate() {
            let fail = |(copy, what)| Fault::Copies { copy, stage, what };
            check(&lives, stage, streams, &mut done).map_err(fail)?;
        }
        let [mut is_out, _] = done;
        is_out.fill(false);
        let copies = Self::joined(&lives, policy, stages);
        for (stage, (streams, joins)) in copies.stages.iter().zip(&copies.joins).enumerate() {
            let fail = |(copy, what)| Fault::Copies { copy, stage, what };
            no_deadlock(&lives, streams, joins, &mut is_out).map_err(fail)?;
        }
        Ok(copies)
    }

    /// The copies of `stages`, with the slots that wait for copies out by `policy`.
    fn joined(lives: &Lives, policy: CopyPolicy, stages: Vec<CopyStreams>) -> Self {
        let joins = stages.iter().map(|streams| joins(lives, streams, policy.max_inflight));
        Self { joins: joins.collect(), policy, stages }
    }

    /// Copies a part of every activation, as [`Schedule::offloaded`](crate::Schedule::offloaded) describes, but for
    /// the chunks that stay. Each copy waits for slots before its backward, in the order of the slots, and each copy
    /// out for its forward alone, so that the copies are valid.
    pub(crate) fn of_all(
        (shape, placement): (Shape, Placement),
        orders: &[Order],
        policy: CopyPolicy,
        ahead: u32,
        stays: impl Fn(u16) -> bool,
    ) -> Self {
        let lives = Lives::of(shape, placement, orders);
        let stages = orders.iter().map(|order| {
            let (mut out, mut back) = (Vec::new(), Vec::new());
            each_pass(order, |_, Pass { kind, chunk, microbatch }| {
                let [forward, backward] = lives.of_cell(chunk, microbatch);
                let wanted = backward.saturating_sub(ahead);
                if forward + 1 >= wanted || stays(chunk) {
                    return;
                }
                let op = |way, after| CopyOp { way, chunk, microbatch, after };
                match kind {
                    Kind::F => out.push(op(CopyDirection::Out, forward + 1)),
                    Kind::B | Kind::BW => back.push(op(CopyDirection::Back, wanted)),
                    _ => {}
                }
            });
            vec![out, back]
        });
        Self::joined(&lives, policy, stages.collect())
    }

    /// The part of each activation that is copied.
    #[must_use]
    pub const fn part(&self) -> CopyPart {
        self.policy.part
    }

    /// The part of each activation that is copied, and the copies that may be in flight.
    #[must_use]
    pub const fn policy(&self) -> CopyPolicy {
        self.policy
    }

    /// Chunk and microbatch of each activation whose copy out has ended when slot `slot` of `stage`, counted from 0,
    /// begins; those that an earlier slot waits for are left out.
    pub fn joined_by(&self, stage: usize, slot: u32) -> impl Iterator<Item = (u16, u32)> {
        let joins = &self.joins[stage];
        let first = joins.partition_point(|&(at, _)| at < slot);
        joins[first..].iter().take_while(move |&&(at, _)| at == slot).map(|&(_, cell)| cell)
    }

    /// The copy streams of each stage.
    #[must_use]
    pub fn stages(&self) -> &[CopyStreams] {
        &self.stages
    }

    /// The most streams that a stage has.
    #[must_use]
    pub fn streams(&self) -> usize {
        self.stages.iter().map(Vec::len).max().unwrap_or(0)
    }

    /// Number of activations that are copied, over all stages.
    #[must_use]
    pub fn count(&self) -> usize {
        self.stages.iter().flatten().map(Vec::len).sum::<usize>() / 2
    }
}

/// Where each chunk and microbatch has its forward and its backward.
pub(crate) struct Lives {
    shape: Shape,
    placement: Placement,
    /// By cell, the slots of forward and backward in the order of their stage.
    slots: Vec<[u32; 2]>,
}

impl Lives {
    pub(crate) fn of(shape: Shape, placement: Placement, orders: &[Order]) -> Self {
        let mut slots = vec![[0; 2]; shape.cells()];
        for order in orders {
            each_pass(order, |at, pass| {
                let life = &mut slots[shape.cell(pass.chunk, pass.microbatch)];
                match pass.kind {
                    Kind::F => life[0] = at,
                    Kind::B | Kind::BW => life[1] = at,
                    _ => {}
                }
            });
        }
        Self { shape, placement, slots }
    }

    /// The slots of forward and backward of a chunk and microbatch of the shape.
    pub(crate) fn of_cell(&self, chunk: u16, microbatch: u32) -> [u32; 2] {
        self.slots[self.shape.cell(chunk, microbatch)]
    }

    fn cell(&self, op: &CopyOp) -> usize {
        self.shape.cell(op.chunk, op.microbatch)
    }

    /// Whether `stage` makes the activation of `op`.
    fn lives_on(&self, stage: usize, op: &CopyOp) -> bool {
        op.chunk < self.shape.chunks()
            && op.microbatch < self.shape.microbatches()
            && self.placement.stage(self.shape, op.chunk, op.microbatch) == stage
    }
}

/// Calls `seen` with every pass of `order` and the number of its slot.
pub(crate) fn each_pass(order: &Order, mut seen: impl FnMut(u32, Pass)) {
    for (at, slot) in (0u32..).zip(order.slots()) {
        slot.passes().for_each(|pass| seen(at, pass));
    }
}

/// A copy, and its fault.
type Wrong = (CopyOp, &'static str);

/// Checks each copy of `stage` by itself, and that all go out and come back; marks in `done` which.
fn check(
    lives: &Lives,
    stage: usize,
    streams: &[Vec<CopyOp>],
    done: &mut [Vec<bool>; 2],
) -> Result<(), Wrong> {
    for op in streams.iter().flatten() {
        if !lives.lives_on(stage, op) {
            return Err((*op, "is of an activation that the stage does not make"));
        }
        let [forward, backward] = lives.of_cell(op.chunk, op.microbatch);
        if op.way == CopyDirection::Out && op.after <= forward {
            return Err((*op, "goes out before its forward has ended"));
        }
        if op.after > backward {
            return Err((*op, "waits for its own backward"));
        }
        if std::mem::replace(&mut done[op.way as usize][lives.cell(op)], true) {
            return Err((*op, "is there twice"));
        }
    }
    for op in streams.iter().flatten() {
        if !done[CopyDirection::Out as usize][lives.cell(op)] {
            return Err((*op, "comes back, but never goes out"));
        }
        if !done[CopyDirection::Back as usize][lives.cell(op)] {
            return Err((*op, "goes out, but never comes back"));
        }
    }
    Ok(())
}

/// The slots of a stage that wait for copies out where at most `most` are in flight: the slot after a forward that is
/// copied, for the copy of the forward that is `most` before it among those that are.
fn joins(lives: &Lives, streams: &[Vec<CopyOp>], most: Option<u32>) -> Vec<Join> {
    let Some(most) = most else { return Vec::new() };
    let out = streams.iter().flatten().filter(|op| op.way == CopyDirection::Out);
    let forward = |op: &CopyOp| lives.of_cell(op.chunk, op.microbatch)[0];
    let mut out: Vec<Join> = out.map(|op| (forward(op), (op.chunk, op.microbatch))).collect();
    out.sort_unstable();
    let begun = out.iter().skip(most as usize);
    begun.zip(&out).map(|(&(forward, _), &(_, cell))| (forward + 1, cell)).collect()
}

/// Advances the streams as far as they can while slots end in order: the activation of each backward must be
/// back by the slots that have ended before it, and that of each of `joins` out.
fn no_deadlock(
    lives: &Lives,
    streams: &[Vec<CopyOp>],
    joins: &[Join],
    is_out: &mut [bool],
) -> Result<(), Wrong> {
    let waits: HashMap<_, _> = joins.iter().map(|&(slot, cell)| (cell, slot)).collect();
    let mut at = vec![0usize; streams.len()];
    let mut ended = 0u32;
    loop {
        let mut moved = false;
        for (ops, at) in streams.iter().zip(&mut at) {
            while let Some(op) = ops.get(*at) {
                let cell = lives.cell(op);
                if op.after > ended || (op.way == CopyDirection::Back && !is_out[cell]) {
                    break;
                }
                if op.way == CopyDirection::Back
                    && lives.of_cell(op.chunk, op.microbatch)[1] < ended
                {
                    return Err((*op, "is after one that waits for its backward"));
                }
                let joined = waits.get(&(op.chunk, op.microbatch));
                if op.way == CopyDirection::Out && joined.is_some_and(|&slot| slot < ended) {
                    return Err((*op, "waits for a slot that waits for it to end"));
                }
                is_out[cell] = true;
                (*at, moved) = (*at + 1, true);
            }
        }
        let mut heads = streams.iter().zip(&at).filter_map(|(ops, &at)| ops.get(at));
        match heads.clone().map(|op| op.after).filter(|&after| after > ended).min() {
            _ if moved => {}
            Some(next) => ended = next,
            None => {
                let what = "waits for a copy that is after it";
                return heads.next().map_or(Ok(()), |&op| Err((op, what)));
            }
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::{Bytes, Nanos, Schedule};

    const PLAIN: &str = "F0.0 F0.1 F0.2 B0.0 W0.0 B0.1 W0.1 B0.2 W0.2";

    fn fault(copies: &str) -> String {
        let read = format!("{PLAIN} {copies}").parse::<Schedule>();
        read.map(|schedule| schedule.to_string()).unwrap_err().to_string()
    }

    #[test]
    fn what_can_be_is_read_and_written() {
        for copies in [
            "| O0.0@1 R0.0@3",
            "| O0.0@1 O0.1@2 R0.0@2 R0.1@5",
            "| O0.0@1 O0.1@2 | R0.0@2 R0.1@5",
            "|0.5 O0.0@1 R0.0@3",
            "|0.125 O0.1@2 |0.125 R0.1@2",
            "|<=0 O0.0@1 R0.0@3",
            "|0.5<=1 O0.0@1 O0.1@2 |0.5<=1 R0.0@2 R0.1@5",
        ] {
            let text = format!("{PLAIN} {copies}\n");
            let schedule: Schedule = text.parse().unwrap();
            assert_eq!(schedule.to_string(), text);
        }
        let none: Schedule = format!("{PLAIN} | |").parse().unwrap();
        assert_eq!(none.copies(), None, "nothing is copied");
    }

    #[test]
    fn copies_that_cannot_be() {
        for (copies, what) in [
            ("| O0.0@0 R0.0@3", "O0.0@0 of stage 0 goes out before its forward has ended"),
            ("| O0.0@1 R0.0@4", "R0.0@4 of stage 0 waits for its own backward"),
            ("| O0.0@1", "O0.0@1 of stage 0 goes out, but never comes back"),
            ("| R0.0@1", "comes back, but never goes out"),
            ("| O0.0@1 O0.0@2 R0.0@3", "O0.0@2 of stage 0 is there twice"),
            ("| O1.0@1 R1.0@3", "is of an activation that the stage does not make"),
            ("| O0.7@1 R0.7@3", "is of an activation that the stage does not make"),
            // Microbatch 0 is to come back behind one that leaves after its backward.
            ("| O0.0@1 O0.2@4 R0.0@2 R0.2@6", "R0.0@2 of stage 0 is after one that waits"),
            ("| R0.0@3 O0.0@1", "R0.0@3 of stage 0 waits for a copy that is after it"),
            // F0.1 waits until microbatch 0 is on the host, whose copy waits for F0.1.
            ("|<=0 O0.0@2 R0.0@3", "O0.0@2 of stage 0 waits for a slot that waits for it to end"),
            ("|<=1 O0.0@3 O0.1@3 | R0.0@3 R0.1@4", "is not a copy"),
            ("|<=1 O0.0@3 O0.1@3 |<=1 R0.0@3 R0.1@4", "O0.0@3 of stage 0 waits for a slot"),
        ] {
            let fault = fault(copies);
            assert!(fault.contains(what), "{copies}: {fault}");
        }
        for policy in ["|<=", "|<=-1", "|<1", "|1<=1", "|0.5<=+1"] {
            let fault = fault(&format!("{policy} O0.0@1 R0.0@3"));
            assert!(fault.contains("is not a copy"), "{policy}: {fault}");
        }
        for words in ["| X0.0@1", "| O0.0", "| O0.0@-1", "| O+0.0@1", "|2 O0.0@1", "|0.0 O0.0@1"] {
            let fault = fault(words);
            assert!(
                fault.starts_with("line 1, column ") && fault.contains("is not a copy"),
                "{fault}"
            );
        }
        let two = "F0.0 BW0.0 |\nF1.0 BW1.0 |0.5".parse::<Schedule>().unwrap_err();
        assert!(two.to_string().contains("line 2, column 12"), "{two}");
    }

    #[test]
    fn a_slot_waits_for_the_copy_that_is_one_too_many() {
        let text = format!("{PLAIN} |<=1 O0.0@1 O0.1@2 O0.2@3 |<=1 R0.0@3 R0.1@5 R0.2@7");
        let schedule: Schedule = text.parse().unwrap();
        let copies = schedule.copies().unwrap();
        let joined = |slot| copies.joined_by(0, slot).collect::<Vec<_>>();
        let expected = [vec![], vec![], vec![(0, 0)], vec![(0, 1)], vec![], vec![]];
        assert_eq!([0, 1, 2, 3, 4, 9].map(joined), expected);
        assert_eq!(
            schedule.offloaded(CopyPart::WHOLE, 0).copies().unwrap().joined_by(0, 3).next(),
            None
        );
    }

    #[test]
    fn parts_are_of_bytes_down_and_of_time_up() {
        let part = CopyPart::new(333).unwrap();
        assert_eq!(part.of_bytes(Bytes(10)), Bytes(3));
        assert_eq!(part.of_time(Nanos(10)), Nanos(4));
        assert_eq!(CopyPart::WHOLE.of_time(Nanos(u64::MAX)), Nanos(u64::MAX));
        assert_eq!([CopyPart::new(0), CopyPart::new(1001)], [None, None]);
    }
}
