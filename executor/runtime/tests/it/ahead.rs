//! A device that runs ahead of the host, with its own clock: measurements are by that clock alone,
//! however late the host is.

use std::collections::HashMap;
use std::sync::Arc;
use std::sync::atomic::{AtomicUsize, Ordering};
use std::time::{Duration, Instant};

use pipeline::{Costs, Nanos, Pass, PassTimes, Schedule, Slot, Value};
use runtime::{Boundary, DeviceError, Failure, Norm, Plan, Trainer, Worker, run};

use crate::support::{pairs, schedules};

/// Time between two steps by the clock of the device, which starts long before the host's.
const STEP: u64 = 1_000_000;

/// Passes take the costs' durations, by a clock that only they advance; values are the times at
/// which they are ready.
struct Ahead {
    costs: Arc<Costs>,
    free: u64,
    times: Vec<(u64, u64)>,
    step: u32,
    /// The step whose gradients are to be clipped.
    clipped: Option<u32>,
    settled: Arc<AtomicUsize>,
    /// Offset of its clock before that of the host.
    early: u64,
}

impl Worker for Ahead {
    type Value = u64;

    fn run(&mut self, pass: Pass, input: Option<u64>) -> Result<Option<u64>, DeviceError> {
        // Much later than the device.
        std::thread::sleep(Duration::from_micros(50));
        let start = self.free.max(input.unwrap_or(0));
        self.free = start + self.costs.of(pass).0;
        self.times.push((start, self.free));
        let chunks = u16::try_from(self.costs.chunks().len()).unwrap();
        Ok(pass.makes().and_then(|value| value.taken_by(chunks)).map(|_| self.free))
    }

    fn wait(&mut self, input: &u64) -> Result<(), DeviceError> {
        self.free = self.free.max(*input);
        Ok(())
    }

    fn synchronize(&mut self) -> Result<(), DeviceError> {
        self.settled.fetch_add(1, Ordering::Relaxed);
        Ok(())
    }

    fn runs_ahead(&self) -> bool {
        true
    }

    fn device_times(&mut self, _: Instant) -> Result<Option<Vec<(u64, u64)>>, DeviceError> {
        let times = std::mem::take(&mut self.times);
        let shifted = |(start, end)| (start + self.early, end + self.early);
        Ok(Some(times.into_iter().map(shifted).collect()))
    }

    fn forget(&mut self) -> Result<(), DeviceError> {
        Ok(())
    }
}

impl Trainer for Ahead {
    fn norm(&mut self) -> Result<Norm, DeviceError> {
        let squares = if self.clipped == Some(self.step) { 100.0 } else { 0.0 };
        Ok(Norm { squares, is_bad: false })
    }

    fn update(&mut self, _: f64) -> Result<(), DeviceError> {
        Ok(())
    }

    fn undo(&mut self, _: f64) -> Result<(), DeviceError> {
        Ok(())
    }

    fn begin_step(&mut self, step: u32) -> Result<(), DeviceError> {
        self.step = step;
        self.free = self.free.max(STEP * u64::from(step + 1));
        Ok(())
    }

    fn clear(&mut self) -> Result<(), DeviceError> {
        Ok(())
    }

    fn loss(&mut self) -> Result<Option<f64>, DeviceError> {
        Ok(None)
    }
}

fn costs(schedule: &Schedule) -> Arc<Costs> {
    let times = PassTimes::new(Nanos(700), Nanos(900), Nanos(400));
    Arc::new(Costs::uniform(schedule.shape(), times, Nanos(0)))
}

/// Start and end of slots that wait only for their inputs and their stage.
fn replay(schedule: &Schedule, costs: &Costs) -> Vec<Vec<(u64, u64)>> {
    let shape = schedule.shape();
    let mut made: HashMap<Value, u64> = HashMap::new();
    let mut spans: Vec<Vec<(u64, u64)>> = vec![Vec::new(); schedule.shape().stages()];
    let slots: Vec<Vec<_>> = schedule.orders().iter().map(|one| one.slots().collect()).collect();
    while spans.iter().zip(&slots).any(|(done, all)| done.len() < all.len()) {
        for (done, all) in spans.iter_mut().zip(&slots) {
            let Some(slot) = all.get(done.len()) else { continue };
            let needs: Option<Vec<u64>> = slot
                .passes()
                .flat_map(|pass| pass.needs(shape))
                .map(|value| made.get(&value).copied())
                .collect();
            let Some(needs) = needs else { continue };
            let mut free = done.last().map_or(0, |&(_, end): &(u64, u64)| end);
            let start = needs.into_iter().fold(free, u64::max);
            free = start + slot.passes().map(|pass| costs.of(pass).0).sum::<u64>();
            made.extend(slot.passes().filter_map(Pass::makes).map(|value| (value, free)));
            done.push((start, free));
        }
    }
    spans
}

