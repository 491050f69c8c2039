//! Rerouted steps checked from scratch, on random pipelines.
#![allow(clippy::cast_possible_truncation)] // Small counts.

use std::collections::{BTreeMap, BTreeSet};

use pipeline::{
    Bytes, Costs, Family, Footprint, Footprints, Kind, Limit, Memory, Nanos, Pass, PassTimes,
    Problem, Schedule, Shape,
};
use proptest::prelude::*;

use super::*;

/// Everything of a question, owned.
#[derive(Debug)]
struct Asked {
    schedule: Schedule,
    problem: Problem,
    footprints: Footprints,
    pipelines: u64,
    peer_hop: Option<Nanos>,
    optimizer: Nanos,
}

impl Asked {
    fn new(family: Family, shape: (u64, u64, u64), times: [u64; 3], hop: u64) -> Self {
        let chunks = if family.name().contains("-v") { 2 } else { 1 };
        let shape = Shape::new(shape.0, chunks, shape.1).map(|of| (of, shape.2)).unwrap();
        let (shape, pipelines) = shape;
        let times = PassTimes::new(Nanos(times[0]), Nanos(times[1]), Nanos(times[2]));
        let footprint = Footprint { until_backward: Bytes(6), until_weight: Bytes(4) };
        let footprints = Footprints::uniform(shape, footprint);
        let problem = Problem::new(shape, Costs::uniform(shape, times, Nanos(hop)))
            .unwrap()
            .with_footprints(footprints.clone())
            .unwrap()
            .with_limit(Limit::times_p(1));
        let schedule = family.schedule(&problem).unwrap();
        Self { schedule, problem, footprints, pipelines, peer_hop: None, optimizer: Nanos(0) }
    }

    fn pipelines(&self) -> Pipelines<'_> {
        Pipelines {
            schedule: &self.schedule,
            costs: self.problem.costs(),
            footprints: &self.footprints,
            pipelines: self.pipelines,
            peer_hop: self.peer_hop,
            optimizer: self.optimizer,
        }
    }

    fn stages(&self) -> usize {
        self.schedule.shape().stages()
    }

    fn peak(&self) -> Bytes {
        let peaks = Memory::of(&self.schedule, &self.footprints).unwrap().peak;
        peaks.into_iter().max().unwrap()
    }

    fn dead(&self, workers: &[(u32, u32)]) -> Dead {
        let workers: Vec<Worker> =
            workers.iter().map(|&(pipeline, stage)| Worker { pipeline, stage }).collect();
        Dead::new(self.pipelines, self.stages() as u64, &workers).unwrap()
    }

    fn rerouted(&self, dead: &Dead, deal: Deal, split: bool, effort: u64) -> Step {
        let limits = vec![self.peak(); self.stages()];
        let how = Rerouting { deal, split, limits: &limits, effort };
        let step = self.pipelines().rerouted(dead, &how, &|| false).unwrap();
        self.check(dead, split, &step, self.peak());
        step
    }

    /// Checks all that must hold of a step, without any code that made it.
    fn check(&self, dead: &Dead, split: bool, step: &Step, limit: Bytes) {
        let (shape, placement) = (self.schedule.shape(), self.schedule.placement());
        let ran: BTreeMap<(u32, Pass), &Ran> =
            step.passes.iter().map(|one| ((one.pipeline, one.pass), one)).collect();
        assert_eq!(ran.len(), step.passes.len(), "a pass ran twice");
        self.check_complete(split, &ran);
        let mut takers = BTreeMap::new();
        for one in &step.passes {
            let stage = placement.stage(shape, one.pass.chunk, one.pass.microbatch) as u32;
            assert_eq!(one.worker.stage, stage);
            assert!(!dead.has(one.worker), "{one:?} is dead");
            let home = Worker { pipeline: one.pipeline, stage };
            assert!(one.worker == home || dead.has(home), "{one:?} left a live worker");
            let taker = takers.entry((home, one.pass.microbatch)).or_insert(one.worker);
            assert_eq!(*taker, one.worker, "a microbatch is on two workers");
            assert_eq!(one.end, one.start + self.problem.costs().of(one.pass));
            for before in self.inputs(one.pass, split) {
                let from = ran[&(one.pipeline, before)];
                let arrives = from.end + self.delay(from.worker, one.worker);
                assert!(arrives <= one.start, "{one:?} before {from:?}");
            }
        }
        self.check_workers(step, limit);
        let last = step.passes.iter().map(|one| one.end).max().unwrap();
        assert_eq!(step.step, last + self.optimizer);
        assert!(step.bound.step <= step.step, "{:?}", step.bound);
        assert!(step.staggered <= step.step);
        assert!(step.bound.staggered <= step.staggered);
    }

    fn check_complete(&self, split: bool, ran: &BTreeMap<(u32, Pass), &Ran>) {
        let mut wanted = BTreeSet::new();
        for pass in self.schedule.orders().iter().flat_map(|order| order.passes()) {
            let Pass { kind, chunk, microbatch } = *pass;
            for pipeline in 0..self.pipelines as u32 {
                if kind == Kind::BW && split {
                    wanted.insert((pipeline, Pass::b(chunk, microbatch)));
                    wanted.insert((pipeline, Pass::w(chunk, microbatch)));
                } else {
                    wanted.insert((pipeline, *pass));
                }
            }
        }
        assert!(wanted.iter().eq(ran.keys()), "not every pass ran once");
    }

    fn inputs(&self, pass: Pass, split: bool) -> Vec<Pass> {
        let Pass { kind, chunk, microbatch } = pass;
        let is_split = split || self.schedule.splits_backward();
        let back =
            |chunk| if is_split { Pass::b(chunk, microbatch) } else { Pass::bw(chunk, microbatch) };
        let last = self.schedule.shape().chunks() - 1;
        match kind {
            Kind::F if chunk == 0 => vec![],
            Kind::F => vec![Pass::f(chunk - 1, microbatch)],
            Kind::W => vec![Pass::b(chunk, microbatch)],
            _ if chunk == last => vec![Pass::f(chunk, microbatch)],
            _ => vec![Pass::f(chunk, microbatch), back(chunk + 1)],
        }
    }

    fn delay(&self, from: Worker, to: Worker) -> Nanos {
        let within = self.problem.costs().hops().between(from.stage as usize, to.stage as usize);
        if from.pipeline == to.pipeline { within } else { self.peer_hop.unwrap_or(within) }
    }

    fn check_workers(&self, step: &Step, limit: Bytes) {
        let mut by_worker: BTreeMap<Worker, Vec<&Ran>> = BTreeMap::new();
        for one in &step.passes {
            by_worker.entry(one.worker).or_default().push(one);
        }
        for (worker, passes) in by_worker {
            let mut held = 0u64;
            for pair in passes.windows(2) {
                assert!(pair[0].end <= pair[1].start, "{worker} runs two passes at a time");
            }
            for one in passes {
                match one.pass.kind {
                    Kind::F => held += 6,
                    Kind::B => held -= 2,
                    Kind::W => held -= 4,
                    _ => held -= 6,
                }
                assert!(held <= limit.0, "{worker} holds {held} of {limit}");
                assert!(held <= step.peaks[worker.stage as usize].0);
            }
            assert_eq!(held, 0);
        }
    }
}

