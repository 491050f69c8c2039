//! A comparison with the reference is stopped like the run before it.

use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};

use gpt::{
    Against, Batch, Batches, Cores, Devices, Executed, Execution, Model, Random, Task, Training,
    Transport,
};
use pipeline::{Costs, Family, Nanos, PassTimes, Problem, Shape};
use runtime::{Plan, Updates, Versions};

/// Batches that record whether a thread that is not a stage, such as that of the reference, has asked
/// for one.
struct Asked {
    batches: Random,
    by_reference: Arc<AtomicBool>,
}

impl Batches for Asked {
    fn batch(&self, step: u32, microbatch: u32) -> Batch {
        let here = std::thread::current();
        if !here.name().is_some_and(|name| name.starts_with("stage ")) {
            self.by_reference.store(true, Ordering::SeqCst);
        }
        self.batches.batch(step, microbatch)
    }
}

#[test]
fn a_comparison_is_stopped_between_steps_and_leaves_the_run_whole() {
    let shape = Shape::new(2, 1, 4).unwrap();
    let ms = Nanos(1_000_000);
    let costs = Costs::uniform(shape, PassTimes::new(ms, ms, ms), Nanos(0));
    for (family, updates) in [(Family::OneFOneB, None), (Family::PipeDream, Some(2))] {
        let problem = Problem::new(shape, costs.clone()).unwrap();
        let schedule = family.schedule(&problem).unwrap();
        let mut plan = Plan::new(schedule, 3).unwrap();
        if let Some(microbatches) = updates {
            plan =
                plan.with_updates(Updates { microbatches, versions: Versions::Stashed }).unwrap();
        }
        let model = Model::new(8, 2, 2, 11, 5, 2).unwrap();
        let by_reference = Arc::new(AtomicBool::new(false));
        let asked = Arc::clone(&by_reference);
        let task = Task {
            model,
            batches: Arc::new(Asked { batches: Random::new(model, 3), by_reference }),
            fingerprint: 0,
            training: Training::default(),
            recompute: Vec::new(),
            check: Some(Against::F64),
        };
        let mut execution = Execution {
            plan,
            rendezvous: None,
            transport: Transport::Tcp,
            costs: Arc::new(problem.costs().clone()),
            task: Some(task),
            prepare: Arc::new(|_| {}),
            stopped: Some(Arc::new(move || asked.load(Ordering::SeqCst))),
        };
        let devices = Cores;
        let executed = devices.execute(&execution).unwrap();
        let steps = |executed: &Executed| executed.measured.as_ref().unwrap().steps.len();
        assert!(steps(&executed) == 3 && executed.check.is_none(), "{}", family.name());
        execution.stopped = None;
        let executed = devices.execute(&execution).unwrap();
        assert!(steps(&executed) == 3 && executed.check.unwrap().holds(), "{}", family.name());
    }
}
