//! 1F1B with the output layer in shards over all stages, and V-Half likewise.
//!
//! Source: Vocabulary Parallelism (Yeung et al. 2024, arXiv 2411.05288), sections 4 and 5. One S and
//! one T per microbatch on every stage go into the block that is repeated, and every barrier between
//! the forward and the backward of the last chunk makes a microbatch live one repetition longer.
//!
//! The block counts F as one unit, BW as two and the work on a shard as none; d is the distance from
//! the last stage, k the number of barriers. Microbatch j has
//!
//! | F | S, behind it T of j | BW |
//! |---|---|---|
//! | 3j - d; as soon as it can before the first BW | 3j + 1; with S of j + 1 | 3(j+k) + 1 + 2d |
//!
//! so that all stages do the same S at the same time, T of one microbatch goes right before S of the
//! next, as in the authors' code, and a whole repetition hides each barrier.
//!
//! Interlaced: nothing hides the barriers. In every repetition all stages come to S and T together,
//! and F and BW stand in front of them, F first on every second stage: a microbatch then goes down two
//! stages and up one per repetition. F of j is in repetition j - floor(d/2), BW in j + 1 + d.

use super::run_ahead::run_ahead;
use super::{About, Chunks, LimitUse};
use crate::fault::Fault;
use crate::order::Order;
use crate::pass::{Kind, Pass};
use crate::problem::Problem;
use crate::schedule::Schedule;
use crate::shape::{Placement, Shape, Vocabulary};

pub(super) const SOURCE: &str = "Vocabulary Parallelism (Yeung et al. 2024, arXiv 2411.05288)";
const NEEDS: &str = "any p, any m; times of S and T (vocab-s, vocab-t)";

pub(super) const ABOUT_1: About = About {
    name: "vocab-1",
    source: SOURCE,
    needs: NEEDS,
    chunks: Chunks::Exactly(1),
    placement: Placement::Looped,
    limit: LimitUse::Checked,
    whole_backwards: true,
    vocabulary: Vocabulary::TwoBarriers,
    bubble: "about (p-1)(F+B+W), and what of the barriers a repetition does not hide",
    memory: "(p+2) M_B",
    note: "1f1b with the output layer over all stages (algorithm 1: a barrier behind S and one \
           behind T); the authors' order follows measured times, this one F : B+W = 1 : 2",
    ..About::PLAIN
};

pub(super) const ABOUT_2: About = About {
    name: "vocab-2",
    vocabulary: Vocabulary::OneBarrier,
    memory: "(p+1) M_B",
    note: "1f1b with the output layer over all stages (algorithm 2: one barrier, behind S); the \
           authors' order follows measured times, this one F : B+W = 1 : 2",
    ..ABOUT_1
};

pub(super) const ABOUT_1_TIMED: About = About {
    name: "vocab-1-timed",
    uses_times: true,
    bubble: "that of vocab-1 or less",
    note: "vocab-1 with every stage free to run ahead of its order, for the times given: hops longer than \
           the slack of F : B+W = 1 : 2 hold it up less",
    ..ABOUT_1
};

pub(super) const ABOUT_2_TIMED: About = About {
    name: "vocab-2-timed",
    uses_times: true,
    bubble: "that of vocab-2 or less",
    note: "vocab-2 with every stage free to run ahead of its order, for the times given: hops longer than \
           the slack of F : B+W = 1 : 2 hold it up less",
    ..ABOUT_2
};

pub(super) const ABOUT_INTERLACED: About = About {
    name: "interlaced",
    bubble: "(p-1)(F+B+W) where F <= B+W; every stage waits at every barrier",
    memory: "floor(3p/2) M_B",
    note: "the output layer as tensor parallelism over all stages, as nnScaler does (Lin et al. \
           2024), by way of Vocabulary Parallelism; the order is read off the published block, the \
           authors run all forwards of the warm-up before the first S and hold more on later stages",
    ..ABOUT_1
};

pub(super) fn schedule_1(problem: &Problem) -> Result<Schedule, Fault> {
    delayed(problem, ABOUT_1.name, Vocabulary::TwoBarriers)
}

pub(super) fn schedule_2(problem: &Problem) -> Result<Schedule, Fault> {
    delayed(problem, ABOUT_2.name, Vocabulary::OneBarrier)
}

