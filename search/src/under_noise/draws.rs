//! Duration of every pass and hop in many replicas of the noise, drawn once for a whole search.
// Passes and replicas are fewer than `MAX_PASSES_UNDER_NOISE`; times are whole, below 2^52 and not below 0.
#![allow(clippy::cast_possible_truncation, clippy::cast_precision_loss, clippy::cast_sign_loss)]

use std::ops::Range;

use pipeline::{Costs, Pass, Value};
use rayon::prelude::*;
use sim::straggler::{NoiseSample, Stragglers};

use crate::compiled_instance::{CompiledInstance, NONE};
use crate::instance::Instance;

/// The replicas that are timed at once, side by side.
pub(super) const BLOCK: usize = 32;

/// A time in each replica of a block, in whole nanoseconds: as a float, for processors have no instruction for the
/// larger of two integers of 64 bits that compilers use.
pub(super) type Lot = [f64; BLOCK];

/// The later of two times; neither is NaN.
#[inline(always)]
fn later(one: f64, other: f64) -> f64 {
    if one > other { one } else { other }
}

/// The pass of a lane, whose duration is sampled by its start time under time-varying noise.
#[derive(Clone, Copy)]
struct Work {
    stage: usize,
    pass: Pass,
    /// Its input from another stage: the stage that produces it, and the value.
    input: Option<(usize, Value)>,
}

/// The durations of [`BLOCK`] replicas. Passes are numbered as in an order: lane times microbatches plus
/// microbatch.
enum Block {
    /// Those of every pass and of the hop before it, whenever it begins.
    Steady { passes: Vec<Lot>, hops: Vec<Lot> },
    /// They follow a profile over time: every replica is asked as the passes begin.
    Varying { first: u64 },
}

/// The noise of several blocks of replicas over one instance.
pub(super) struct Draws<'a> {
    noise: &'a Stragglers,
    costs: &'a Costs,
    microbatches: u32,
    work: Vec<Work>,
    blocks: Vec<Block>,
    /// No duration is longer, so that sums of all of them are exact.
    most: u64,
}

impl<'a> Draws<'a> {
    /// Draws the replicas in `blocks`, counted in blocks, of `noise` over `instance`.
    pub(super) fn new(
        instance: &'a Instance,
        compiled: &CompiledInstance,
        noise: &'a Stragglers,
        blocks: Range<usize>,
    ) -> Self {
        let at = (instance.shape, instance.placement);
        let work = compiled.first_passes(at).map(|(stage, pass)| {
            let value = pass.input(instance.shape);
            let from = value.and_then(|value| at.1.maker(at.0, value));
            let input = from.zip(value).filter(|(from, _)| *from != stage);
            Work { stage, pass, input }
        });
        let most = (1 << 51) / (compiled.passes() as u64 + 1);
        let mut draws = Self {
            noise,
            costs: &instance.costs,
            microbatches: compiled.microbatches,
            work: work.collect(),
            blocks: Vec::new(),
            most,
        };
        draws.blocks = blocks.map(|block| draws.block((block * BLOCK) as u64)).collect();
        draws
    }

    /// The number of blocks.
    pub(super) const fn blocks(&self) -> usize {
        self.blocks.len()
    }

