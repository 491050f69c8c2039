//! Baselines: the time of a measurement itself, the best rates of a device, and the overhead of a
//! pass besides its layers.

use std::sync::Arc;
use std::time::{Duration, Instant};

use executor::{
    At, BuildError, Device, DeviceError, Gemm, Gpt, Layout, Model, Ops, Random, Training, Wire,
    Worker,
};
use pipeline::{Costs, Family, Kind, Nanos, Pass, PassTimes, Problem, Schedule, Shape};

use crate::clock::Marks;
use crate::sample::Source;

/// Two marks with nothing between them: the overhead of the clock and of its call.
pub struct Nothing<O> {
    ops: O,
    marks: Marks,
    began: Instant,
}

impl<O: Ops> Nothing<O> {
    /// Nothing, on the device of `ops`.
    pub fn new(ops: O) -> Self {
        Self { ops, marks: Marks::new(), began: Instant::now() }
    }
}

impl<O: Ops> Source for Nothing<O> {
    type Error = DeviceError;

    fn round(&mut self, series: &mut [Vec<u64>]) -> Result<(), DeviceError> {
        self.marks.mark(&mut self.ops)?;
        self.marks.mark(&mut self.ops)?;
        let marks = self.marks.read(&mut self.ops)?;
        series[0].extend(marks.windows(2).map(|ends| ends[1].saturating_sub(ends[0])));
        Ok(())
    }

    fn elapsed(&mut self) -> Duration {
        self.began.elapsed()
    }
}

/// A product of two square matrices: what a device does at its best.
pub struct Peak<O: Ops> {
    ops: O,
    size: usize,
    a: O::Tensor,
    b: O::Tensor,
    c: O::Tensor,
    marks: Marks,
    began: Instant,
}

impl<O: Ops> Peak<O> {
    /// Matrices of `size` rows and columns.
    pub fn new(mut ops: O, size: usize) -> Result<Self, DeviceError> {
        let mut filled = || {
            let mut tensor = ops.tensor(size * size)?;
            let values: Vec<f64> = (0..size * size).map(|k| (k % 17) as f64 / 17.0).collect();
            ops.write(&values, At::start(&mut tensor))?;
            Ok::<_, DeviceError>(tensor)
        };
        let (a, b, c) = (filled()?, filled()?, filled()?);
        Ok(Self { ops, size, a, b, c, marks: Marks::new(), began: Instant::now() })
    }

    /// Floating-point operations of a round.
    #[must_use]
    pub const fn operations(&self) -> u64 {
        2 * (self.size as u64).pow(3)
    }
}

impl<O: Ops> Source for Peak<O> {
    type Error = DeviceError;

    fn round(&mut self, series: &mut [Vec<u64>]) -> Result<(), DeviceError> {
        let size = self.size;
        let shape = Gemm {
            rows: size,
            columns: size,
            inner: size,
            transpose_a: false,
            transpose_b: true,
            count: 1,
            scale: 1.0,
        };
        self.marks.mark(&mut self.ops)?;
        let c = At::start(&mut self.c);
        self.ops.gemm(shape, At::start(&self.a), At::start(&self.b), c)?;
        self.marks.mark(&mut self.ops)?;
        let marks = self.marks.read(&mut self.ops)?;
        series[0].extend(marks.windows(2).map(|ends| ends[1].saturating_sub(ends[0])));
        Ok(())
    }

    fn elapsed(&mut self) -> Duration {
        self.began.elapsed()
    }
}

/// Kernels at work in one round of [`Launches`]: few enough for any queue of a device.
const AT_ONCE: u32 = 64;

/// Launches of the smallest kernel, timed by the host's clock: the time of the host thread for each,
/// independent of the time of the kernel on the device.
pub struct Launches<O: Ops> {
    ops: O,
    x: O::Tensor,
    y: O::Tensor,
    began: Instant,
}

impl<O: Ops> Launches<O> {
    /// On the device of `ops`.
    pub fn new(mut ops: O) -> Result<Self, DeviceError> {
        let (mut x, mut y) = (ops.tensor(1)?, ops.tensor(1)?);
        ops.write(&[0.0], At::start(&mut x))?;
        ops.write(&[0.0], At::start(&mut y))?;
        Ok(Self { ops, x, y, began: Instant::now() })
    }
}

impl<O: Ops> Source for Launches<O> {
    type Error = DeviceError;

    fn round(&mut self, series: &mut [Vec<u64>]) -> Result<(), DeviceError> {
        self.ops.synchronize()?;
        let start = Instant::now();
        for _ in 0..AT_ONCE {
            self.ops.add(1, &self.x, &mut self.y)?;
        }
        let each = start.elapsed() / AT_ONCE;
        series[0].push(u64::try_from(each.as_nanos()).unwrap_or(u64::MAX));
        self.ops.synchronize()
    }