pub(super) fn schedule_1_timed(problem: &Problem) -> Result<Schedule, Fault> {
    timed(problem, ABOUT_1_TIMED.name, Vocabulary::TwoBarriers)
}

pub(super) fn schedule_2_timed(problem: &Problem) -> Result<Schedule, Fault> {
    timed(problem, ABOUT_2_TIMED.name, Vocabulary::OneBarrier)
}

fn timed(
    problem: &Problem,
    family: &'static str,
    vocabulary: Vocabulary,
) -> Result<Schedule, Fault> {
    let schedule = delayed(problem, family, vocabulary)?;
    match run_ahead(&schedule, problem.costs()) {
        Some(orders) => Schedule::new(schedule.shape(), Placement::Looped, orders),
        None => Ok(schedule),
    }
}

pub(super) fn interlaced(problem: &Problem) -> Result<Schedule, Fault> {
    let shape = with_shards(problem, ABOUT_INTERLACED.name, Vocabulary::TwoBarriers)?;
    let orders = (0..shape.chunks()).map(|stage| interlaced_order(shape, stage)).collect();
    Schedule::new(shape, Placement::Looped, orders)
}

/// The shape of `problem` with shards, if there are times for them.
pub(super) fn with_shards(
    problem: &Problem,
    family: &'static str,
    vocabulary: Vocabulary,
) -> Result<Shape, Fault> {
    if problem.costs().shards().is_empty() {
        return Err(needs_times(family));
    }
    let shape = problem.shape().with_vocabulary(vocabulary)?;
    problem.costs().check(shape)?;
    problem.footprints().check(shape)?;
    Ok(shape)
}

/// The error that `family` gives if the times of S and T are missing.
pub(super) fn needs_times(family: &'static str) -> Fault {
    let what = "the times of the output layer's shards (vocab-s and vocab-t)".to_owned();
    Fault::Needs { family, key: "vocab-s", what }
}

fn delayed(
    problem: &Problem,
    family: &'static str,
    vocabulary: Vocabulary,
) -> Result<Schedule, Fault> {
    let shape = with_shards(problem, family, vocabulary)?;
    let orders = (0..shape.chunks()).map(|stage| delayed_order(shape, stage)).collect();
    Schedule::new(shape, Placement::Looped, orders)
}

/// The time at which a slot is due, and its rank among slots due at the same time.
type Due = (i64, u8);

/// The passes of `stage`, each kind of the microbatches in turn, by when they are `due`.
fn order(shape: Shape, stage: u16, due: impl Fn(Kind, i64) -> Due) -> Order {
    let mut passes: Vec<(Due, Pass)> = Vec::with_capacity(4 * shape.microbatches() as usize);
    for kind in [Kind::F, Kind::BW, Kind::S, Kind::T] {
        let pass = |microbatch| Pass { kind, chunk: stage, microbatch };
        let all = (0..shape.microbatches()).map(|m| (due(kind, i64::from(m)), pass(m)));
        passes.extend(all);
    }
    passes.sort_by_key(|&(due, _)| due);
    passes.into_iter().map(|(_, pass)| pass).collect()
}

fn delayed_order(shape: Shape, stage: u16) -> Order {
    let from_last = i64::from(shape.chunks() - 1 - stage);
    let barriers = i64::from(shape.vocabulary().barriers());
    order(shape, stage, |kind, j| match kind {
        // The forwards before the first backward wait for nothing but each other.
        Kind::F if j <= from_last + barriers => (j - from_last, 2),
        Kind::F => (3 * j - from_last, 2),
        Kind::T => (3 * (j + 1) + 1, 0),
        Kind::S => (3 * j + 1, 1),
        Kind::B | Kind::W | Kind::BW | Kind::R => (3 * (j + barriers) + 1 + 2 * from_last, 3),
    })
}

fn interlaced_order(shape: Shape, stage: u16) -> Order {
    let from_last = i64::from(shape.chunks() - 1 - stage);
    let [forward, backward] = if from_last % 2 == 0 { [1, 0] } else { [0, 1] };
    order(shape, stage, |kind, j| match kind {
        Kind::F => (j - from_last / 2, forward),
        Kind::S => (j, 2),
        Kind::T => (j, 3),
        Kind::B | Kind::W | Kind::BW | Kind::R => (j + 1 + from_last, backward),
    })
}