const FAMILIES: [&str; 5] = ["1f1b", "zb-h1", "zb-2p", "gpipe", "zb-v"];

proptest! {
    #![proptest_config(ProptestConfig::with_cases(60))]

    #[test]
    fn rerouted_steps_hold(
        family in 0..FAMILIES.len(),
        (stages, microbatches, pipelines) in (2u64..6, 1u64..9, 2u64..5),
        times in [1u64..20, 1u64..20, 1u64..20],
        (hop, peer, optimizer) in (0u64..6, 0u64..9, 0u64..12),
        lost in proptest::collection::btree_set((0u32..4, 0u32..6), 1..5),
        (is_balanced, split) in (any::<bool>(), any::<bool>()),
    ) {
        let family = Family::named(FAMILIES[family]).unwrap();
        let microbatches = microbatches.max(2 * stages);
        let mut asked = Asked::new(family, (stages, microbatches, pipelines), times, hop);
        (asked.peer_hop, asked.optimizer) = (Some(Nanos(peer)), Nanos(optimizer));
        let lost: BTreeSet<Worker> = lost
            .into_iter()
            .map(|(pipeline, stage)| Worker {
                pipeline: pipeline % pipelines as u32,
                stage: stage % stages as u32,
            })
            .collect();
        let lost: Vec<Worker> = lost.into_iter().collect();
        let deal = if is_balanced { Deal::Balanced } else { Deal::InTurn };
        match Dead::new(pipelines, stages, &lost) {
            Ok(dead) => drop(asked.rerouted(&dead, deal, split && family.has_whole_backwards(), 1)),
            Err(fault) => prop_assert!(fault.to_string().contains("a checkpoint"), "{}", fault),
        }
    }
}

#[test]
fn with_nothing_dead_every_pipeline_runs_its_schedule() {
    for name in FAMILIES {
        let asked = Asked::new(Family::named(name).unwrap(), (4, 8, 3), [5, 6, 4], 1);
        let healthy = asked.pipelines().healthy().unwrap();
        let costs = asked.problem.costs();
        let metrics = sim::Replay::new().metrics(&asked.schedule, costs).unwrap();
        assert_eq!(healthy.step, metrics.makespan(), "{name}");
        asked.check(&asked.dead(&[]), false, &healthy, asked.peak());
    }
}

