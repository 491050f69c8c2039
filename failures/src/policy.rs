//! What policies leave of the throughput of a training whose workers die and are repaired.
//!
//! Workers die independently and by chance at any time (exponential times between failures), and each is back
//! after a repair of a mean length (exponential too). All times in seconds.

use plan::Failures;

use crate::chain::{shares, survival};
use crate::error::FailureError;

/// The most workers that are dead at a time in the mean.
const MOST_DEAD: f64 = 12.0;
/// States that are less often than this are left out.
const RARE: f64 = 1e-9;
/// The most states.
const STATES: usize = 64;

/// How workers fail and come back. Times in seconds.
#[derive(Clone, Copy, PartialEq, Debug)]
pub struct Rates {
    /// Mean time between failures of any of all workers.
    pub between: f64,
    /// Mean time until a dead worker is back or replaced.
    pub repair: f64,
    /// Time from a failure until the others go on: detection, new groups of collectives. The same when a worker
    /// comes back, which gets its weights from a peer.
    pub reconfigure: f64,
    /// Time to start all workers again, from a checkpoint.
    pub restart: f64,
    /// Time to write a checkpoint.
    pub checkpoint: f64,
    /// Time between two checkpoints; that which loses least (Daly 2006) unless given.
    pub interval: Option<f64>,
    /// Spare workers that run nothing until one of the others dies.
    pub spares: u32,
}

/// A policy in the long run.
#[derive(Clone, PartialEq, Debug)]
pub struct Goodput {
    /// Useful steps per second.
    pub steps_per_second: f64,
    /// Workers that are paid for: all, and spares.
    pub workers: u64,
    /// The share of the time in which the job computes with each number of dead workers, or of pipelines that
    /// are left out, from 0; of waiting for spares, of broken machines.
    pub states: Vec<f64>,
    /// The share of the time that goes to restarts, new groups, checkpoints and work that is done again.
    pub overhead: f64,
    /// The share of the time in which nothing can be computed, because a stage has no live worker, no pipeline
    /// is left, or no spare is there.
    pub stopped: f64,
}

/// Policies, and what they need to know.
#[derive(Clone, Copy, Debug)]
pub struct Policy {
    pub pipelines: u32,
    /// Stages of each.
    pub stages: u32,
    /// How workers fail.
    pub rates: Rates,
}

impl Policy {
    /// Checks that times are in range and that dead workers do not pile up.
    pub fn check(&self) -> Result<(), FailureError> {
        let Rates { between, repair, reconfigure, restart, checkpoint, interval, .. } = self.rates;
        let positive = [("the time between failures", between), ("the repair", repair)];
        let apart = interval.map(|time| ("the time between checkpoints", time));
        for (what, given) in positive.into_iter().chain(apart) {
            if !(given > 0.0 && given < 1e12) {
                return Err(FailureError::Time { what, given, range: "above 0 s" });
            }
        }
        let others = [
            ("a reconfiguration", reconfigure),
            ("a restart", restart),
            ("a checkpoint", checkpoint),
        ];
        for (what, given) in others {
            if !(given >= 0.0 && given < between) {
                return Err(FailureError::Time {
                    what,
                    given,
                    range: "less than the time between failures",
                });
            }
        }
        let expected = repair / between;
        match expected <= MOST_DEAD {
            true => Ok(()),
            false => Err(FailureError::PileUp { expected, most: MOST_DEAD }),
        }
    }

    fn workers(&self) -> u64 {
        u64::from(self.pipelines) * u64::from(self.stages)
    }

    /// How many numbers of dead workers, 0 among them, make up all but `rare` of the time: for so many
    /// [`Self::rerouting`] needs a step of its own.
    #[must_use]
    pub fn common(&self, rare: f64) -> usize {
        let shares = self.dead();
        let mut left = 1.0;
        let enough = shares.iter().position(|share| {
            left -= share;
            left <= rare
        });
        enough.map_or(shares.len(), |at| at + 1)
    }

    /// How many numbers of dead workers are common enough to count, 0 among them.
    fn states(&self) -> usize {
        let shares = self.dead();
        shares.iter().rposition(|&share| share > RARE).unwrap_or(0) + 1
    }

    /// About the share of the time with each number of dead workers: by a Poisson law that is cut off.
    fn dead(&self) -> Vec<f64> {
        let load = self.rates.repair / self.rates.between;
        let most = usize::try_from(self.workers()).unwrap_or(STATES).min(STATES - 1);
        let up = vec![load; most];
        let down: Vec<f64> = (0..most).map(|state| (state + 1) as f64).collect();
        shares(&up, &down)
    }

