//! Statistics over many minibatches.

use pipeline::Nanos;
use rayon::prelude::*;

use crate::cost::CostModel;
use crate::error::{FsdpError, count};
use crate::lengths::Lengths;
use crate::packing::{Method, Packing};
use crate::step::{Communication, Machine, bubble_rate};

/// The most minibatches of a study.
pub const MAX_MINIBATCHES: u64 = 10_000_000;

/// Number of minibatches that are answered before the next error is looked for.
const BLOCK: u64 = 1_024;

/// A way to pack and to communicate.
#[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Debug)]
pub struct Way {
    /// How samples are packed.
    pub method: Method,
    /// How parameters travel.
    pub communication: Communication,
}

/// Many minibatches on one machine.
#[derive(Clone, Debug)]
pub struct Study {
    /// The devices that run the minibatches.
    pub machine: Machine,
    /// How long samples are.
    pub lengths: Lengths,
    /// The cost of a sample.
    pub model: CostModel,
    /// Samples of a minibatch per device.
    pub minibatch: u64,
    /// The most tokens of a microbatch.
    pub limit: u64,
    /// Number of minibatches.
    pub minibatches: u64,
    /// The seed of the lengths.
    pub seed: u64,
}

/// Sums over all minibatches: whole numbers, so that their order does not matter.
#[derive(Clone, Copy, PartialEq, Eq, Default, Debug)]
pub struct Tally {
    /// Number of minibatches.
    pub minibatches: u64,
    pub devices: u64,
    /// Tokens of all samples.
    pub tokens: u128,
    /// Microbatches of all devices.
    pub microbatches: u128,
    /// Step times, in nanoseconds.
    pub time: u128,
    /// The longest step.
    pub longest: Nanos,
    /// The compute time of all devices together, in nanoseconds.
    pub busy: u128,
}

impl Tally {
    /// Mean step time, rounded down.
    #[must_use]
    pub fn step(&self) -> Nanos {
        nanos(self.time / u128::from(self.minibatches.max(1)))
    }

    /// Mean time per step in which the average device waits, rounded down.
    #[must_use]
    pub fn idle(&self) -> Nanos {
        let devices = u128::from(self.devices.max(1));
        let idle = (self.time * devices).saturating_sub(self.busy);
        nanos(idle / devices / u128::from(self.minibatches.max(1)))
    }

    /// Share of all steps in which the average device waits.
    #[must_use]
    pub fn bubble_rate(&self) -> f64 {
        bubble_rate(self.busy, self.time * u128::from(self.devices))
    }

    /// Microbatches of the average device and minibatch.
    #[must_use]
    #[allow(clippy::cast_precision_loss)]
    pub fn microbatches_per_device(&self) -> f64 {
        let shares = u128::from(self.minibatches.max(1)) * u128::from(self.devices.max(1));
        self.microbatches as f64 / shares as f64
    }

    /// How many times as fast as `other` the same minibatches are; 0 if they take no time.
    #[must_use]
    #[allow(clippy::cast_precision_loss)]
    pub fn speedup_over(&self, other: &Self) -> f64 {
        if self.time == 0 { 0.0 } else { other.time as f64 / self.time as f64 }
    }

    /// Adds the minibatches of `other`, on as many devices.
    pub fn add(&mut self, other: &Self) {
        self.minibatches += other.minibatches;
        self.devices = other.devices;
        self.tokens += other.tokens;
        self.microbatches += other.microbatches;
        self.time += other.time;
        self.longest = self.longest.max(other.longest);
        self.busy += other.busy;
    }
}

fn nanos(nanos: u128) -> Nanos {
    Nanos(u64::try_from(nanos).unwrap_or(u64::MAX))
}

impl Study {
    /// Runs all minibatches in each of `ways`, all on the same samples; `done` is called after each
    /// minibatch.
    pub fn run(&self, ways: &[Way], done: impl Fn() + Sync) -> Result<Vec<Tally>, FsdpError> {
        self.run_until(ways, done, || false)
    }

    /// The same until `stop` says so: of the minibatches that were run by then, and of the first
    /// always. All ways have the same ones.
    pub fn run_until(
        &self,
        ways: &[Way],
        done: impl Fn() + Sync,
        stop: impl Fn() -> bool + Sync,
    ) -> Result<Vec<Tally>, FsdpError> {
        count("minibatches", self.minibatches, 1, MAX_MINIBATCHES)?;
        let mut tallies = vec![Tally::default(); ways.len()];
        let mut first = 0;
        while first < self.minibatches {
            let block = first..(first + BLOCK).min(self.minibatches);
            first = block.end;
            let answers: Vec<Result<Vec<Tally>, FsdpError>> = block
                .into_par_iter()
                .filter(|minibatch| *minibatch == 0 || !stop())
                .map(|minibatch| {
                    let answer = self.minibatch(minibatch, ways);
                    done();
                    answer
                })
                .collect();
            for answer in answers {
                for (tally, one) in tallies.iter_mut().zip(&answer?) {
                    tally.add(one);
                }
            }
        }
        Ok(tallies)
    }

    /// The lengths of the samples of minibatch number `minibatch`.
    pub fn samples(&self, minibatch: u64) -> Result<Vec<u32>, FsdpError> {
        let devices = self.machine.devices() as u64;
        let most = crate::packing::MAX_SAMPLES / devices;
        count("the minibatch size, in samples per device,", self.minibatch, 1, most)?;
        let samples = usize::try_from(self.minibatch * devices).unwrap_or(usize::MAX);
        Ok(self.lengths.draw(self.seed, minibatch, samples))
    }

    /// The packing of `method` for samples of `lengths`, and how long each of them takes.
    pub fn packing(
        &self,
        method: Method,
        lengths: &[u32],
    ) -> Result<(Packing, Vec<Nanos>), FsdpError> {
        let packing =
            Packing::new(method, lengths, self.machine.devices(), self.limit, self.model)?;
        let times = lengths.iter().map(|&length| self.model.time(length));
        Ok((packing, times.collect::<Result<_, _>>()?))
    }

    fn minibatch(&self, minibatch: u64, ways: &[Way]) -> Result<Vec<Tally>, FsdpError> {
        let lengths = self.samples(minibatch)?;
        let tokens = lengths.iter().map(|&length| u128::from(length)).sum();
        let mut planned: Vec<(Packing, Vec<Nanos>)> = Vec::new();
        let answer = |way: &Way| {
            let known = planned.iter().position(|(packing, _)| packing.method() == way.method);
            let place = known.unwrap_or(planned.len());
            if known.is_none() {
                planned.push(self.packing(way.method, &lengths)?);
            }
            let (packing, times) = &planned[place];
            let step = self.machine.step(packing, times, way.communication, minibatch)?;
            let microbatches = packing.devices().iter().map(|device| device.len() as u128).sum();
            Ok(Tally {
                minibatches: 1,
                devices: self.machine.devices() as u64,
                tokens,
                microbatches,
                time: u128::from(step.time.0),
                longest: step.time,
                busy: step.total_busy(),
            })
        };
        ways.iter().map(answer).collect()
    }
}
