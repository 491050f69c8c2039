//! Times messages over the links of the executor itself: plans of two stages that compute nothing and
//! hand on a value of the size asked for, as threads of this process or as processes over TCP. And
//! copies in the memory of the host.
//!
//! A message takes from the end of the pass that makes the value to the start of the pass that takes
//! it: packing, the wire, the wake-up of the other stage, unpacking. Every time is the mean of both
//! directions, so that it does not matter how far the clocks of two processes are apart.

use std::collections::hash_map::RandomState;
use std::hash::{BuildHasher, Hasher};
use std::net::Ipv4Addr;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::thread::{self, JoinHandle};
use std::time::{Duration, Instant};

use executor::{
    DeviceError, Failure, Launch, Measured, Ops, Plan, Rendezvous, Trainer, Wire, Worker,
    free_ports, join, run,
};
use pipeline::{Fault, Kind, Nanos, Pass, Placement, Schedule, Shape, Step};

use crate::machine;
use crate::sample::Source;

/// The link between two stages.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum Joint {
    /// The inbox of another thread.
    Queue,
    /// TCP over the loopback device.
    Tcp,
}

/// The messages to be sent.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct Traffic {
    /// Bytes of a message, rounded up to whole elements.
    pub bytes: usize,
    /// Number of pairs of stages that send at the same time; all but the first only keep wires busy.
    pub pairs: usize,
    /// Whether both stages send at the same time, or one and then the other.
    pub both_ways: bool,
}

/// A stage that computes nothing and hands on values of one size.
struct Carrier<O: Ops> {
    ops: O,
    len: usize,
    /// Values to hand on: made at the start, and what came from the other stage.
    values: Vec<O::Transfer>,
    /// Whether the value of a pass is taken by another chunk.
    chunks: u16,
}

impl<O: Ops> Carrier<O> {
    fn new(mut ops: O, bytes: usize, chunks: u16) -> Result<Self, DeviceError> {
        let len = bytes.div_ceil(ops.element_bytes()).max(1);
        let tensor = ops.tensor(len)?;
        let values = vec![ops.send(tensor)?];
        Ok(Self { ops, len, values, chunks })
    }
}

impl<O: Ops> Worker for Carrier<O> {
    type Value = O::Transfer;

    fn run(
        &mut self,
        pass: Pass,
        input: Option<O::Transfer>,
    ) -> Result<Option<O::Transfer>, DeviceError> {
        self.values.extend(input);
        if pass.makes().and_then(|value| value.taken_by(self.chunks)).is_none() {
            return Ok(None);
        }
        if let Some(value) = self.values.pop() {
            return Ok(Some(value));
        }
        let tensor = self.ops.tensor(self.len)?;
        self.ops.send(tensor).map(Some)
    }

    fn synchronize(&mut self) -> Result<(), DeviceError> {
        self.ops.synchronize()
    }

    fn forget(&mut self) -> Result<(), DeviceError> {
        Ok(())
    }
}

impl<O: Ops> Wire for Carrier<O> {
    fn value_bytes(&self) -> usize {
        self.len * self.ops.element_bytes()
    }

    fn pack(&mut self, value: O::Transfer) -> Result<Vec<u8>, DeviceError> {
        self.ops.pack(value)
    }

    fn unpack(&mut self, bytes: &[u8]) -> Result<O::Transfer, DeviceError> {
        self.ops.unpack(bytes)
    }
}

impl<O: Ops> Trainer for Carrier<O> {
    fn begin_step(&mut self, _: u32) -> Result<(), DeviceError> {
        // One value is enough: it goes there and comes back.
        self.values.truncate(1);
        Ok(())
    }
}

/// A value there and back; or, both ways at once, one of each stage at the same time, there and back.
fn schedule(both_ways: bool) -> Result<Schedule, Fault> {
    if both_ways {
        let down = [Pass::f(0, 0), Pass::f(1, 1), Pass::bw(1, 1), Pass::bw(0, 0)];
        let up = [Pass::f(0, 1), Pass::f(1, 0), Pass::bw(1, 0), Pass::bw(0, 1)];
        let orders = vec![down.into_iter().collect(), up.into_iter().collect()];
        return Schedule::new(Shape::new(2, 1, 2)?, Placement::Mirrored, orders);
    }
    let there = [Pass::f(0, 0), Pass::bw(0, 0)].into_iter().collect();
    let back = [Pass::f(1, 0), Pass::bw(1, 0)].into_iter().collect();
    Schedule::new(Shape::new(2, 1, 1)?, Placement::Looped, vec![there, back])
}

