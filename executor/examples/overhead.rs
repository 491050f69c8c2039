//! Measures the overhead of running a pass: many passes that take no time, in one process.
//!
//! Prints, for each number of stages, the median over all passes of the time from "the previous
//! slot has ended and all inputs are here" to the start, and the time per pass of the whole step.

#![allow(clippy::print_stdout)]

use std::sync::Arc;

use executor::{Failure, Measured, Plan, Timed, run};
use pipeline::closed_form::Uniform;
use pipeline::{Costs, Family, Fault, Nanos, PassTimes, Problem, Shape};

#[derive(Debug, thiserror::Error)]
enum Error {
    #[error(transparent)]
    Fault(#[from] Fault),
    #[error(transparent)]
    Plan(#[from] executor::PlanError),
    #[error(transparent)]
    Failure(#[from] Failure),
}

/// 1F1B over `stages` stages with at least `passes` passes in all.
fn measure(stages: u64, passes: u64, pass: Nanos, hop: Nanos) -> Result<Measured, Error> {
    let shape = Shape::new(stages, 1, passes.div_ceil(2 * stages))?;
    let times = PassTimes::new(pass, pass, Nanos(0));
    let costs = Costs::uniform(shape, times, hop);
    let schedule = Family::OneFOneB.schedule(&Problem::new(shape, costs.clone())?)?;
    let plan = Plan::new(schedule, 1)?.with_hop(hop)?;
    let device = Timed::new(Arc::new(costs));
    Ok(run(&plan, move |_| Ok(device.clone()))?)
}

/// The delays of all starts, ascending.
fn delays(measured: &Measured) -> Vec<u64> {
    let mut delays = Vec::new();
    for stage in measured.steps.iter().flat_map(|step| &step.stages) {
        for two in stage.windows(2) {
            let arrived = two[1].arrived.map_or(0, |(_, at)| at.0);
            delays.push(two[1].start.0 - two[0].end.0.max(arrived));
        }
    }
    delays.sort_unstable();
    delays
}

fn print(name: &str, measured: &Measured) {
    let delays = delays(measured);
    let at = |percent: usize| delays.get(delays.len() * percent / 100).copied().unwrap_or(0);
    let makespan = pipeline::Metrics::of(&measured.steps[0].timeline()).makespan();
    let per_pass = makespan.0 / (delays.len() as u64).max(1);
    println!(
        "{name:<28} {:>8} passes  start delay median {} p90 {} p99 {}, whole step {} a pass",
        delays.len(),
        Nanos(at(50)),
        Nanos(at(90)),
        Nanos(at(99)),
        Nanos(per_pass),
    );
}

fn main() -> Result<(), Error> {
    for stages in [1, 2, 4] {
        let measured = measure(stages, 100_000, Nanos(0), Nanos(0))?;
        print(&format!("p {stages}, passes of 0"), &measured);
    }
    for (stages, passes, pass) in
        [(2, 2_000, 500_000), (8, 4_096, 1_000_000), (32, 8_192, 3_000_000)]
    {
        let (pass, hop) = (Nanos(pass), Nanos(100_000));
        let measured = measure(stages, passes, pass, hop)?;
        let times = PassTimes::new(pass, pass, Nanos(0));
        let microbatches = passes / (2 * stages);
        let ideal = Uniform { stages, microbatches, times, hop }.one_f_one_b();
        let makespan = pipeline::Metrics::of(&measured.steps[0].timeline()).makespan();
        print(&format!("p {stages}, passes of {pass}, hop {hop}"), &measured);
        println!("    step {makespan}, by the closed form {ideal}");
    }
    Ok(())
}