    fn elapsed(&mut self) -> Duration {
        self.began.elapsed()
    }
}

/// The smallest layer there is, once as a stage runs it and once alone: the difference, over the
/// three passes, is what a pass takes besides. By the clock of a device that runs ahead, which a
/// stage lets start a pass while the host begins the next, else by the host's.
pub struct Besides<O: Ops> {
    worker: Gpt<O>,
    device: Device<O>,
    layout: Layout,
    weights: O::Tensor,
    gradients: O::Accumulator,
    began: Instant,
}

/// Any order of three stages, one chunk each.
fn three_stages() -> Result<Schedule, pipeline::Fault> {
    let shape = Shape::new(3, 1, 1)?;
    let costs = Costs::uniform(shape, PassTimes::default(), Nanos(0));
    Family::ZbH1.schedule(&Problem::new(shape, costs)?)
}

impl<O: Ops> Besides<O> {
    /// On devices of `ops`, one for each way.
    pub fn new(ops: [O; 2]) -> Result<Self, BuildError> {
        let model = Model::new(1, 1, 3, 1, 1, 1)?;
        let fault = |fault: pipeline::Fault| DeviceError::NotAtHand { what: fault.to_string() };
        let schedule = three_stages().map_err(fault)?;
        let [first, mut second] = ops;
        let batches = Arc::new(Random::new(model, 0));
        let worker = Gpt::new(first, model, &schedule, 1, batches, Training::default())?;
        let layout = Layout::whole(model);
        let mut weights = second.tensor(layout.parameters())?;
        let zeros = vec![0.0; layout.parameters()];
        second.write(&zeros, At::start(&mut weights))?;
        let gradients = second.accumulator(layout.parameters())?;
        let (device, began) = (Device::new(second), Instant::now());
        Ok(Self { worker, device, layout, weights, gradients, began })
    }

    fn as_a_stage(&mut self) -> Result<Duration, DeviceError> {
        let bytes = vec![0; self.worker.value_bytes()];
        let mut total = Duration::ZERO;
        for kind in [Kind::F, Kind::B, Kind::W] {
            let input = match kind {
                Kind::W => None,
                _ => Some(self.worker.unpack(&bytes)?),
            };
            let start = Instant::now();
            let value = self.worker.run(Pass { kind, chunk: 1, microbatch: 0 }, input)?;
            self.worker.synchronize()?;
            total += start.elapsed();
            drop(value);
        }
        let device = self.worker.device_times(self.began)?;
        let sum = |times: Vec<(u64, u64)>| {
            times.into_iter().map(|(start, end)| Duration::from_nanos(end - start.min(end))).sum()
        };
        Ok(device.map_or(total, sum))
    }

    fn alone(&mut self) -> Result<Duration, DeviceError> {
        let Self { device, layout, weights, gradients, .. } = self;
        let Some(layer) = layout.layers().first() else { return Ok(Duration::ZERO) };
        let (x, dy) = (device.tensor(1)?, device.tensor(1)?);
        let start = Instant::now();
        device.ops.stamp()?;
        let (y, kept) = layer.forward(device, weights, x)?;
        device.ops.stamp()?;
        device.ops.synchronize()?;
        device.ops.stamp()?;
        let (dx, kept) = layer.backward_input(device, weights, gradients, kept, dy)?;
        device.ops.stamp()?;
        device.ops.synchronize()?;
        device.ops.stamp()?;
        layer.backward_weight(device, gradients, kept)?;
        device.ops.stamp()?;
        device.ops.synchronize()?;
        let total = start.elapsed();
        let stamps = device.ops.stamps(self.began)?;
        drop((y, dx));
        let sum = |stamps: Vec<u64>| {
            let pairs = stamps.chunks_exact(2);
            pairs.map(|ends| Duration::from_nanos(ends[1].saturating_sub(ends[0]))).sum()
        };
        Ok(stamps.map_or(total, sum))
    }
}

impl<O: Ops> Source for Besides<O> {
    type Error = DeviceError;

    fn round(&mut self, series: &mut [Vec<u64>]) -> Result<(), DeviceError> {
        let more = self.as_a_stage()?.saturating_sub(self.alone()?) / 3;
        series[0].push(u64::try_from(more.as_nanos()).unwrap_or(u64::MAX));
        Ok(())
    }

    fn elapsed(&mut self) -> Duration {
        self.began.elapsed()
    }
}
