//! PipeDream and PipeDream-2BW: 1F1B that never flushes.
//!
//! Sources: Narayanan et al. 2019 and 2021, by the figures of Chimera's table 2 (a secondary copy:
//! the papers were not at hand). The order is 1F1B's over the microbatches of all updates, so the
//! pipeline fills once. Stages whose weights have been updated meanwhile work on a microbatch with
//! the version that its forward has seen: p-r versions on stage r of PipeDream, which updates after
//! every microbatch, and 2 of PipeDream-2BW, whose gradients, of m >= p microbatches, come one
//! update late.

use super::handcrafted::{self, Backward};
use super::{About, Chunks, LimitUse, Semantics};
use crate::fault::Fault;
use crate::problem::Problem;
use crate::schedule::Schedule;

pub(super) const ABOUT: About = About {
    name: "pipedream",
    source: "PipeDream (Narayanan et al. 2019, arXiv 1806.03377)",
    chunks: Chunks::Exactly(1),
    limit: LimitUse::Checked,
    semantics: Semantics::Asynchronous,
    whole_backwards: true,
    bubble: "in the steady state: 0 for all times",
    memory: "p M_B, and p-r versions of the weights on stage r",
    note: "trains something else than the synchronous schedules: gradients are of older weights; \
           figures from a secondary copy of Chimera's table 2",
    ..About::PLAIN
};

pub(super) const ABOUT_2BW: About = About {
    name: "pipedream-2bw",
    source: "PipeDream-2BW (Narayanan et al. 2021, arXiv 2006.09503)",
    needs: "m >= p",
    memory: "p M_B, and 2 versions of the weights on every stage",
    note: "trains something else than the synchronous schedules: gradients come one update late; \
           figures from a secondary copy of Chimera's table 2",
    ..ABOUT
};

pub(super) fn schedule(problem: &Problem) -> Result<Schedule, Fault> {
    handcrafted::schedule(problem, 1, Backward::Fused)
}

pub(super) fn schedule_2bw(problem: &Problem) -> Result<Schedule, Fault> {
    let shape = problem.shape();
    let microbatches = shape.microbatches() / problem.updates();
    if (microbatches as usize) < shape.stages() {
        let stages = shape.stages();
        let what = format!(
            "at least as many microbatches in an update as stages, {stages}, not {microbatches}"
        );
        return Err(Fault::Needs { family: ABOUT_2BW.name, key: "microbatches", what });
    }
    schedule(problem)
}
