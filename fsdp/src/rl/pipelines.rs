//! Training on pipelines, as Megatron-LM does it: every replica runs an order over microbatches of unequal
//! lengths, and gradients are exchanged once in an update.

use pipeline::{Costs, Family, Kind, Nanos, Pass, PassTimes, Problem, Schedule, Shape, Value};
use rayon::prelude::*;
use sim::timed::{self, Timing};

use crate::cost::nanos;
use crate::error::{FsdpError, count};
use crate::packing::{MAX_DEVICES, Method, Packing};

/// Nanoseconds of a second.
const SECOND: f64 = 1e9;
/// The longest sum of passes of a replica, in seconds: the clock tells thrice as much.
const MAX_SECONDS: f64 = 5e9;

/// The time of a pass over samples, in seconds: `squares` for each square of their tokens, and `tokens` for each
/// token.
#[derive(Clone, Copy, PartialEq, Default, Debug)]
pub struct PassCost {
    /// Attention.
    pub squares: f64,
    /// The rest.
    pub tokens: f64,
}

/// The times of the passes of a chunk of layers.
#[derive(Clone, Copy, PartialEq, Default, Debug)]
pub struct ChunkCosts {
    /// F.
    pub forward: PassCost,
    /// B, with what it computes again.
    pub backward_input: PassCost,
    /// W.
    pub backward_weight: PassCost,
}

/// Replicas that are pipelines.
#[derive(Clone, PartialEq, Debug)]
pub struct Pipelines {
    /// Replicas: data-parallel groups of all stages.
    pub replicas: usize,
    /// Stages of a replica.
    pub stages: u64,
    /// The order of passes: of 1F1B, its interleaved form and ZB-H1, for instance.
    pub schedule: Family,
    /// The chunks in model order, equally many on each stage.
    pub chunks: Vec<ChunkCosts>,
    /// Latency of a transfer between stages.
    pub hop_latency: Nanos,
    /// Seconds that the activations of a token travel between stages.
    pub hop_token: f64,
    /// The exchange of gradients and parameters at the end of an update.
    pub exchange: Nanos,
}

/// How long groups took for what they did side by side.
#[derive(Clone, Copy, PartialEq, Eq, Default, Debug)]
pub(super) struct GroupTimes {
    /// The end of the last.
    pub(super) time: Nanos,
    /// What they computed, all together, in nanoseconds; of stages the average.
    pub(super) busy: u128,
}

/// The samples of a microbatch.
#[derive(Clone, Copy, PartialEq, Default, Debug)]
struct Size {
    squares: f64,
    tokens: f64,
}

impl Pipelines {
    /// Checks that the order exists.
    pub fn check(&self) -> Result<(), FsdpError> {
        count("replicas", self.replicas as u64, 1, MAX_DEVICES)?;
        count("stages", self.stages, 1, MAX_DEVICES)?;
        self.order(&[Size { squares: 1.0, tokens: 1.0 }]).map(|_| ())
    }

    /// The time of an update on `packing` of samples of `lengths`.
    pub(super) fn update(
        &self,
        packing: &Packing,
        lengths: &[u32],
    ) -> Result<GroupTimes, FsdpError> {
        let times = self.each(packing, lengths, |schedule, timing| {
            let metrics = timed::metrics(schedule, timing);
            let busy = metrics.stages.iter().map(|stage| u128::from(stage.busy.0)).sum();
            (metrics.makespan(), busy)
        })?;
        let time = times.time.0.checked_add(self.exchange.0).ok_or(FsdpError::Overflow)?;
        Ok(GroupTimes { time: Nanos(time), ..times })
    }

    /// The time of forwards alone.
    pub(super) fn forward(
        &self,
        packing: &Packing,
        lengths: &[u32],
    ) -> Result<GroupTimes, FsdpError> {
        self.each(packing, lengths, forwards)
    }

