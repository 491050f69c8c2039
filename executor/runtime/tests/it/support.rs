//! Schedules to run, and processes simulated by threads.
#![allow(dead_code)] // Each of the crates whose tests take it in needs a part.

use pipeline::{Costs, Family, Nanos, PassTimes, Problem, Schedule, Shape};
use runtime::{
    DeviceError, Failure, Launch, Measured, Plan, Rendezvous, Trainer, Wire, free_ports, join,
};

/// All families that support the shape, by name.
pub(crate) fn schedules(stages: u64, microbatches: u64) -> Vec<(String, Schedule)> {
    let ms = Nanos(1_000_000);
    let times = PassTimes::new(ms, ms, ms);
    let family = |family: Family| {
        let shape = Shape::new(stages, family.about().chunks.of(None), microbatches).unwrap();
        let problem = Problem::new(shape, Costs::uniform(shape, times, Nanos(0))).unwrap();
        Some((
            format!("{} p {stages} m {microbatches}", family.name()),
            family.schedule(&problem).ok()?,
        ))
    };
    Family::ALL.into_iter().filter_map(family).collect()
}

/// Manual schedules: pairs of a forward and a backward, looped and mirrored.
pub(crate) fn pairs() -> Vec<(String, Schedule)> {
    let texts = [
        "F0.0 F0.1 F0.2&BW0.0 F0.3&BW0.1 BW0.2 BW0.3\n\
         F1.0 BW1.0&F1.1 F1.2&BW1.1 F1.3&B1.2 B1.3 W1.2 W1.3\n",
        "F0.0 F0.1 F1.2 BW1.2&F1.3 BW0.0 B1.3 BW0.1 W1.3\n\
         F0.2 F0.3 F1.0 B1.0&F1.1 BW0.2 BW1.1&BW0.3 W1.0\n",
    ];
    texts.into_iter().map(|text| (text.to_owned(), text.parse().unwrap())).collect()
}

pub(crate) fn losses(measured: &Measured) -> Vec<f64> {
    measured.steps.iter().filter_map(|step| step.loss).collect()
}

/// A currently free port.
pub(crate) fn free_port() -> u16 {
    free_ports(1).unwrap()
}

pub(crate) fn rendezvous(rank: usize, world: usize, port: u16) -> Rendezvous {
    let launch = Launch { rank, world, master: "127.0.0.1".to_owned(), port };
    Rendezvous { launch, bind: None, token: b"a secret".to_vec(), about: String::new() }
}

pub(crate) type End = Result<Option<Measured>, Failure>;

/// Runs `plan` with a process for each stage, simulated by threads, and workers that `make` builds.
pub(crate) fn join_makers<W: Trainer + Wire>(
    plan: &Plan,
    make: impl Fn(usize) -> Result<W, DeviceError> + Sync,
) -> Vec<End> {
    let (port, world) = (free_port(), plan.schedule().shape().stages());
    on_threads(world, |rank| join(plan, &rendezvous(rank, world, port), &make))
}

pub(crate) fn on_threads(world: usize, process: impl Fn(usize) -> End + Sync) -> Vec<End> {
    std::thread::scope(|scope| {
        let process = &process;
        let threads: Vec<_> = (0..world).map(|rank| scope.spawn(move || process(rank))).collect();
        threads.into_iter().map(|thread| thread.join().unwrap()).collect()
    })
}