/// Duration of the messages of `step`, on average.
fn time(step: &Step) -> u64 {
    let slots = || step.stages.iter().flatten();
    let start_of = |pass: Pass| {
        slots().find(|one| one.slot.passes().any(|other| other == pass)).map(|one| one.start)
    };
    let (mut total, mut count) = (0i128, 0i128);
    for one in slots() {
        for pass in one.slot.passes() {
            let taker = match pass.kind {
                Kind::F if pass.chunk == 0 => Pass { chunk: 1, ..pass },
                Kind::BW if pass.chunk == 1 => Pass { chunk: 0, ..pass },
                _ => continue,
            };
            let Some(Nanos(start)) = start_of(taker) else { continue };
            // By clocks that are apart one direction may seem to take less than no time.
            total += i128::from(start) - i128::from(one.end.0);
            count += 1;
        }
    }
    u64::try_from(total / count.max(1)).unwrap_or(0)
}

/// A pair of stages that send each other messages, run after run.
struct Pair<F> {
    joint: Joint,
    bytes: usize,
    plan: Plan,
    ops: F,
    /// The core of the first stage; the second sits on the next one.
    core: Option<usize>,
}

/// The most bytes sent in a run, and the most messages of each stage; what comes first warms up.
const RUN_BYTES: usize = 1 << 24;
const RUN_STEPS: usize = 32;
const WARM_UP: u32 = 2;

impl<O, F> Pair<F>
where
    O: Ops + 'static,
    F: Fn() -> Result<O, DeviceError> + Clone + Send + Sync + 'static,
{
    fn new(joint: Joint, traffic: Traffic, ops: F, core: Option<usize>) -> Result<Self, Failure> {
        let fault = |fault: Fault| {
            let error = DeviceError::NotAtHand { what: fault.to_string() };
            Failure::Device { stage: 0, step: None, slot: None, error }
        };
        let schedule = schedule(traffic.both_ways).map_err(fault)?;
        let steps = (RUN_BYTES / traffic.bytes.max(1)).clamp(2, RUN_STEPS);
        let plan = Plan::new(schedule, u32::try_from(steps).unwrap_or(2))?.with_warm_up(WARM_UP)?;
        Ok(Self { joint, bytes: traffic.bytes, plan, ops, core })
    }

    /// Runs the plan once: how long the messages of each step took.
    fn times(&self) -> Result<Vec<u64>, Failure> {
        let (bytes, core, ops) = (self.bytes, self.core, self.ops.clone());
        let chunks = self.plan.schedule().shape().chunks();
        let make = move |stage: usize| {
            if let Some(core) = core {
                let _ = machine::pin(core + stage);
            }
            Carrier::new(ops()?, bytes, chunks)
        };
        let measured = match self.joint {
            Joint::Queue => run(&self.plan, make)?,
            Joint::Tcp => self.join(&make)?,
        };
        Ok(measured.steps.iter().map(time).collect())
    }

    /// The two processes, as threads.
    fn join<W: Trainer + Wire>(
        &self,
        make: &(impl Fn(usize) -> Result<W, DeviceError> + Sync),
    ) -> Result<Measured, Failure> {
        let token = RandomState::new().build_hasher().finish().to_le_bytes().to_vec();
        let port = free_ports(1)?;
        let process = |rank| {
            let master = Ipv4Addr::LOCALHOST.to_string();
            let launch = Launch { rank, world: 2, master, port };
            let about = "calibration of links".to_owned();
            let rendezvous = Rendezvous { launch, bind: None, token: token.clone(), about };
            join(&self.plan, &rendezvous, make)
        };
        let (near, far) = thread::scope(|scope| {
            let far = scope.spawn(|| process(1));
            // A thread of its own: it is pinned for good.
            let near = scope.spawn(|| process(0));
            (near.join(), far.join())
        });
        let lost = |_| Failure::Lost { stage: 0, what: "its thread broke down".to_owned() };
        let (near, far) = (near.map_err(lost)?, far.map_err(lost)?);
        far?;
        near?.ok_or_else(|| Failure::Lost { stage: 0, what: "it measured nothing".to_owned() })
    }
}

/// Messages over a link: one series.
pub struct Messages<F> {
    measured: Pair<F>,
    stop: Arc<AtomicBool>,
    others: Vec<JoinHandle<()>>,
    began: Instant,
}

