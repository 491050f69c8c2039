//! GIS: grouped interleaved 1F1B with split backward, in less memory than Megatron's; the schedules
//! in memory of PipeOffload.
//!
//! Source: PipeOffload (Wan et al. 2025, arXiv 2503.01328), section 4 and table 1; the order is that
//! of the authors' generator (sail-sg/zero-bubble-pipeline-parallelism, branch `main`,
//! `group_interleaved_1f1b.py`). Microbatches go in groups of g: a group passes chunk after chunk.
//! g = p is GIS, g = ceil(p/2) GIS-H. Bubble of GIS: (p-1)(F+B)/v. Memory of stage 0, for g >= p/2:
//! g (v-1) + p chunk activations.
//!
//! Every stage does its forwards at the same beats, and its backwards in the same rhythm, t0 + p-1-r
//! beats later on stage r, where t0 is the first beat of the last chunk:
//!
//! - Where 2g >= p, beats follow each other without gaps.
//! - Smaller groups are spread out by s = ceil(ceil(p/2) / g) so that a group is back from the last
//!   stage in time: chunk c of group n is due at beat g (s c + floor(c / (v / gcd(v, s))) + v n), and
//!   v chunks of successive groups interlock (PipeOffload's uniform repeat).
//! - A backward comes behind the forward of its beat, and its W behind it.

use super::{About, Choice, Chunks};
use crate::fault::Fault;
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
    bubble: "(p-1)(F+B)/v; groups of g >= p/2: (p-g)(v-1)(F+B-W)/v more (g divides m)",
    memory: "p M_B; groups of g >= p/2: (p + g(v-1))/v M_B",
    note: "groups below p/2 are PipeOffload's uniform repetition, with its gaps closed",
    ..About::PLAIN
};

pub(super) const ABOUT_HALF: About = About {
    name: "gis-h",
    source: "PipeOffload's GIS-H (Wan et al. 2025, arXiv 2503.01328); order of the authors' code",
    needs: "any p, any m",
    chunks: Chunks::Any { default: 2 },
    bubble: "gis in groups of g = ceil(p/2)",
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

/// A forward, and the backward that is due as long after the first backward as it is after the first
/// forward.
struct Beat {
    at: u64,
    lap: usize,
    microbatch: u32,
}

fn in_groups(shape: Shape, group: u64) -> Result<Schedule, Fault> {
    let beats = beats(shape, group);
    let last_lap = usize::from(shape.chunks_per_stage()) - 1;
    let first_back = beats.iter().find(|beat| beat.lap == last_lap).map_or(0, |beat| beat.at);
    let orders = (0..shape.stages()).map(|stage| order(shape, stage, &beats, first_back));
    Schedule::new(shape, Placement::Looped, orders.collect())
}

/// All beats, ascending.
fn beats(shape: Shape, group: u64) -> Vec<Beat> {
    let half = (shape.stages() as u64).div_ceil(2);
    let (laps, spread) = (u64::from(shape.chunks_per_stage()), half.div_ceil(group));
    let interlocked = laps / gcd(laps, spread);
    let microbatches = shape.microbatches();
    let mut beats =
        Vec::with_capacity(microbatches as usize * usize::from(shape.chunks_per_stage()));
    let of_group = (0..microbatches).step_by(usize::try_from(group).unwrap_or(usize::MAX));
    for (n, first) in (0..).zip(of_group) {
        let members = (0..group).zip(first..microbatches);
        for lap in 0..laps {
            let begin = group * (spread * lap + lap / interlocked + laps * n);
            let lap = usize::try_from(lap).unwrap_or(usize::MAX);
            let beat = |(i, microbatch)| Beat { at: begin + i, lap, microbatch };
            beats.extend(members.clone().map(beat));
        }
    }
    beats.sort_by_key(|beat| beat.at);
    beats
}

fn order(shape: Shape, stage: usize, beats: &[Beat], first_back: u64) -> Order {
    let chunks: Vec<u16> = Placement::Looped.chunks_of(shape, stage).collect();
    let delay = first_back + (shape.stages() - 1 - stage) as u64;
    let mut order = Order::with_capacity(3 * beats.len());
    let mut forwards = beats.iter().peekable();
    for back in beats {
        while let Some(beat) = forwards.next_if(|beat| beat.at <= back.at + delay) {
            order.push(Pass::f(chunks[beat.lap], beat.microbatch));
        }
        let chunk = chunks[chunks.len() - 1 - back.lap];
        order.push(Pass::b(chunk, back.microbatch));
        order.push(Pass::w(chunk, back.microbatch));
    }
    order
}

const fn gcd(a: u64, b: u64) -> u64 {
    if b == 0 { a } else { gcd(b, a % b) }
}
