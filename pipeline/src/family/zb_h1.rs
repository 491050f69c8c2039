//! ZB-H1: 1F1B with W delayed into the drain, in the memory of 1F1B.
//!
//! Source: Zero Bubble, section 2.1. Bubble (p-1)(F+B-W) where W <= F, B. Memory on stage r:
//! (p-r) M_B + r M_W.

use super::handcrafted::{self, Backward};
use super::{About, Chunks, LimitUse, Repeats};
use crate::fault::Fault;
use crate::problem::Problem;
use crate::schedule::Schedule;
use crate::shape::Placement;

pub(super) const ABOUT: About = About {
    name: "zb-h1",
    source: "Zero Bubble (Qi et al. 2024, arXiv 2401.10241), section 2.1",
    needs: "any p, any m (the paper's figures: m >= 2p)",
    chunks: Chunks::Exactly(1),
    placement: Placement::Looped,
    limit: LimitUse::Checked,
    repeats: Repeats::Microbatch,
    bubble: "(p-1)(F+B-W) where m >= 2p and W <= min(F,B)",
    memory: "p M_B",
    ..About::PLAIN
};

pub(super) fn schedule(problem: &Problem) -> Result<Schedule, Fault> {
    handcrafted::schedule(problem, 1, Backward::Split)
}
