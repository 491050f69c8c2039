//! A run that is stopped ends soon, with the steps that all stages have completed.

use std::sync::atomic::{AtomicBool, AtomicU32, Ordering};
use std::sync::{Arc, Condvar, Mutex};
use std::time::{Duration, Instant};

use pipeline::{
    CopyPart, CopyTimes, Costs, Family, Nanos, Pass, PassTimes, Problem, Schedule, Shape,
};
use runtime::{
    Boundary, DeviceError, Norm, Offload, Plan, Timed, Trainer, Updates, Versions, Worker,
    run_until,
};

use crate::hashed::{Hashed, Mishap, Weights};
use crate::support::{losses, schedules};
use crate::threads::run_hashed;

/// More steps than any machine completes during a test.
const ENDLESS: u32 = 10_000;

/// State that workers publish, and a gate at which one of them waits.
#[derive(Default)]
struct Watch {
    /// By stage, the step that it has begun, from 1.
    begun: [AtomicU32; 2],
    /// Whether a worker has come to the gate.
    holds: AtomicBool,
    is_open: Mutex<bool>,
    opened: Condvar,
}

impl Watch {
    /// Whether both stages have begun step number `step`, from 0.
    fn reached(&self, step: u32) -> bool {
        self.begun.iter().all(|begun| begun.load(Ordering::SeqCst) > step)
    }

    fn holds(&self) -> bool {
        self.holds.load(Ordering::SeqCst)
    }

    fn open(&self) {
        *self.is_open.lock().unwrap() = true;
        self.opened.notify_all();
    }

    fn wait(&self) {
        self.holds.store(true, Ordering::SeqCst);
        let open = self.is_open.lock().unwrap();
        drop(self.opened.wait_while(open, |is_open| !*is_open).unwrap());
    }
}

/// A pass that waits at the gate: its stage, its step, and itself.
type Held = Option<(usize, u32, Pass)>;

/// A timed stage that is watched. The last stage opens the gate when it has ended.
struct Watched {
    timed: Timed,
    stage: usize,
    stages: usize,
    step: u32,
    held: Held,
    watch: Arc<Watch>,
}

impl Drop for Watched {
    fn drop(&mut self) {
        // All inboxes have the stop by then: the last stage is notified last.
        if self.stage + 1 == self.stages {
            self.watch.open();
        }
    }
}

impl Worker for Watched {
    type Value = ();

    fn run(&mut self, pass: Pass, input: Option<()>) -> Result<Option<()>, DeviceError> {
        if self.held == Some((self.stage, self.step, pass)) {
            self.watch.wait();
        }
        self.timed.run(pass, input)
    }

    fn synchronize(&mut self) -> Result<(), DeviceError> {
        self.timed.synchronize()
    }

    fn begin_offload(
        &mut self,
        forward: Pass,
        part: CopyPart,
    ) -> Result<Box<dyn Offload>, DeviceError> {
        self.timed.begin_offload(forward, part)
    }

    fn end_offload(&mut self, forward: Pass, lent: Box<dyn Offload>) -> Result<(), DeviceError> {
        self.timed.end_offload(forward, lent)
    }

    fn forget(&mut self) -> Result<(), DeviceError> {
        self.timed.forget()
    }
}

impl Trainer for Watched {
    fn norm(&mut self) -> Result<Norm, DeviceError> {
        self.timed.norm()
    }

    fn update(&mut self, scale: f64) -> Result<(), DeviceError> {
        self.timed.update(scale)
    }

    fn undo(&mut self, scale: f64) -> Result<(), DeviceError> {
        self.timed.undo(scale)
    }

    fn begin_step(&mut self, step: u32) -> Result<(), DeviceError> {
        self.step = step;
        self.watch.begun[self.stage].store(step + 1, Ordering::SeqCst);
        self.timed.begin_step(step)
    }

    fn clear(&mut self) -> Result<(), DeviceError> {
        self.timed.clear()
    }

    fn loss(&mut self) -> Result<Option<f64>, DeviceError> {
        self.timed.loss()
    }
}

/// Passes and copies of half a millisecond.
fn problem(chunks: u64) -> Problem {
    let half = Nanos(500_000);
    let times = PassTimes::new(half, half, half);
    let shape = Shape::new(2, chunks, 4).unwrap();
    let copies = vec![CopyTimes { out: half, back: half }; usize::from(shape.chunks())];
    Problem::new(shape, Costs::uniform(shape, times, Nanos(0)).with_copies(copies)).unwrap()
}

fn endless(schedule: &Schedule, boundary: Boundary) -> Plan {
    Plan::new(schedule.clone(), ENDLESS).unwrap().with_boundary(boundary).unwrap()
}

/// Makes the watched stages of `problem`.
fn make(
    problem: &Problem,
    held: Held,
    watch: &Arc<Watch>,
) -> impl Fn(usize) -> Result<Watched, DeviceError> + Send + Sync + use<> {
    let timed = Timed::new(Arc::new(problem.costs().clone()));
    let (stages, watch) = (problem.shape().stages(), Arc::clone(watch));
    move |stage| {
        let (timed, watch) = (timed.clone(), Arc::clone(&watch));
        Ok(Watched { timed, stage, stages, step: 0, held, watch })
    }
}

