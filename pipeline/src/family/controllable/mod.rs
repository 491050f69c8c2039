//! Controllable Memory: schedules of two chunks per stage in a V, made from a building block.
//!
//! Source: Qi et al. 2024, Pipeline Parallelism with Controllable Memory (arXiv 2405.15362), by way
//! of the authors' code (sail-sg/zero-bubble-pipeline-parallelism, branch `main`). The passes of one
//! microbatch on all stages, the block, are repeated every six passes; then warm-up and cool-down
//! are reordered in the memory that the repeated block takes. How long a microbatch lives in the
//! block sets the memory.

mod adaptive;
pub(super) mod greedy;
mod grid;
mod one_f_one_b_v;
mod reorder;
mod timed;
mod vocabulary;
mod work;

pub(super) use adaptive::{ABOUT as ABOUT_ADAPTIVE, schedule as adaptive};
pub(super) use greedy::{ABOUT_HALF, ABOUT_MIN, v_half, v_min};
pub(super) use one_f_one_b_v::{ABOUT as ABOUT_1F1B, schedule as one_f_one_b_v};
pub(super) use timed::{
    ABOUT_HALF as ABOUT_HALF_TIMED, ABOUT_MIN as ABOUT_MIN_TIMED, v_half as v_half_timed,
    v_min as v_min_timed,
};

pub(super) use vocabulary::{
    ABOUT_1 as ABOUT_VOCAB_1, ABOUT_2 as ABOUT_VOCAB_2, schedule_1 as v_half_vocab_1,
    schedule_2 as v_half_vocab_2,
};

use crate::fault::Fault;
use crate::problem::Problem;
use crate::shape::Shape;

/// The most stages whose blocks are reordered: that takes time that grows with the third power of p.
const MAX_STAGES: usize = 256;

/// The shape of `problem`, if it has at most `most` stages.
fn check(problem: &Problem, family: &'static str, most: usize) -> Result<Shape, Fault> {
    let shape = problem.shape();
    if shape.stages() > most {
        let what = format!("at most {most} stages, not {}", shape.stages());
        return Err(Fault::Needs { family, key: "stages", what });
    }
    Ok(shape)
}
