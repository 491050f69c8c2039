//! 1F1B (PipeDream-Flush, DAPPLE): one forward, one backward.
//!
//! Source: Narayanan et al. 2021, section 2.2. Bubble (p-1)(F+B+W). Memory: min(m, p-r) microbatches
//! on stage r.

use super::handcrafted::{self, Backward};
use super::{About, Chunks, LimitUse, Repeats};
use crate::fault::Fault;
use crate::problem::Problem;
use crate::schedule::Schedule;
use crate::shape::Placement;

pub(super) const ABOUT: About = About {
    name: "1f1b",
    source: "PipeDream-Flush (Narayanan et al. 2021, arXiv 2104.04473)",
    needs: "any p, any m",
    chunks: Chunks::Exactly(1),
    placement: Placement::Looped,
    limit: LimitUse::Checked,
    whole_backwards: true,
    in_megatron: true,
    torch_class: Some("1F1B"),
    repeats: Repeats::Microbatch,
    bubble: "(p-1)(F+B+W) for all times",
    memory: "p M_B",
    ..About::PLAIN
};

pub(super) fn schedule(problem: &Problem) -> Result<Schedule, Fault> {
    handcrafted::schedule(problem, 1, Backward::Fused)
}
