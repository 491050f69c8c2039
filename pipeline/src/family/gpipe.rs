//! GPipe: all forwards, then all backwards.
//!
//! Source: Huang et al. 2019. Bubble (p-1)(F+B+W). Memory: all m microbatches on every stage.

use super::{About, Chunks, LimitUse};
use crate::fault::Fault;
use crate::pass::Pass;
use crate::problem::Problem;
use crate::schedule::Schedule;
use crate::shape::Placement;

pub(super) const ABOUT: About = About {
    name: "gpipe",
    source: "GPipe (Huang et al. 2019)",
    needs: "any p, any m",
    chunks: Chunks::Exactly(1),
    placement: Placement::Looped,
    limit: LimitUse::Checked,
    whole_backwards: true,
    torch_class: Some("GPipe"),
    bubble: "(p-1)(F+B+W) for all times",
    memory: "m M_B",
    ..About::PLAIN
};

pub(super) fn schedule(problem: &Problem) -> Result<Schedule, Fault> {
    let shape = problem.shape();
    let order = |stage| {
        let forwards = (0..shape.microbatches()).map(move |i| Pass::f(stage, i));
        forwards.chain((0..shape.microbatches()).map(move |i| Pass::bw(stage, i))).collect()
    };
    Schedule::new(shape, Placement::Looped, (0..shape.chunks()).map(order).collect())
}