    /// The longest time of a replica by `of`, and the sum of what they computed.
    fn each(
        &self,
        packing: &Packing,
        lengths: &[u32],
        of: impl Fn(&Schedule, &Durations<'_>) -> (Nanos, u128) + Sync,
    ) -> Result<GroupTimes, FsdpError> {
        let replicas: Vec<(Nanos, u128)> = packing
            .devices()
            .par_iter()
            .map(|microbatches| {
                let sizes = sizes(packing.method(), microbatches, lengths);
                if sizes.is_empty() {
                    return Ok((Nanos(0), 0));
                }
                self.check_times(&sizes)?;
                let schedule = self.order(&sizes)?;
                Ok(of(&schedule, &Durations { of: self, sizes: &sizes }))
            })
            .collect::<Result<_, FsdpError>>()?;
        let busy: u128 = replicas.iter().map(|(_, busy)| busy).sum();
        Ok(GroupTimes {
            time: replicas.iter().map(|(time, _)| *time).max().unwrap_or_default(),
            busy: busy / u128::from(self.stages.max(1)),
        })
    }

    /// Refuses microbatches that the clock cannot tell.
    fn check_times(&self, sizes: &[Size]) -> Result<(), FsdpError> {
        let passes = self.chunks.iter().flat_map(ChunkCosts::passes);
        let passes: f64 =
            passes.map(|cost| sizes.iter().map(|&size| cost.seconds(size)).sum::<f64>()).sum();
        let tokens: f64 = sizes.iter().map(|size| size.tokens).sum();
        #[allow(clippy::cast_precision_loss)]
        let latencies = self.hop_latency.0 as f64 / SECOND * sizes.len() as f64;
        #[allow(clippy::cast_precision_loss)]
        let hops = 2.0 * self.chunks.len() as f64 * (self.hop_token * tokens + latencies);
        // A number that is none is no smaller.
        if passes + hops < MAX_SECONDS { Ok(()) } else { Err(FsdpError::Overflow) }
    }

    /// The order of microbatches of `sizes`; what depends on times sees the mean microbatch.
    fn order(&self, sizes: &[Size]) -> Result<Schedule, FsdpError> {
        let per_stage = (self.chunks.len() as u64).div_ceil(self.stages.max(1));
        let shape = Shape::new(self.stages, per_stage, sizes.len() as u64)?;
        #[allow(clippy::cast_precision_loss)]
        let count = sizes.len().max(1) as f64;
        let sum = |of: fn(&Size) -> f64| sizes.iter().map(of).sum::<f64>() / count;
        let mean = Size { squares: sum(|size| size.squares), tokens: sum(|size| size.tokens) };
        let times = |chunk: &ChunkCosts| {
            let [f, b, w] = chunk.passes().map(|cost| cost.time(mean));
            PassTimes::new(f, b, w)
        };
        let costs = Costs::new(self.chunks.iter().map(times).collect(), self.hop(mean));
        Ok(self.schedule.schedule(&Problem::new(shape, costs)?)?)
    }

    fn hop(&self, size: Size) -> Nanos {
        self.hop_latency + nanos(self.hop_token * size.tokens)
    }
}

impl ChunkCosts {
    /// F, B and W.
    #[must_use]
    pub const fn passes(&self) -> [PassCost; 3] {
        [self.forward, self.backward_input, self.backward_weight]
    }
}

impl PassCost {
    fn seconds(self, size: Size) -> f64 {
        self.squares * size.squares + self.tokens * size.tokens
    }

    fn time(self, size: Size) -> Nanos {
        nanos(self.seconds(size))
    }
}

/// The microbatches of a replica in the order in which they run. Balanced ones, which come with the costliest first,
/// have small ones at both ends, where a pipeline fills and drains, as verl has them (`rearrange_micro_batches`).
fn sizes(method: Method, microbatches: &[Vec<u32>], lengths: &[u32]) -> Vec<Size> {
    let size = |samples: &Vec<u32>| {
        let tokens = samples.iter().map(|&sample| f64::from(lengths[sample as usize]));
        tokens.fold(Size::default(), |size, tokens| Size {
            squares: size.squares + tokens * tokens,
            tokens: size.tokens + tokens,
        })
    };
    let sizes: Vec<Size> = microbatches.iter().map(size).collect();
    if method == Method::LocalSort {
        return sizes;
    }
    let rising = sizes.iter().step_by(2).rev();
    rising.chain(sizes.iter().skip(1).step_by(2)).copied().collect()
}

/// How long each pass and each transfer takes.
struct Durations<'a> {
    of: &'a Pipelines,
    sizes: &'a [Size],
}

impl Timing for Durations<'_> {
    fn duration(&self, _: usize, pass: Pass, _: u64) -> u64 {
        let size = self.sizes[pass.microbatch as usize];
        let ChunkCosts { forward, backward_input, backward_weight } =
            self.of.chunks[usize::from(pass.chunk)];
        match pass.kind {
            Kind::F | Kind::R => forward.time(size).0,
            Kind::B => backward_input.time(size).0,
            Kind::W => backward_weight.time(size).0,
            Kind::BW => backward_input.time(size).0 + backward_weight.time(size).0,
            // No vocabulary is in shards.
            Kind::S | Kind::T => 0,
        }
    }

    fn hop(&self, value: Value, from: usize, to: usize, _: u64) -> u64 {
        let (Value::Output { microbatch, .. } | Value::Gradient { microbatch, .. }) = value else {
            return 0;
        };
        if from == to { 0 } else { self.of.hop(self.sizes[microbatch as usize]).0 }
    }

    fn collective(&self, _: Value, _: u64) -> u64 {
        0
    }
}

/// When the forwards of `schedule` end if nothing else runs, each stage in its order, and how long they take together.
fn forwards(schedule: &Schedule, timing: &Durations<'_>) -> (Nanos, u128) {
    let (shape, placement) = (schedule.shape(), schedule.placement());
    let microbatches = shape.microbatches() as usize;
    let cell =
        |chunk: u16, microbatch: u32| usize::from(chunk) * microbatches + microbatch as usize;
    let mut ends = vec![0; usize::from(shape.chunks()) * microbatches];
    let mut at = vec![0; shape.stages()];
    let mut free = vec![0; shape.stages()];
    let mut busy = 0;
    // A forward comes behind the one that it needs in a walk of all passes.
    for run in schedule.walk() {
        let stage = run.stage as usize;
        let from = at[stage];
        at[stage] += run.passes as usize;
        for &pass in &schedule.orders()[stage].passes()[from..at[stage]] {
            let Pass { kind: Kind::F, chunk, microbatch } = pass else { continue };
            let ready = chunk.checked_sub(1).map_or(0, |before| {
                let value = Value::Output { chunk: before, microbatch };
                let end = ends[cell(before, microbatch)];
                end + timing.hop(value, placement.stage(shape, before, microbatch), stage, end)
            });
            let start = ready.max(free[stage]);
            let duration = timing.duration(stage, pass, start);
            busy += u128::from(duration);
            free[stage] = start + duration;
            ends[cell(chunk, microbatch)] = free[stage];
        }
    }
    (Nanos(free.into_iter().max().unwrap_or(0)), busy)
}

#[cfg(test)]
mod tests;
