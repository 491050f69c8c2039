//! Times published schedules on one pipeline: time per step, bubble and peak activation memory.
//!
//! `cargo run --example time_a_schedule`
#![allow(clippy::print_stdout)] // A program that prints its answer.

use pipeline::{
    Bytes, Costs, Family, Fault, Footprint, Footprints, Memory, Nanos, PassTimes, Problem, Shape,
};
use sim::Replay;

const STAGES: u64 = 8;
const MICROBATCHES: u64 = 32;
const MS: u64 = 1_000_000;
const MIB: u64 = 1 << 20;

/// The pipeline with `chunks` chunks per stage: each chunk has its share of the work of a stage.
fn problem(chunks: u64) -> Result<Problem, Fault> {
    let shape = Shape::new(STAGES, chunks, MICROBATCHES)?;
    let times =
        PassTimes::new(Nanos(18 * MS / chunks), Nanos(20 * MS / chunks), Nanos(12 * MS / chunks));
    let held = Footprint {
        until_backward: Bytes(960 * MIB / chunks),
        until_weight: Bytes(320 * MIB / chunks),
    };
    Problem::new(shape, Costs::uniform(shape, times, Nanos(MS)))?
        .with_footprints(Footprints::uniform(shape, held))
}

fn main() -> Result<(), Fault> {
    let mut replay = Replay::new();
    println!("{:<10} {:>10} {:>8} {:>9}", "schedule", "step", "bubble", "memory");
    for family in [Family::GPipe, Family::OneFOneB, Family::Interleaved, Family::ZbH1, Family::ZbV]
    {
        let problem = problem(family.about().chunks.of(None))?;
        let schedule = family.schedule(&problem)?;
        let metrics = replay.metrics(&schedule, problem.costs())?;
        let memory = Memory::of(&schedule, problem.footprints())?;
        println!(
            "{:<10} {:>10} {:>6.1} % {:>9}",
            family.name(),
            metrics.makespan().to_string(),
            100.0 * metrics.bubble_rate(),
            memory.peak.iter().max().copied().unwrap_or_default().to_string(),
        );
    }
    Ok(())
}