impl<O, F> Messages<F>
where
    O: Ops + 'static,
    F: Fn() -> Result<O, DeviceError> + Clone + Send + Sync + 'static,
{
    /// Joins `traffic.pairs` pairs of stages on devices of `ops`; with `pinned`, each stage sits on a
    /// core of its own.
    pub fn new(joint: Joint, traffic: Traffic, ops: F, pinned: bool) -> Result<Self, Failure> {
        let core = |pair: usize| pinned.then_some(2 * pair);
        let measured = Pair::new(joint, traffic, ops.clone(), core(0))?;
        let stop = Arc::new(AtomicBool::new(false));
        let mut all = Self { measured, stop, others: Vec::new(), began: Instant::now() };
        for pair in 1..traffic.pairs {
            let other = Pair::new(joint, traffic, ops.clone(), core(pair))?;
            let stop = Arc::clone(&all.stop);
            all.others.push(thread::spawn(move || {
                while !stop.load(Ordering::Relaxed) && other.times().is_ok() {}
            }));
        }
        Ok(all)
    }
}

impl<F> Drop for Messages<F> {
    fn drop(&mut self) {
        self.stop.store(true, Ordering::Relaxed);
        for other in self.others.drain(..) {
            let _ = other.join();
        }
    }
}

impl<O, F> Source for Messages<F>
where
    O: Ops + 'static,
    F: Fn() -> Result<O, DeviceError> + Clone + Send + Sync + 'static,
{
    type Error = Failure;

    fn round(&mut self, series: &mut [Vec<u64>]) -> Result<(), Failure> {
        series[0].extend(self.measured.times()?);
        Ok(())
    }

    fn elapsed(&mut self) -> Duration {
        self.began.elapsed()
    }
}

/// Copies in the memory of the host: one series.
pub struct Copies {
    from: Vec<u8>,
    to: Vec<u8>,
    began: Instant,
}

impl Copies {
    #[must_use]
    pub fn new(bytes: usize) -> Self {
        Self { from: vec![1; bytes], to: vec![2; bytes], began: Instant::now() }
    }
}

impl Source for Copies {
    type Error = Failure;

    fn round(&mut self, series: &mut [Vec<u64>]) -> Result<(), Failure> {
        let start = Instant::now();
        self.to.copy_from_slice(&self.from);
        std::hint::black_box(&mut self.to);
        series[0].push(u64::try_from(start.elapsed().as_nanos()).unwrap_or(u64::MAX));
        Ok(())
    }

    fn elapsed(&mut self) -> Duration {
        self.began.elapsed()
    }
}

#[cfg(test)]
mod tests {
    use executor::Cpu;
    use pipeline::Measurement;

    use super::*;

    fn times(joint: Joint, traffic: Traffic) -> Vec<u64> {
        let mut messages = Messages::new(joint, traffic, || Ok(Cpu::<f32>::new()), false).unwrap();
        let mut series = [Vec::new()];
        messages.round(&mut series).unwrap();
        let [times] = series;
        times
    }

    #[test]
    fn messages_arrive_over_every_link_in_every_traffic() {
        for joint in [Joint::Queue, Joint::Tcp] {
            for (pairs, both_ways) in [(1, false), (1, true), (2, false), (2, true)] {
                // Far more than the buffers of a socket hold.
                for (bytes, count) in [(8, RUN_STEPS), (8 << 20, 2)] {
                    let times = times(joint, Traffic { bytes, pairs, both_ways });
                    assert_eq!(times.len(), count);
                    assert!(times.iter().any(|&time| time > 0));
                }
            }
        }
    }

    #[test]
    fn bytes_take_time_over_a_wire() {
        let fastest = |bytes| {
            let traffic = Traffic { bytes, pairs: 1, both_ways: false };
            times(Joint::Tcp, traffic).into_iter().min()
        };
        assert!(fastest(16 << 20) > fastest(8));
    }

    #[test]
    fn a_message_takes_from_pass_to_pass_in_both_directions() {
        let at = |pass: Pass, start, end| Measurement {
            slot: pass.into(),
            arrived: None,
            start: Nanos(start),
            end: Nanos(end),
        };
        // The clock of stage 1 is 100 ahead: 120 there, -60 back.
        let step = Step {
            stages: vec![
                vec![at(Pass::f(0, 0), 0, 10), at(Pass::bw(0, 0), 90, 95)],
                vec![at(Pass::f(1, 0), 130, 140), at(Pass::bw(1, 0), 145, 150)],
            ],
            ..Step::default()
        };
        assert_eq!(time(&step), 30);
    }

    #[test]
    fn a_stage_without_a_device_is_an_error() {
        let none = || Err::<Cpu<f32>, _>(DeviceError::NotAtHand { what: "a device".to_owned() });
        let traffic = Traffic { bytes: 8, pairs: 1, both_ways: false };
        for joint in [Joint::Queue, Joint::Tcp] {
            let mut messages = Messages::new(joint, traffic, none, false).unwrap();
            assert!(messages.round(&mut [Vec::new()]).is_err());
        }
    }
}