    /// Rerouting: peers run the passes of the dead. `steps[k]` is the mean step in seconds over sets of k dead
    /// workers that leave every stage one; the last one stands for more.
    ///
    /// With more dead the job still runs unless a stage has lost all of its workers; then it stops until one is
    /// back. A failure costs a reconfiguration and, in the mean, half of a step; a worker that comes back costs
    /// a reconfiguration.
    #[must_use]
    pub fn rerouting(&self, steps: &[f64]) -> Goodput {
        let states = self.states();
        let Rates { between, repair, reconfigure, .. } = self.rates;
        let workers = self.workers() as f64;
        let live = |dead: usize| (workers - dead as f64).max(0.0) / workers;
        let up: Vec<f64> = (1..states).map(|dead| live(dead - 1) / between).collect();
        let down: Vec<f64> = (1..states).map(|dead| dead as f64 / repair).collect();
        let runs = survival(self.pipelines, self.stages, states - 1);
        let step = |dead: usize| steps.get(dead).or(steps.last()).copied().unwrap_or(f64::INFINITY);
        let chain = Chain { up, down, runs, reconfigure };
        chain.goodput(step, self.workers())
    }

    /// Leaving whole pipelines out: one with a dead worker waits for its repair, and the others take its
    /// microbatches. `steps[k]` is the step in seconds with k pipelines left out.
    ///
    /// Workers of a pipeline that waits do not fail. Costs as of [`Self::rerouting`].
    #[must_use]
    pub fn dropping(&self, steps: &[f64]) -> Goodput {
        let pipelines = f64::from(self.pipelines);
        let Rates { between, repair, reconfigure, .. } = self.rates;
        let most = (self.pipelines as usize).min(self.states());
        let up: Vec<f64> =
            (0..most).map(|out| (pipelines - out as f64) / pipelines / between).collect();
        let down: Vec<f64> = (0..most).map(|out| (out + 1) as f64 / repair).collect();
        let runs =
            (0..=most).map(|out| if out < self.pipelines as usize { 1.0 } else { 0.0 }).collect();
        let step = |out: usize| steps.get(out).or(steps.last()).copied().unwrap_or(f64::INFINITY);
        Chain { up, down, runs, reconfigure }.goodput(step, self.workers())
    }

    /// Waiting for spares: every failure stops all workers until a spare is in the place of the dead one, and
    /// all go on from the last checkpoint. Where no spare is left, the job waits for a repair.
    ///
    /// Checkpoints, restarts and work done again by Daly 2006, equation 20; waits beside it.
    #[must_use]
    pub fn waiting(&self, step: f64) -> Goodput {
        let Rates { between, repair, restart, checkpoint, interval, spares, .. } = self.rates;
        let states = spares as usize + 2;
        let up = vec![1.0 / between; states - 1];
        let down: Vec<f64> = (1..states).map(|broken| broken as f64 / repair).collect();
        let shares = shares(&up, &down);
        let failures = Failures { between, checkpoint, restart };
        let useful = failures.goodput_at(interval.unwrap_or_else(|| failures.interval()));
        let stopped = shares[states - 1];
        Goodput {
            steps_per_second: (1.0 - stopped) * useful / step,
            workers: self.workers() + u64::from(spares),
            states: shares[..states - 1].to_vec(),
            overhead: (1.0 - stopped) * (1.0 - useful),
            stopped,
        }
    }
}

/// A job that goes on with fewer workers.
struct Chain {
    up: Vec<f64>,
    down: Vec<f64>,
    /// The probability that the job runs in each state.
    runs: Vec<f64>,
    reconfigure: f64,
}

impl Chain {
    /// The goodput where a step takes `step(state)`. The clock of failures and repairs stands still during
    /// reconfigurations, which are short beside both.
    fn goodput(&self, step: impl Fn(usize) -> f64, workers: u64) -> Goodput {
        let shares = shares(&self.up, &self.down);
        let mut rate = 0.0;
        let mut lost = 0.0;
        let mut stopped = 0.0;
        for (state, share) in shares.iter().enumerate() {
            let runs = share * self.runs.get(state).copied().unwrap_or(0.0);
            stopped += share - runs;
            let up = self.up.get(state).copied().unwrap_or(0.0);
            let down = state.checked_sub(1).map_or(0.0, |at| self.down[at]);
            lost += share * (up + down) * self.reconfigure;
            if runs > 0.0 {
                rate += runs / step(state);
                lost += runs * up * step(state) / 2.0;
            }
        }
        let all = 1.0 + lost;
        Goodput {
            steps_per_second: rate / all,
            workers,
            states: shares.iter().map(|share| share / all).collect(),
            overhead: lost / all,
            stopped: stopped / all,
        }
    }
}

/// The probability that `dead` workers chosen by chance of `pipelines` pipelines leave every stage a live one.
#[must_use]
pub fn borne(pipelines: u32, stages: u32, dead: u32) -> f64 {
    survival(pipelines, stages, dead as usize).last().copied().unwrap_or(0.0)
}
