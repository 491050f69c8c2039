//! The host's overhead on a GPU: kernel launches per second, and the latency of a value from one
//! stage to another.
#![forbid(unsafe_code)]

use std::sync::Barrier;
use std::time::{Duration, Instant};

use pipeline::Nanos;

use super::call::failed;
use super::element::Element;
use super::kernels::{TIMESTAMP_WORDS, take_time};
use super::memory::Buffer;
use super::stage::Cuda;
use gpt::Ops;
use runtime::{DeviceError, Overheads};

/// Kernels that a thread launches before it synchronizes: fewer than a stream's queue holds.
const BATCH: u32 = 256;
/// Duration of the launches of a thread.
const TIME: Duration = Duration::from_millis(100);
/// Number of round trips of a value.
const ROUNDS: u32 = 100;

/// Measures with the kernels of all stages of this process.
pub(super) fn measured<E: Element>(mut stages: Vec<Cuda<E>>) -> Result<Overheads, DeviceError> {
    let threads = stages.len();
    let alone = match stages.get_mut(..1) {
        Some(first) => rate(first)?,
        None => return Err(failed("cuLaunchKernel", "no stage to launch from")),
    };
    let together = if threads > 1 { rate(&mut stages)? } else { alone };
    let hand_over = match &mut stages[..] {
        [near, far, ..] => Some(hand_over(near, far)?),
        _ => None,
    };
    Ok(Overheads {
        launches_per_second: alone.round(),
        threads,
        launches_per_second_together: together.round(),
        hand_over,
    })
}

/// Launches per second of one thread for each of `stages`, until the last kernel of the last thread
/// is done.
fn rate<E: Element>(stages: &mut [Cuda<E>]) -> Result<f64, DeviceError> {
    let mut made = Vec::with_capacity(stages.len());
    for stage in &mut *stages {
        let timestamp = stage.scratch::<f32>(TIMESTAMP_WORDS)?;
        // The first launches are slower.
        batch(stage, &timestamp, Instant::now())?;
        made.push(timestamp);
    }
    let begin = &Barrier::new(stages.len());
    let counts = std::thread::scope(|scope| {
        let thread = |(stage, made)| scope.spawn(move || launches(stage, made, begin));
        let threads: Vec<_> = stages.iter_mut().zip(&made).map(thread).collect();
        let broken = || failed("cuLaunchKernel", "a thread that launched has broken down");
        let counts = threads.into_iter().map(|one| one.join().map_err(|_| broken())?);
        counts.collect::<Result<Vec<_>, DeviceError>>()
    })?;
    let longest = counts.iter().map(|(_, time)| *time).max().unwrap_or_default();
    let all: u32 = counts.iter().map(|(count, _)| count).sum();
    Ok(f64::from(all) / longest.as_secs_f64().max(1e-9))
}

/// Number of kernel launches of one thread, which starts together with all others, and their
/// duration.
fn launches<E: Element>(
    stage: &mut Cuda<E>,
    made: &Buffer<f32>,
    begin: &Barrier,
) -> Result<(u32, Duration), DeviceError> {
    begin.wait();
    let (since, mut count) = (Instant::now(), 0);
    while count == 0 || since.elapsed() < TIME {
        count += batch(stage, made, since)?;
    }
    Ok((count, since.elapsed()))
}

/// Launches a batch, or less where [`TIME`] is over, and synchronizes. Returns the number of
/// kernels.
fn batch<E: Element>(
    stage: &mut Cuda<E>,
    made: &Buffer<f32>,
    since: Instant,
) -> Result<u32, DeviceError> {
    let launch = [take_time(made.memory.address(), 0)];
    let mut count = 0;
    while count < BATCH && (count == 0 || since.elapsed() <= TIME) {
        stage.launch(&launch)?;
        count += 1;
    }
    stage.synchronize()?;
    Ok(count)
}

/// Latency of a value from one stage to the next, by the clock of the GPU.
fn hand_over<E: Element>(near: &mut Cuda<E>, far: &mut Cuda<E>) -> Result<Nanos, DeviceError> {
    let epoch = Instant::now();
    near.stamps(epoch)?;
    let mut value = near.scratch::<E>(1)?;
    near.stamp()?;
    for _ in 0..ROUNDS {
        let transfer = near.send(value)?;
        let there = far.receive(transfer)?;
        let transfer = far.send(there)?;
        value = near.receive(transfer)?;
    }
    near.stamp()?;
    near.synchronize()?;
    far.synchronize()?;
    let times = near.stamps(epoch)?.unwrap_or_default();
    let took = times.last().zip(times.first()).map_or(0, |(end, start)| end.saturating_sub(*start));
    Ok(Nanos(took / u64::from(2 * ROUNDS)))
}