    fn block(&self, first: u64) -> Block {
        if self.noise.depends_on_time() {
            return Block::Varying { first };
        }
        let samples: Vec<NoiseSample<'_>> =
            (first..first + BLOCK as u64).map(|replica| self.noise.sample(replica, 0)).collect();
        let cells = self.work.len() * self.microbatches as usize;
        let lot = |one: &(dyn Fn(&NoiseSample<'_>) -> f64 + Sync)| {
            std::array::from_fn(|at| one(&samples[at]))
        };
        let pass = |cell: usize| lot(&|sample| self.pass(sample, cell as u32, 0.0));
        let hop = |cell: usize| lot(&|sample| self.hop(sample, cell as u32, 0.0));
        let passes = (0..cells).into_par_iter().map(pass).collect();
        // Where hops take no time there is nothing to keep.
        let hops = match self.costs.hops().longest().0 {
            0 => Vec::new(),
            _ => (0..cells).into_par_iter().map(hop).collect(),
        };
        Block::Steady { passes, hops }
    }

    fn pass(&self, sample: &NoiseSample<'_>, cell: u32, start: f64) -> f64 {
        let Work { stage, pass, .. } = self.work[(cell / self.microbatches) as usize];
        let pass = Pass { microbatch: cell % self.microbatches, ..pass };
        if self.costs.of(pass).0 == 0 || is_idle_recompute(self.costs, pass) {
            return 0.0;
        }
        self.within(sample.duration_under(self.costs, stage, pass, start as u64))
    }

    fn hop(&self, sample: &NoiseSample<'_>, cell: u32, start: f64) -> f64 {
        let Work { stage, input, .. } = self.work[(cell / self.microbatches) as usize];
        let microbatch = cell % self.microbatches;
        let Some((from, value)) = input else { return 0.0 };
        let value = match value {
            Value::Output { chunk, .. } => Value::Output { chunk, microbatch },
            Value::Gradient { chunk, .. } => Value::Gradient { chunk, microbatch },
            other => other,
        };
        let nominal = self.costs.hops().between(from, stage).0;
        self.within(sample.hop_duration(nominal, from, stage, value, start as u64))
    }

    fn within(&self, time: u64) -> f64 {
        time.min(self.most) as f64
    }

    /// Advances a stage from `free` past the arrival of its input from `input`, to the pass `cell`, in all
    /// replicas of `block`.
    #[inline]
    pub(super) fn wait(&self, block: usize, cell: u32, free: &mut Lot, input: &Lot) {
        match &self.blocks[block] {
            Block::Steady { hops, .. } => match hops.get(cell as usize) {
                Some(hops) => {
                    for at in 0..BLOCK {
                        free[at] = later(free[at], input[at] + hops[at]);
                    }
                }
                None => {
                    for at in 0..BLOCK {
                        free[at] = later(free[at], input[at]);
                    }
                }
            },
            Block::Varying { first } => {
                for (at, free) in free.iter_mut().enumerate() {
                    let sample = self.noise.sample(first + at as u64, 0);
                    *free = later(*free, input[at] + self.hop(&sample, cell, input[at]));
                }
            }
        }
    }

    /// Runs the pass `cell` on a stage that is `free`, in all replicas of `block`.
    #[inline]
    pub(super) fn run(&self, block: usize, cell: u32, free: &mut Lot) {
        match &self.blocks[block] {
            Block::Steady { passes, .. } => {
                let passes = &passes[cell as usize];
                for at in 0..BLOCK {
                    free[at] += passes[at];
                }
            }
            Block::Varying { first } => {
                for (at, free) in free.iter_mut().enumerate() {
                    let sample = self.noise.sample(first + at as u64, 0);
                    *free += self.pass(&sample, cell, *free);
                }
            }
        }
    }

    /// The mean of the durations drawn for a lane, at the beginning of a step, in nanoseconds.
    pub(super) fn mean_pass(&self, lane: usize) -> u64 {
        let columns = self.microbatches as usize;
        let sum: i128 = match &self.blocks[..] {
            [Block::Steady { passes, .. }, ..] => {
                let cells = &passes[lane * columns..(lane + 1) * columns];
                cells.iter().flatten().map(|&time| time as i128).sum()
            }
            _ => {
                let cells = lane as u32 * self.microbatches..(lane as u32 + 1) * self.microbatches;
                let of = |cell| {
                    (0..BLOCK as u64).map(move |replica| {
                        self.pass(&self.noise.sample(replica, 0), cell, 0.0) as i128
                    })
                };
                cells.flat_map(of).sum()
            }
        };
        u64::try_from(sum / (columns * BLOCK) as i128).unwrap_or(0)
    }
}

/// Whether `pass` is the R of a chunk that recomputes nothing, which is none.
fn is_idle_recompute(costs: &Costs, pass: Pass) -> bool {
    pass.kind == pipeline::Kind::R && costs.recompute(pass.chunk).is_none()
}

/// The lane that a pass of `lane` gets its input from, if it is one.
#[inline]
pub(super) fn remote(compiled: &CompiledInstance, lane: usize) -> Option<usize> {
    let remote = compiled.lanes[lane].remote;
    (remote != NONE).then_some(remote as usize)
}
