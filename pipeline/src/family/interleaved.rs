//! Interleaved 1F1B: v chunks per stage, looped, so that filling takes 1/v of the time.
//!
//! Source: Narayanan et al. 2021, section 2.2 (m a multiple of p); Megatron-LM's
//! `microbatch_group_size_per_vp_stage` and, where the groups are equal, `Interleaved1F1B` of
//! torch.distributed.pipelining for other m. Bubble (p-1)(F+B+W)/v. Memory of stage 0:
//! p + (p-1)/v microbatches.
//!
//! Microbatches go in groups of g: a group passes chunk after chunk. g is the smallest number from p on of which
//! the last group has as many, or at least p; all m where m is less than p.
//!
//! 1. Warm-up: (v-1) g + 2 (p-1-r) forwards on stage r, or all there are.
//! 2. Steady: one forward, one backward.
//! 3. Drain: the backwards that are left.

use super::{About, Chunks, LimitUse, Repeats};
use crate::fault::Fault;
use crate::order::Order;
use crate::pass::Pass;
use crate::problem::Problem;
use crate::schedule::Schedule;
use crate::shape::{Placement, Shape};

pub(super) const ABOUT: About = About {
    name: "1f1b-i",
    source: "Interleaved 1F1B (Narayanan et al. 2021, arXiv 2104.04473; torch Interleaved1F1B)",
    chunks: Chunks::Any { default: 2 },
    placement: Placement::Looped,
    limit: LimitUse::Checked,
    whole_backwards: true,
    in_megatron: true,
    torch_class: Some("Interleaved1F1B"),
    repeats: Repeats::WholeStages,
    bubble: "(p-1)(F+B+W)/v where p divides m",
    memory: "(p + (p-1)/v) M_B",
    ..About::PLAIN
};

pub(super) fn schedule(problem: &Problem) -> Result<Schedule, Fault> {
    ahead(problem.shape(), 0)
}

/// The same with `more` forwards of chunks in the warm-up, so that every backward comes as many pairs
/// of a forward and a backward later.
pub(super) fn ahead(shape: Shape, more: u32) -> Result<Schedule, Fault> {
    let orders = (0..shape.stages()).map(|stage| order(shape, stage, more));
    Schedule::new(shape, Placement::Looped, orders.collect())
}

/// The microbatches that pass a chunk in turn before they go on to the next, g: of the last group there are the rest.
#[must_use]
pub fn group(shape: Shape) -> u32 {
    let microbatches = shape.microbatches();
    let least = u32::try_from(shape.stages()).unwrap_or(u32::MAX);
    let is_whole = |group: &u32| match microbatches % group {
        0 => true,
        rest => rest >= least,
    };
    (least..microbatches).find(is_whole).unwrap_or(microbatches)
}

/// How many forwards of chunks `stage` runs before those that alternate with backwards, with `more` of them.
pub(super) fn warm_up(shape: Shape, stage: usize, more: u32) -> u32 {
    let (per_stage, last) = (u32::from(shape.chunks_per_stage()), shape.stages() - 1);
    let group = group(shape);
    let behind = u32::try_from(last - stage).unwrap_or(u32::MAX);
    ((per_stage - 1) * group + 2 * behind + more).min(per_stage * shape.microbatches())
}

fn order(shape: Shape, stage: usize, more: u32) -> Order {
    let (per_stage, group) = (u32::from(shape.chunks_per_stage()), group(shape));
    let total = per_stage * shape.microbatches();
    let warm_up = warm_up(shape, stage, more);
    let chunks: Vec<u16> = Placement::Looped.chunks_of(shape, stage).collect();
    // Of visit k of a chunk, the microbatches before its group, those of the group, and its place in it.
    let place = |k: u32| {
        let before = k / (group * per_stage) * group;
        (before, group.min(shape.microbatches() - before), k - before * per_stage)
    };
    let lap = |k: u32| {
        let (_, own, at) = place(k);
        (at / own) as usize
    };
    let microbatch = |k: u32| {
        let (before, own, at) = place(k);
        before + at % own
    };
    let forward = |k: u32| Pass::f(chunks[lap(k)], microbatch(k));
    let backward = |k: u32| Pass::bw(chunks[chunks.len() - 1 - lap(k)], microbatch(k));
    let mut order = Order::with_capacity(2 * total as usize);
    (0..warm_up).for_each(|k| order.push(forward(k)));
    for k in 0..total {
        if warm_up + k < total {
            order.push(forward(warm_up + k));
        }
        order.push(backward(k));
    }
    order
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::costs::{Costs, PassTimes};
    use crate::pass::Kind;
    use crate::units::Nanos;

    fn ordered(stages: u64, chunks: u64, microbatches: u64) -> Schedule {
        let shape = Shape::new(stages, chunks, microbatches).unwrap();
        let one = PassTimes::new(Nanos(1), Nanos(1), Nanos(1));
        let costs = Costs::uniform(shape, one, Nanos(0));
        schedule(&Problem::new(shape, costs).unwrap()).unwrap()
    }

    /// Forwards of `stage` as the table of Megatron-LM's `get_schedule_table` has them: groups of `group`
    /// microbatches, each chunk after chunk.
    fn table(stages: u16, chunks: u16, microbatches: u32, group: u32, stage: u16) -> Vec<Pass> {
        let groups = (0..microbatches).step_by(group as usize);
        let of = |first: u32| {
            let own = first..microbatches.min(first + group);
            (0..chunks).flat_map(move |chunk| own.clone().map(move |m| (chunk, m)))
        };
        let pass = |(chunk, m): (u16, u32)| Pass::f(chunk * stages + stage, m);
        groups.flat_map(of).map(pass).collect()
    }

    #[test]
    fn groups_are_those_that_megatron_takes() {
        let of = |stages, microbatches| group(Shape::new(stages, 2, microbatches).unwrap());
        let groups = [(3, 3), (4, 4), (8, 4), (9, 5), (10, 5), (13, 7), (14, 5), (15, 5), (22, 6)];
        for (microbatches, expected) in groups {
            assert_eq!(of(4, microbatches), expected, "m = {microbatches}");
        }
    }

    #[test]
    fn forwards_go_group_by_group_whatever_the_microbatches() {
        for (stages, chunks, microbatches) in [(4, 2, 9), (4, 2, 13), (3, 3, 11), (2, 4, 7)] {
            let schedule = ordered(stages.into(), chunks.into(), microbatches.into());
            let group = group(schedule.shape());
            for (stage, order) in (0..).zip(schedule.orders()) {
                let forwards = order.passes().iter().filter(|pass| pass.kind == Kind::F);
                let expected = table(stages, chunks, microbatches, group, stage);
                assert_eq!(forwards.copied().collect::<Vec<_>>(), expected);
            }
        }
    }

    #[test]
    fn every_number_of_microbatches_has_an_order_that_waits_for_nothing_in_vain() {
        for stages in 2..6 {
            for chunks in 2..4 {
                (1..30).for_each(|microbatches| {
                    ordered(stages, chunks, microbatches);
                });
            }
        }
    }
}
