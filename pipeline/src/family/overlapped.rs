//! 1F1B and interleaved 1F1B whose steady part is pairs of a forward and a whole backward, so that the
//! communication of the one is hidden behind the compute of the other.
//!
//! Source: Megatron-LM's combined 1F1B (`combined_1f1b.py`, `schedules.py`;
//! `--overlap-moe-expert-parallel-comm`). Its warm-up is (p - r - 1) 2 + (v - 1) p + 1 forwards of chunks
//! on stage r, one more than that of interleaved 1F1B, since in the plain order the last stage would pair
//! a forward with the backward that needs it. Then come pairs, then the backwards that are left.
//!
//! Megatron-LM does so with virtual stages, or without a pipeline. With one chunk per stage the same rule
//! holds: with the shorter warm-up of 1F1B, p - r, a stage and the next one would wait for each other's
//! pairs in turn, and every second slot be lost. On one stage it is the order that Megatron-LM has
//! without a pipeline: F0, then F1&BW0, and so on, and the last backward alone.

use super::interleaved::{ahead, warm_up};
use super::{About, Chunks};
use crate::fault::Fault;
use crate::order::Order;
use crate::pass::{Kind, Pass, Slot};
use crate::problem::Problem;
use crate::schedule::Schedule;

pub(super) const ABOUT: About = About {
    name: "1f1b-overlap",
    source: "combined 1F1B of Megatron-LM (--overlap-moe-expert-parallel-comm), with one chunk per stage",
    whole_backwards: true,
    overlaps_lone: true,
    bubble: "(p-1)(F+B+W) for all times; pairs take F+B+W",
    memory: "2p M_B",
    note: "Megatron-LM has it with virtual stages, and without a pipeline",
    ..About::PLAIN
};

pub(super) const ABOUT_INTERLEAVED: About = About {
    name: "1f1b-i-overlap",
    source: "combined 1F1B of Megatron-LM (--overlap-moe-expert-parallel-comm)",
    chunks: Chunks::Any { default: 2 },
    whole_backwards: true,
    overlaps_lone: true,
    in_megatron: true,
    bubble: "(p-1)(F+B+W)/v where p divides m; pairs take F+B+W",
    memory: "(p + p/v) M_B",
    ..About::PLAIN
};

pub(super) fn schedule(problem: &Problem) -> Result<Schedule, Fault> {
    paired(problem)
}

pub(super) fn schedule_interleaved(problem: &Problem) -> Result<Schedule, Fault> {
    paired(problem)
}

/// Forwards in the warm-up beyond those of interleaved 1F1B.
const MORE: u32 = 1;

/// The order of interleaved 1F1B with one more forward in the warm-up, each forward in a pair with the
/// backward behind it.
fn paired(problem: &Problem) -> Result<Schedule, Fault> {
    let shape = problem.shape();
    let apart = ahead(shape, MORE)?;
    let orders = apart.orders().iter().enumerate();
    let orders = orders.map(|(stage, order)| pairs(order, warm_up(shape, stage, MORE))).collect();
    Schedule::new(shape, apart.placement(), orders)
}

fn pairs(order: &Order, warm_up: u32) -> Order {
    let passes = order.passes();
    let mut paired = Order::with_capacity(passes.len());
    let mut at = 0;
    while let Some(&pass) = passes.get(at) {
        let is_steady = at >= warm_up as usize;
        let behind = passes.get(at + 1).copied().filter(|_| is_steady);
        let behind = behind.filter(|next| together(pass, *next));
        match behind {
            Some(next) => paired.push(Slot::Pair(pass, next)),
            None => paired.push(pass),
        }
        at += if behind.is_some() { 2 } else { 1 };
    }
    paired
}

/// Whether `next`, behind `pass`, is a backward that its forward may run with.
fn together(pass: Pass, next: Pass) -> bool {
    let own = (pass.chunk, pass.microbatch) == (next.chunk, next.microbatch);
    pass.kind == Kind::F && next.kind == Kind::BW && !own
}

#[cfg(test)]
mod tests {
    use crate::{Costs, Family, Nanos, PassTimes, Problem, Shape};

    fn order(family: Family, (stages, chunks, microbatches): (u64, u64, u64)) -> String {
        let shape = Shape::new(stages, chunks, microbatches).unwrap();
        let costs = Costs::uniform(shape, PassTimes::default(), Nanos(0));
        family.schedule(&Problem::new(shape, costs).unwrap()).unwrap().to_string()
    }

    #[test]
    fn without_a_pipeline_each_forward_meets_the_backward_before() {
        let text = order(Family::OneFOneBOverlap, (1, 1, 3));
        assert_eq!(text.trim(), "F0.0 F0.1&BW0.0 F0.2&BW0.1 BW0.2");
    }

    #[test]
    fn a_warm_up_of_all_forwards_ends_in_no_pair() {
        let text = order(Family::OneFOneBOverlap, (2, 1, 2));
        let lines: Vec<&str> = text.lines().collect();
        assert_eq!(lines, ["F0.0 F0.1 BW0.0 BW0.1", "F1.0 F1.1&BW1.0 BW1.1"]);
    }

    #[test]
    fn the_last_stage_warms_up_by_one_forward_more() {
        let text = order(Family::OneFOneBOverlap, (2, 1, 4));
        let lines: Vec<&str> = text.lines().collect();
        assert_eq!(lines[0], "F0.0 F0.1 F0.2 F0.3&BW0.0 BW0.1 BW0.2 BW0.3");
        assert_eq!(lines[1], "F1.0 F1.1&BW1.0 F1.2&BW1.1 F1.3&BW1.2 BW1.3");
        let text = order(Family::InterleavedOverlap, (2, 2, 4));
        let last = text.lines().nth(1).unwrap();
        assert!(last.starts_with("F1.0 F1.1 F3.0 F3.1&BW3.0 F1.2&BW3.1"), "{last}");
    }
}
