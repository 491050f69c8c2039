//! ZB-H2: twice the forwards of 1F1B in the warm-up, so that no stage waits where F = B = W.
//!
//! Source: Zero Bubble, section 2.2. Bubble (p-1)(F+B-2W) of the longest span, for F, B, W close to
//! equal, with a step boundary that does not synchronise. Memory on stage r:
//! (2p-2r-1) M_B + 2r M_W.

use super::handcrafted::{self, Backward};
use super::{About, Chunks, LimitUse, Repeats};
use crate::fault::Fault;
use crate::problem::Problem;
use crate::schedule::Schedule;
use crate::shape::Placement;

pub(super) const ABOUT: About = About {
    name: "zb-h2",
    source: "Zero Bubble (Qi et al. 2024, arXiv 2401.10241), section 2.2",
    needs: "any p, any m (the paper's figures: m >= 2p); optimizer without a barrier",
    chunks: Chunks::Exactly(1),
    placement: Placement::Looped,
    limit: LimitUse::Checked,
    repeats: Repeats::Microbatch,
    bubble: "(p-1)(F+B-2W) where m >= 2p and W <= min(F,B)",
    memory: "(2p-1) M_B",
    ..About::PLAIN
};

pub(super) fn schedule(problem: &Problem) -> Result<Schedule, Fault> {
    handcrafted::schedule(problem, 2, Backward::Split)
}
