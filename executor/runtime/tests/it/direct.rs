//! Values that go from device to device in the agreed order, with both ends waiting for each other:
//! the results are those of any other link, without a deadlock.

use std::collections::{HashMap, VecDeque};
use std::sync::{Arc, Condvar, Mutex};
use std::time::Duration;

use pipeline::Pass;
use runtime::{
    Boundary, DeviceError, Direct, Failure, Measured, Norm, Plan, Trainer, Wire, Worker,
    join_directly,
};

use crate::hashed::{Hashed, Mishap, Weights};
use crate::support::{free_port, losses, pairs, rendezvous, schedules};
use crate::threads::run_hashed;

/// A hub for devices that blocks both ends of a transfer until both are ready.
#[derive(Default)]
struct Hub {
    queues: Mutex<HashMap<(usize, usize), VecDeque<u64>>>,
    changed: Condvar,
}

impl Hub {
    /// Waits until `ready` returns a value from the queues.
    fn wait<T>(
        &self,
        mut ready: impl FnMut(&mut HashMap<(usize, usize), VecDeque<u64>>) -> Option<T>,
    ) -> Result<T, DeviceError> {
        let mut queues = self.queues.lock().unwrap();
        loop {
            if let Some(found) = ready(&mut queues) {
                self.changed.notify_all();
                return Ok(found);
            }
            let (again, timeout) =
                self.changed.wait_timeout(queues, Duration::from_secs(20)).unwrap();
            if timeout.timed_out() {
                let message = "two ends wait for each other".to_owned();
                return Err(DeviceError::Call { call: "exchange", message });
            }
            queues = again;
        }
    }
}

struct Joined {
    hashed: Hashed,
    hub: Arc<Hub>,
    rank: Option<usize>,
}

impl Worker for Joined {
    type Value = u64;

    fn run(&mut self, pass: Pass, input: Option<u64>) -> Result<Option<u64>, DeviceError> {
        self.hashed.run(pass, input)
    }

    fn synchronize(&mut self) -> Result<(), DeviceError> {
        self.hashed.synchronize()
    }

    fn forget(&mut self) -> Result<(), DeviceError> {
        self.hashed.forget()
    }
}

impl Wire for Joined {
    fn value_bytes(&self) -> usize {
        self.hashed.value_bytes()
    }

    fn pack(&mut self, _: u64) -> Result<Vec<u8>, DeviceError> {
        unreachable!("no value goes through the host")
    }

    fn unpack(&mut self, _: &[u8]) -> Result<u64, DeviceError> {
        unreachable!("no value goes through the host")
    }
}

const NAME: [u8; 128] = [7; 128];

impl Direct for Joined {
    fn unique_id(&mut self) -> Result<Vec<u8>, DeviceError> {
        Ok(NAME.to_vec())
    }

    fn join(
        &mut self,
        name: &[u8],
        rank: usize,
        ranks: usize,
        _: Duration,
    ) -> Result<(), DeviceError> {
        assert!(name == NAME && rank < ranks);
        self.rank = Some(rank);
        Ok(())
    }

    fn exchange(
        &mut self,
        sends: Vec<(usize, u64)>,
        from: &[usize],
    ) -> Result<Vec<u64>, DeviceError> {
        let own = self.rank.expect("joined before");
        for &(to, value) in &sends {
            let queue = |queues: &mut HashMap<_, VecDeque<u64>>| {
                queues.entry((own, to)).or_default().push_back(value);
                Some(())
            };
            self.hub.wait(queue)?;
        }
        let mut came = Vec::new();
        for &peer in from {
            came.push(self.hub.wait(|queues| queues.get_mut(&(peer, own))?.pop_front())?);
        }
        for (to, _) in sends {
            self.hub.wait(|queues| queues[&(own, to)].is_empty().then_some(()))?;
        }
        Ok(came)
    }
}

impl Trainer for Joined {
    fn norm(&mut self) -> Result<Norm, DeviceError> {
        self.hashed.norm()
    }

    fn update(&mut self, scale: f64) -> Result<(), DeviceError> {
        self.hashed.update(scale)
    }

    fn undo(&mut self, scale: f64) -> Result<(), DeviceError> {
        self.hashed.undo(scale)
    }

    fn begin_step(&mut self, step: u32) -> Result<(), DeviceError> {
        self.hashed.begin_step(step)
    }

    fn clear(&mut self) -> Result<(), DeviceError> {
        self.hashed.clear()
    }

    fn loss(&mut self) -> Result<Option<f64>, DeviceError> {
        self.hashed.loss()
    }
}

/// Runs `plan` with a process for each stage, simulated by threads.
fn join_all(plan: &Plan, left: &Weights) -> Vec<Result<Option<Measured>, Failure>> {
    let (hub, port) = (Arc::new(Hub::default()), free_port());
    let world = plan.schedule().shape().stages();
    let process = |rank| {
        join_directly(plan, &rendezvous(rank, world, port), |stage| {
            let hashed = Hashed::new(plan.schedule(), stage, Mishap::None, left);
            Ok(Joined { hashed, hub: Arc::clone(&hub), rank: None })
        })
    };
    std::thread::scope(|scope| {
        let threads: Vec<_> = (0..world).map(|rank| scope.spawn(move || process(rank))).collect();
        threads.into_iter().map(|thread| thread.join().unwrap()).collect()
    })
}

#[test]
fn devices_compute_what_threads_compute() {
    let all = schedules(2, 4).into_iter().chain(schedules(4, 8)).chain(pairs());
    let boundaries = [Boundary::Asynchronous, Boundary::Barrier { max_norm: 700.0 }];
    let mut seen = 0;
    for ((name, schedule), boundary) in all.zip(boundaries.into_iter().cycle()) {
        let plan = Plan::new(schedule, 2).unwrap().with_warm_up(1).unwrap();
        let plan = plan.with_boundary(boundary).unwrap();
        let (expected, weights) = run_hashed(&plan, Mishap::None);
        let left = Weights::default();
        let mut ends = join_all(&plan, &left);
        let others = ends.split_off(1);
        assert!(others.iter().all(|end| *end == Ok(None)), "{name} {others:?}");
        let measured = ends.remove(0).unwrap().unwrap();
        assert_eq!(losses(&measured), losses(&expected.unwrap()), "{name}");
        assert_eq!(*left.lock().unwrap(), weights, "{name}");
        seen += 1;
    }
    assert!(seen > 10, "{seen}");
}

#[test]
fn post_validation_is_refused_over_devices() {
    let (_, schedule) = pairs().swap_remove(0);
    let boundary = Boundary::PostValidation { max_norm: 1.0 };
    let plan = Plan::new(schedule, 1).unwrap().with_boundary(boundary).unwrap();
    for end in join_all(&plan, &Weights::default()) {
        let message = end.unwrap_err().to_string();
        assert!(message.contains("restart a step"), "{message}");
    }
}