/// Whether `slot` needs a value of another stage.
fn waits(schedule: &Schedule, slot: Slot) -> bool {
    let (shape, placement) = (schedule.shape(), schedule.placement());
    let home = |chunk, microbatch| placement.stage(shape, chunk, microbatch);
    slot.passes().any(|pass| {
        let own = home(pass.chunk, pass.microbatch);
        pass.needs(shape).any(|value| placement.maker(shape, value) != Some(own))
    })
}

fn measure(
    schedule: &Schedule,
    boundary: Boundary,
    clipped: Option<u32>,
    early: u64,
) -> (runtime::Measured, usize) {
    let plan = Plan::new(schedule.clone(), 2).unwrap().with_warm_up(1).unwrap();
    let plan = plan.with_boundary(boundary).unwrap();
    let settled = Arc::new(AtomicUsize::new(0));
    let (costs, count) = (costs(schedule), Arc::clone(&settled));
    let make = move |_| {
        let (costs, settled) = (Arc::clone(&costs), Arc::clone(&count));
        Ok(Ahead { costs, free: 0, times: Vec::new(), step: 0, clipped, settled, early })
    };
    (run(&plan, make).unwrap(), settled.load(Ordering::Relaxed))
}

#[test]
fn what_is_measured_is_by_the_clock_of_the_device() {
    let boundaries = [Boundary::Asynchronous, Boundary::Barrier { max_norm: 1.0 }];
    for (name, schedule) in schedules(4, 5).into_iter().chain(schedules(2, 3)) {
        let expected = replay(&schedule, &costs(&schedule));
        for boundary in boundaries {
            let (measured, settled) = measure(&schedule, boundary, None, 0);
            assert_eq!(settled, 3 * schedule.shape().stages(), "{name}: once a step");
            for step in &measured.steps {
                let mut made: HashMap<Value, Nanos> = HashMap::new();
                for (slots, expected) in step.stages.iter().zip(&expected) {
                    let got: Vec<_> = slots.iter().map(|one| (one.start.0, one.end.0)).collect();
                    assert_eq!(got, *expected, "{name}");
                    for one in slots {
                        made.extend(
                            one.slot.passes().filter_map(Pass::makes).map(|v| (v, one.end)),
                        );
                    }
                }
                for one in step.stages.iter().flatten() {
                    assert_eq!(one.arrived.is_some(), waits(&schedule, one.slot), "{name}");
                    if let Some((value, at)) = one.arrived {
                        assert_eq!(at, made[&value], "{name}: the host was later");
                        assert!(at <= one.start, "{name}");
                    }
                }
            }
            assert_eq!(measured.steps[1].began, Nanos(STEP), "{name}");
        }
    }
}

#[test]
fn a_step_ends_behind_its_passes_whatever_the_clocks_say() {
    for (name, schedule) in schedules(3, 4) {
        // An hour: no host is as late.
        let (measured, _) = measure(&schedule, Boundary::Asynchronous, None, 3_600_000_000_000);
        for step in &measured.steps {
            for (slots, end) in step.stages.iter().zip(&step.ends) {
                assert!(slots.iter().all(|slot| slot.end <= *end), "{name}");
            }
        }
    }
}

#[test]
fn a_step_begun_anew_is_measured_once() {
    for (name, schedule) in schedules(3, 4) {
        let boundary = Boundary::PostValidation { max_norm: 1.0 };
        let (measured, _) = measure(&schedule, boundary, Some(1), 0);
        assert_eq!((measured.rollbacks, measured.skipped), (1, 0), "{name}");
        let costs = costs(&schedule);
        for one in measured.steps.iter().flat_map(|step| step.stages.iter().flatten()) {
            assert_eq!(one.end - one.start, costs.of_slot(one.slot), "{name}");
        }
    }
}

#[test]
fn a_simulated_hop_is_refused_by_a_device_that_runs_ahead() {
    let (_, schedule) = pairs().swap_remove(0);
    let plan = Plan::new(schedule.clone(), 1).unwrap().with_hop(Nanos(1_000)).unwrap();
    let make = move |_| {
        let (costs, settled) = (costs(&schedule), Arc::default());
        Ok(Ahead { costs, free: 0, times: Vec::new(), step: 0, clipped: None, settled, early: 0 })
    };
    let failure = run(&plan, make).unwrap_err();
    assert!(matches!(failure, Failure::Device { .. }), "{failure}");
    assert!(failure.to_string().contains("runs ahead of the host"), "{failure}");
}