/// Orders with every kind of wait: for links, for other stages between steps, and for copies.
fn plans() -> Vec<(&'static str, Problem, Plan)> {
    let max_norm = 1.0;
    let mut plans = Vec::new();
    let of = |family: Family, chunks| {
        let problem = problem(chunks);
        let schedule = family.schedule(&problem).unwrap();
        (family.name(), problem, schedule)
    };
    for boundary in [
        Boundary::Asynchronous,
        Boundary::Barrier { max_norm },
        Boundary::PostValidation { max_norm },
    ] {
        for (family, chunks) in [(Family::ZbH1, 1), (Family::Gis, 2)] {
            let (name, problem, schedule) = of(family, chunks);
            let plan = endless(&schedule.offloaded(CopyPart::WHOLE, 1), boundary);
            plans.push((name, problem, plan));
        }
        let (name, problem, schedule) = of(Family::OneFOneB, 1);
        plans.push((name, problem, endless(&schedule, boundary)));
    }
    let (name, problem, schedule) = of(Family::PipeDream, 1);
    let updates = Updates { microbatches: 2, versions: Versions::Stashed };
    let plan = endless(&schedule, Boundary::Asynchronous).with_updates(updates).unwrap();
    plans.push((name, problem, plan));
    plans
}

#[test]
fn the_steps_that_all_stages_have_completed_are_kept() {
    for (name, problem, plan) in plans() {
        let plan = plan.with_warm_up(1).unwrap();
        let (schedule, watch) = (plan.schedule(), Arc::new(Watch::default()));
        let stages = schedule.shape().stages();
        let measured =
            run_until(&plan, make(&problem, None, &watch), &|| watch.reached(3)).unwrap();
        // Step 0 warmed up; 1 and 2 were over on both stages.
        let steps = measured.steps.len();
        assert!((2..ENDLESS as usize).contains(&steps), "{name}: {steps}");
        let whole: Vec<usize> = schedule.orders().iter().map(|one| one.slots().count()).collect();
        for step in &measured.steps {
            let slots: Vec<usize> = step.stages.iter().map(Vec::len).collect();
            assert_eq!((slots, step.ends.len()), (whole.clone(), stages), "{name}");
        }
        let copies = schedule.copies().map_or(0, |copies| 2 * copies.count());
        assert_eq!(measured.copies.len(), steps, "{name}");
        assert!(measured.copies.iter().all(|step| step.len() == copies), "{name}");
    }
}

#[test]
fn a_step_that_one_stage_has_not_completed_is_dropped() {
    let problem = problem(1);
    let text = "F0.0 F0.1 B0.0 B0.1 W0.0 W0.1\nF1.0 B1.0 F1.1 B1.1 W1.0 W1.1\n";
    let shape = Shape::new(2, 1, 2).unwrap();
    let schedule: Schedule = text.parse().unwrap();
    assert_eq!(schedule.shape(), shape);
    // Stage 1 is through with step 2 and has begun the next, while stage 0 is not.
    let (held, watch) = (Some((0, 2, Pass::w(0, 0))), Arc::new(Watch::default()));
    let plan = endless(&schedule, Boundary::Asynchronous);
    let ahead = || watch.holds() && watch.begun[1].load(Ordering::SeqCst) > 3;
    let measured = run_until(&plan, make(&problem, held, &watch), &ahead).unwrap();
    assert_eq!(measured.steps.len(), 2);
}

#[test]
fn a_run_that_is_stopped_before_its_first_measured_step_has_none() {
    for (name, problem, plan) in plans() {
        for at in [None, Some(0), Some(1)] {
            let plan = plan.clone().with_warm_up(ENDLESS).unwrap();
            let watch = Arc::new(Watch::default());
            let stopped = || at.is_none_or(|step| watch.reached(step));
            let measured = run_until(&plan, make(&problem, None, &watch), &stopped).unwrap();
            assert!(measured.steps.is_empty(), "{name} {at:?}");
        }
    }
}

#[test]
fn stages_that_wait_end_at_once_and_a_pass_is_finished() {
    let problem = problem(1);
    let schedule = Family::OneFOneB.schedule(&problem).unwrap();
    // Stage 1, which waits for stage 0, ends and opens the gate.
    let (held, watch) = (Some((0, 1, Pass::f(0, 0))), Arc::new(Watch::default()));
    let plan = endless(&schedule, Boundary::Asynchronous);
    let begin = Instant::now();
    let stopped = || watch.reached(1) && watch.holds();
    let measured = run_until(&plan, make(&problem, held, &watch), &stopped).unwrap();
    assert_eq!(measured.steps.len(), 1);
    assert!(begin.elapsed() < plan.timeout(), "nobody waited to the end");
}

#[test]
fn a_stopped_run_leaves_a_worker_that_does_not_return_behind() {
    let problem = problem(1);
    let schedule = Family::OneFOneB.schedule(&problem).unwrap();
    let (held, watch) = (Some((1, 0, Pass::f(1, 0))), Arc::new(Watch::default()));
    let plan = endless(&schedule, Boundary::Asynchronous);
    let plan = plan.with_timeout(Duration::from_secs(4)).unwrap();
    let begin = Instant::now();
    let measured = run_until(&plan, make(&problem, held, &watch), &|| watch.holds()).unwrap();
    assert!(measured.steps.is_empty() && begin.elapsed() >= plan.timeout());
    watch.open();
}

#[test]
fn a_run_that_is_never_stopped_is_as_one_that_cannot_be() {
    for (name, schedule) in schedules(3, 4) {
        for boundary in [Boundary::Asynchronous, Boundary::PostValidation { max_norm: 700.0 }] {
            let plan = Plan::new(schedule.clone(), 3).unwrap().with_boundary(boundary).unwrap();
            let (expected, weights) = run_hashed(&plan, Mishap::None);
            let left = Weights::default();
            let (of_stages, own) = (schedule.clone(), left.clone());
            let make = move |stage| Ok(Hashed::new(&of_stages, stage, Mishap::None, &own));
            let measured = run_until(&plan, make, &|| false).unwrap();
            assert_eq!(losses(&measured), losses(&expected.unwrap()), "{name}");
            assert_eq!(*left.lock().unwrap(), weights, "{name}");
        }
    }
}
