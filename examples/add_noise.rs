//! Adds noise to two schedules: a slow stage and log-normal jitter of all passes. Both schedules see
//! the same random draws, so that they can be compared replica by replica.
//!
//! `cargo run --example add_noise`
#![allow(clippy::print_stdout)] // A program that prints its answer.

use std::error::Error;

use pipeline::{Costs, Family, Nanos, PassTimes, Problem, Shape};
use sim::straggler::{Jitter, Stragglers, Target};
use sim::{Replay, monte_carlo, timed};

const REPLICAS: u64 = 200;

fn main() -> Result<(), Box<dyn Error>> {
    let shape = Shape::new(8, 1, 32)?;
    let ms = Nanos(1_000_000);
    let times = PassTimes::new(ms, ms, ms);
    let costs = Costs::uniform(shape, times, Nanos(50_000));
    let problem = Problem::new(shape, costs.clone())?;

    let mut stragglers = Stragglers::new(shape.stages(), 42);
    stragglers.slow(Target::Stage(3), 1.1)?;
    stragglers.jitter_passes(Jitter::log_normal(0.05)?);

    println!("{:<6} {:>12} {:>12} {:>12}", "", "no noise", "mean", "95 %");
    for family in [Family::OneFOneB, Family::ZbH1] {
        let schedule = family.schedule(&problem)?;
        let nominal = Replay::new().metrics(&schedule, &costs)?.makespan();
        let study = monte_carlo::run(REPLICAS, |replica| {
            timed::metrics(&schedule, &stragglers.sample(replica, 0).timing(&costs))
        })?;
        println!(
            "{:<6} {:>12} {:>9.3} ms {:>12}",
            family.name(),
            nominal.to_string(),
            study.makespan.mean / 1e6,
            Nanos(study.makespan.p95.value).to_string(),
        );
    }
    Ok(())
}