#[test]
fn a_failure_in_few_pipelines_costs_more_than_in_many() {
    let step = |pipelines| {
        let asked = Asked::new(Family::ZbH1, (4, 12, pipelines), [10, 10, 10], 0);
        asked.rerouted(&asked.dead(&[(0, 2)]), Deal::Balanced, false, 1).step
    };
    let steps: Vec<Nanos> = [2, 3, 5, 13].map(step).to_vec();
    assert!(steps.is_sorted_by(|one, other| one > other), "{steps:?}");
}

#[test]
fn the_step_is_the_same_whichever_of_equal_pipelines_has_the_dead_worker() {
    for (name, split) in [("1f1b", false), ("1f1b", true), ("zb-h1", false)] {
        let asked = Asked::new(Family::named(name).unwrap(), (4, 8, 4), [58, 6, 33], 0);
        let step =
            |dead: &[(u32, u32)]| asked.rerouted(&asked.dead(dead), Deal::Balanced, split, 1).step;
        let one = [0, 1, 2, 3].map(|pipeline| step(&[(pipeline, 0)]));
        assert!(one.iter().all(|step| *step == one[0]), "{name}: {one:?}");
        assert_eq!(step(&[(0, 1), (2, 3)]), step(&[(3, 1), (1, 3)]), "{name}");
    }
}

#[test]
fn too_little_memory_is_refused_with_what_is_enough() {
    let asked = Asked::new(Family::ZbH1, (3, 6, 2), [10, 10, 10], 0);
    let dead = asked.dead(&[(0, 0)]);
    let limits = [Bytes(5); 3];
    let how = Rerouting { deal: Deal::Balanced, split: false, limits: &limits, effort: 0 };
    let fault = asked.pipelines().rerouted(&dead, &how, &|| false).unwrap_err();
    assert!(fault.to_string().contains("6 bytes are enough"), "{fault}");
    let how = Rerouting { limits: &[Bytes(6); 3], ..how };
    let step = asked.pipelines().rerouted(&dead, &how, &|| false).unwrap();
    asked.check(&dead, false, &step, Bytes(6));
}

#[test]
fn what_is_not_rerouted_is_refused() {
    let mirrored = Asked::new(Family::named("dualpipe").unwrap(), (4, 8, 2), [5, 6, 4], 1);
    let fault = mirrored.pipelines().healthy().unwrap_err().to_string();
    assert!(fault.contains("mirrored"), "{fault}");
    let mut many = Asked::new(Family::OneFOneB, (4, 4096, 2), [5, 6, 4], 1);
    many.pipelines = 4096;
    assert!(many.pipelines().healthy().unwrap_err().to_string().contains("passes of all"));
    let late = Asked::new(Family::OneFOneB, (2, 4, 2), [1 << 57, 1 << 57, 1], 1);
    assert_eq!(late.pipelines().healthy().unwrap_err(), FailureError::Overflow);
}

/// The largest number of nanoseconds per step over many steps of the same orders, one after the other.
#[test]
fn the_staggered_step_is_that_of_many_steps_in_a_row() {
    use crate::period::period;
    use crate::pipelines::Rerouted;
    use sim::graph::{NONE, Times};
    for (name, optimizer) in [("1f1b", 0), ("1f1b", 7), ("zb-h1", 3), ("zb-v", 5)] {
        let mut asked = Asked::new(Family::named(name).unwrap(), (4, 8, 3), [5, 9, 4], 2);
        asked.optimizer = Nanos(optimizer);
        let dead = asked.dead(&[]);
        let of = asked.pipelines();
        let rerouted = Rerouted::new(&of, &dead, (Deal::Balanced, false), |_| 1 << 62).unwrap();
        let (graph, orders) = (&rerouted.graph, rerouted.published());
        let times = Times::of(graph, &orders).unwrap();
        // By hand: each worker begins a step when its stage's optimizer of the step before is done.
        let mut released = vec![0i64; 4];
        let mut ends = vec![0i64; graph.operations().len()];
        let mut history = Vec::new();
        for _ in 0..64 {
            for &number in &times.walk {
                let machine = orders.machine(graph, number);
                let ready = graph.inputs(number).iter().map(|link| {
                    let from = orders.machine(graph, link.operation);
                    ends[link.operation as usize] + graph.lag(link, from, machine)
                });
                let before = times.before[number as usize];
                let free = match before {
                    NONE => released[machine as usize % 4],
                    before => ends[before as usize],
                };
                let start = ready.fold(free, i64::max);
                ends[number as usize] = start + graph.operation(number).time;
            }
            released = vec![0; 4];
            for (worker, order) in orders.operations.iter().enumerate() {
                let end = ends[*order.last().unwrap() as usize] + optimizer as i64;
                released[worker % 4] = released[worker % 4].max(end);
            }
            history.push(released[0]);
        }
        let mean = (history[63] - history[51]) as f64 / 12.0;
        let exact = period(graph, &times, &orders, optimizer as i64) as f64;
        assert!((exact - mean).abs() <= 1.0, "{name}: {exact} {mean}");
    }
}
