//! Searches for the best order of passes under a memory limit, and says how far it can be from the
//! optimum.
//!
//! `cargo run --example search_a_schedule`
#![allow(clippy::print_stdout, clippy::print_stderr)] // A program that prints its answer.

use std::error::Error;

use pipeline::{Bytes, Costs, Footprint, Footprints, Limits, Nanos, PassTimes, Placement, Shape};
use search::{Effort, Instance, Objective, search};

fn main() -> Result<(), Box<dyn Error>> {
    let shape = Shape::new(4, 1, 12)?;
    let times = PassTimes::new(Nanos(18_522_000), Nanos(18_086_000), Nanos(9_337_000));
    let held = Footprint { until_backward: Bytes(200 << 20), until_weight: Bytes(75 << 20) };
    let instance = Instance::new(
        shape,
        Placement::Looped,
        Costs::uniform(shape, times, Nanos(601_000)),
        Footprints::uniform(shape, held),
        // Half more than 1F1B holds on its first stage.
        Some(Limits::new(shape, &[Bytes(1200 << 20)])?),
        Objective::Span,
    )?;
    let found = search(
        &instance,
        Effort::default(),
        |progress| {
            if let Some(best) = progress.best {
                eprintln!("{} steps: best {best}", progress.steps);
            }
        },
        &|| false,
    )?;
    if let Some(published) = found.best_published() {
        println!("best published: {} in {}", published.family.name(), published.cost);
    }
    println!("found: {}", found.cost);
    println!("lower bound: {} ({})", found.bound.cost, found.bound.argument);
    println!("optimality gap: {:.2} %", 100.0 * found.gap());
    print!("{}", found.schedule);
    Ok(())
}
