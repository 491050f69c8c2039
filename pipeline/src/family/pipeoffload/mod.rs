//! PO-H and PO-F: GIS whose activations spend the time between forward and backward on the host; the
//! schedules in memory of PipeOffload.
//!
//! Source: PipeOffload (Wan et al. 2025, arXiv 2503.01328), section 3 and table 1. PO-H copies the
//! ceil(v/2) chunks of a stage that live longest, which are those with the lowest index; PO-F all v.
//! The order is the uniform repetition of the authors' generator, GIS in groups of one, in which
//! activations come and go evenly: that is what brings PO-H down to its published memory.
//! Which activations leave, and when, is planned from the times of the order ([`copy_order`]).

mod copy_order;

pub use copy_order::ROUND_TRIPS;

use super::{About, Choice, Chunks, gis};
use crate::copy_op::CopyPart;
use crate::costs::Costs;
use crate::fault::Fault;
use crate::problem::Problem;
use crate::schedule::Schedule;

pub(super) const ABOUT_HALF: About = About {
    name: "po-h",
    source: "PipeOffload's PO-H (Wan et al. 2025, arXiv 2503.01328); rules of its section 3",
    needs: "any p, any m; the time of a copy to the host (--offload-time, or --offload-ratio, or \
            --host-bandwidth)",
    chunks: Chunks::Any { default: 2 },
    choice: Choice::Offload,
    uses_times: true,
    bubble: "gis in groups of 1: below (p-1)(F+B+W) where p >= 2, p divides m and F = B = W > 0",
    memory: "about (v+2)/(8v) p M_B, and up to 4 chunk activations, where k <= 1",
    note: "planned so that no backward waits: what has no time to leave stays",
    ..About::PLAIN
};

pub(super) const ABOUT_FULL: About = About {
    name: "po-f",
    source: "PipeOffload's PO-F (Wan et al. 2025, arXiv 2503.01328); rules of its section 3",
    memory: "about 4 chunk activations, whatever p, where k <= 0.7",
    ..ABOUT_HALF
};

pub(super) fn schedule_half(problem: &Problem) -> Result<Schedule, Fault> {
    let half = u64::from(problem.shape().chunks_per_stage()).div_ceil(2);
    offloaded(ABOUT_HALF.name, problem, half)
}

pub(super) fn schedule_full(problem: &Problem) -> Result<Schedule, Fault> {
    offloaded(ABOUT_FULL.name, problem, problem.shape().chunks_per_stage().into())
}

/// GIS with the first `chunks` of each stage, in model order, on the host, unless the problem gives another number.
fn offloaded(family: &'static str, problem: &Problem, chunks: u64) -> Result<Schedule, Fault> {
    let shape = problem.shape();
    if problem.costs().copies().is_empty() {
        let what = "the time of a copy to the host: --offload-time, --offload-ratio, or \
                    --host-bandwidth with the bytes of activations";
        return Err(Fault::Needs { family, key: "offload-time", what: what.to_owned() });
    }
    let most = u64::from(shape.chunks_per_stage());
    let chunks = problem.offload_chunks().unwrap_or(chunks);
    if !(1..=most).contains(&chunks) {
        let what = format!("1 to v = {most} chunks of a stage on the host, not {chunks}");
        return Err(Fault::Needs { family, key: "offload-chunks", what });
    }
    let schedule = gis::in_groups_of(family, shape, problem.group().unwrap_or(1))?;
    let leaves = |chunk: u16| u64::from(chunk) / (shape.stages() as u64) < chunks;
    let rule = (problem.offload_part(), ROUND_TRIPS);
    in_turn(schedule, problem.costs(), rule, leaves)
}

/// `schedule` with `part` of the activations of the chunks that `leaves` names copied by the rule of PO-H and PO-F:
/// out and back in turn on one stream of each stage, and so that no backward waits as long as passes and copies take
/// the times of `costs`. Those stay for which fewer than `round_trips` copies out and back fit between forward and
/// backward; the published rule has 3.
///
/// # Errors
/// If one is named that is discarded and recomputed.
pub fn in_turn(
    schedule: Schedule,
    costs: &Costs,
    (part, round_trips): (CopyPart, u64),
    leaves: impl Fn(u16) -> bool,
) -> Result<Schedule, Fault> {
    let spans = super::times::spans(&schedule, costs);
    let streams = copy_order::streams(&schedule, costs, (part, round_trips), &spans, leaves);
    schedule.with_copies(part, streams)
}
