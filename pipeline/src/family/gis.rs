//! GIS: grouped interleaved 1F1B with split backward, in less memory than Megatron's; the schedules
//! in memory of PipeOffload.
//!
//! Source: PipeOffload (Wan et al. 2025, arXiv 2503.01328), section 4 and table 1; the order is that
//! of the authors' generator (sail-sg/zero-bubble-pipeline-parallelism, branch `main`,
//! `group_interleaved_1f1b.py`). Microbatches go in groups of g: a group passes chunk after chunk.
//! g = p is GIS, g = ceil(p/2) GIS-H. Bubble of GIS: (p-1)(F+B)/v. Memory of stage 0, for g >= p/2:
//! g (v-1) + p chunk activations.
//!
//! Every stage runs its forwards in the same time slots, and its backwards in the same pattern, t0 + p-1-r
//! slots later on stage r, where t0 is the first slot of the last chunk:
//!
//! - Where 2g >= p, slots follow each other without gaps.
//! - Smaller groups are spread out by s = ceil(ceil(p/2) / g) so that a group is back from the last
//!   stage in time: chunk c of group n is due at slot g (s c + floor(c / (v / gcd(v, s))) + v n), and
//!   v chunks of successive groups interlock (PipeOffload's uniform repeat).
//! - A backward comes after the forward of its slot, and its W after it.

use super::{About, Choice, Chunks, Repeats};
use crate::fault::Fault;
use crate::gcd::gcd;
use crate::order::Order;
use crate::pass::Pass;
use crate::problem::Problem;
use crate::schedule::Schedule;
use crate::shape::{Placement, Shape};

pub(super) const ABOUT: About = About {
    name: "gis",
    source: "PipeOffload's GIS (Wan et al. 2025, arXiv 2503.01328); order of the authors' code",
    needs: "any p, any m; --group from 1 to p",
    chunks: Chunks::Any { default: 2 },
    choice: Choice::Group,
    repeats: Repeats::Group,
    bubble: "(p-1)(F+B)/v where p divides m; in groups of g: (p-1)(F+B)/v + (p-g)(v-1)(F+B-W)/v \
             where 2g >= p, m >= 2g, g divides m and F = B = W",
    memory: "p M_B; groups of g >= p/2: (p + g(v-1))/v M_B",
    note: "groups below p/2 are PipeOffload's uniform repetition, with its gaps closed",
    ..About::PLAIN
};

pub(super) const ABOUT_HALF: About = About {
    name: "gis-h",
    source: "PipeOffload's GIS-H (Wan et al. 2025, arXiv 2503.01328); order of the authors' code",
    needs: "any p, any m",
    chunks: Chunks::Any { default: 2 },
    repeats: Repeats::HalfStages,
    bubble: "in groups of g = ceil(p/2): (p-1)(F+B)/v + (p-g)(v-1)(F+B-W)/v where m >= 2g, g divides m, \
             W <= min(F,B), max(F,B) <= min(F,B)+W, and 2g = p or F = B = W",
    memory: "gis in groups of g = ceil(p/2): about (v+1)/(2v) p M_B",
    ..About::PLAIN
};

pub(super) fn schedule(problem: &Problem) -> Result<Schedule, Fault> {
    let shape = problem.shape();
    in_groups_of(ABOUT.name, shape, problem.group().unwrap_or(shape.stages() as u64))
}

/// In groups of `group` microbatches, for `family`.
///
/// # Errors
/// [`Fault::Needs`] if there are no such groups.
pub(super) fn in_groups_of(
    family: &'static str,
    shape: Shape,
    group: u64,
) -> Result<Schedule, Fault> {
    let stages = shape.stages() as u64;
    if group == 0 || group > stages {
        let what = format!("groups of 1 to p = {stages} microbatches, not {group}");
        return Err(Fault::Needs { family, key: "group", what });
    }
    in_groups(shape, group)
}

pub(super) fn schedule_half(problem: &Problem) -> Result<Schedule, Fault> {
    in_groups(problem.shape(), (problem.shape().stages() as u64).div_ceil(2))
}

/// A time slot of the grid: a forward, and the backward that is due at the same offset from the first backward as the
/// forward from the first forward.
struct TimeSlot {
    /// Offset in slots from the first forward.
    at: u64,
    /// The chunk of the forward among those of its stage.
    chunk_index: usize,
    microbatch: u32,
}

fn in_groups(shape: Shape, group: u64) -> Result<Schedule, Fault> {
    let slots = slots(shape, group);
    let last_chunk = usize::from(shape.chunks_per_stage()) - 1;
    let first_back =
        slots.iter().find(|slot| slot.chunk_index == last_chunk).map_or(0, |slot| slot.at);
    let orders = (0..shape.stages()).map(|stage| order(shape, stage, &slots, first_back));
    Schedule::new(shape, Placement::Looped, orders.collect())
}

/// All slots, ascending.
fn slots(shape: Shape, group: u64) -> Vec<TimeSlot> {
    let half = (shape.stages() as u64).div_ceil(2);
    let (chunks_per_stage, spread) = (u64::from(shape.chunks_per_stage()), half.div_ceil(group));
    let interlocked = chunks_per_stage / gcd(chunks_per_stage, spread);
    let microbatches = shape.microbatches();
    let mut slots =
        Vec::with_capacity(microbatches as usize * usize::from(shape.chunks_per_stage()));
    let of_group = (0..microbatches).step_by(usize::try_from(group).unwrap_or(usize::MAX));
    for (n, first) in (0..).zip(of_group) {
        let members = (0..group).zip(first..microbatches);
        for chunk_index in 0..chunks_per_stage {
            let begin =
                group * (spread * chunk_index + chunk_index / interlocked + chunks_per_stage * n);
            let chunk_index = usize::try_from(chunk_index).unwrap_or(usize::MAX);
            let slot = |(i, microbatch)| TimeSlot { at: begin + i, chunk_index, microbatch };
            slots.extend(members.clone().map(slot));
        }
    }
    slots.sort_by_key(|slot| slot.at);
    slots
}

fn order(shape: Shape, stage: usize, slots: &[TimeSlot], first_back: u64) -> Order {
    let chunks: Vec<u16> = Placement::Looped.chunks_of(shape, stage).collect();
    let delay = first_back + (shape.stages() - 1 - stage) as u64;
    let mut order = Order::with_capacity(3 * slots.len());
    let mut forwards = slots.iter().peekable();
    for back in slots {
        while let Some(slot) = forwards.next_if(|slot| slot.at <= back.at + delay) {
            order.push(Pass::f(chunks[slot.chunk_index], slot.microbatch));
        }
        let chunk = chunks[chunks.len() - 1 - back.chunk_index];
        order.push(Pass::b(chunk, back.microbatch));
        order.push(Pass::w(chunk, back.microbatch));
    }
    order
}
