//! The cost of the host on a GPU: how many kernels it launches in a second, and how long a value takes
//! from one stage to another.
#![forbid(unsafe_code)]

use std::sync::Barrier;
use std::time::Instant;

use pipeline::Nanos;

use super::call::failed;
use super::element::Element;
use super::kernels::take_time;
use super::stage::Cuda;
use crate::error::DeviceError;
use crate::measured::Overheads;
use crate::ops::Ops;

/// Kernels that a thread launches before it waits: a quarter of what a stream holds.
const BATCH: usize = 256;
/// Batches of a thread; the fastest counts.
const BATCHES: usize = 4;
/// Times that a value goes there and back.
const ROUNDS: u32 = 100;

/// Measures with the kernels of all stages of this process.
pub(super) fn measured<E: Element>(mut stages: Vec<Cuda<E>>) -> Result<Overheads, DeviceError> {
    let alone = match stages.first_mut() {
        Some(first) => rate(first, &Barrier::new(1))?,
        None => return Err(failed("cuLaunchKernel", "no stage to launch from")),
    };
    let together = if stages.len() > 1 { rate_of_all(&mut stages)? } else { alone };
    let threads = stages.len();
    let hand_over = match &mut stages[..] {
        [near, far, ..] => Some(hand_over(near, far)?),
        _ => None,
    };
    let [alone, together] = [alone, together].map(f64::round);
    Ok(Overheads {
        launches_per_second: alone,
        threads,
        launches_per_second_together: together,
        hand_over,
    })
}

/// Launches a second of one thread that begins with all others.
fn rate<E: Element>(stage: &mut Cuda<E>, together: &Barrier) -> Result<f64, DeviceError> {
    // Whatever fails, others wait for this thread.
    let made = stage.scratch::<f32>(2);
    let launch = made.as_ref().ok().map(|made| take_time(made.memory.address(), 0));
    let warm = launch.as_ref().map_or(Ok(()), |launch| batch(stage, launch).map(drop));
    together.wait();
    warm?;
    made?;
    let mut best = 0.0_f64;
    for launch in launch.iter().cycle().take(BATCHES) {
        best = best.max(batch(stage, launch)?);
    }
    Ok(best)
}

/// Launches a second within one batch, its end on the GPU included.
#[allow(clippy::cast_precision_loss)] // a few hundred
fn batch<E: Element>(
    stage: &mut Cuda<E>,
    launch: &super::launch::Launch,
) -> Result<f64, DeviceError> {
    let begin = Instant::now();
    for _ in 0..BATCH {
        stage.launch(std::slice::from_ref(launch))?;
    }
    stage.settle()?;
    Ok(BATCH as f64 / begin.elapsed().as_secs_f64().max(1e-9))
}

/// Launches a second of a thread for each stage, all of them together.
fn rate_of_all<E: Element>(stages: &mut [Cuda<E>]) -> Result<f64, DeviceError> {
    let begin = Barrier::new(stages.len());
    std::thread::scope(|scope| {
        let begin = &begin;
        let threads: Vec<_> =
            stages.iter_mut().map(|stage| scope.spawn(move || rate(stage, begin))).collect();
        let broken = || failed("cuLaunchKernel", "a thread that launched has broken down");
        threads.into_iter().map(|one| one.join().map_err(|_| broken())?).sum()
    })
}

/// How long a value takes from one stage to the next, by the clock of the GPU.
fn hand_over<E: Element>(near: &mut Cuda<E>, far: &mut Cuda<E>) -> Result<Nanos, DeviceError> {
    let epoch = Instant::now();
    near.stamps(epoch)?;
    let mut value = near.scratch::<E>(2)?;
    near.stamp()?;
    for _ in 0..ROUNDS {
        let handed = near.hand(value)?;
        let there = far.take(handed)?;
        let handed = far.hand(there)?;
        value = near.take(handed)?;
    }
    near.stamp()?;
    near.settle()?;
    far.settle()?;
    let times = near.stamps(epoch)?.unwrap_or_default();
    let took = times.last().zip(times.first()).map_or(0, |(end, start)| end.saturating_sub(*start));
    Ok(Nanos(took / u64::from(2 * ROUNDS)))
}
