//! Which workers are dead.

use std::collections::BTreeSet;

use rand::{RngExt, SeedableRng};
use rand_xoshiro::Xoshiro256PlusPlus;

use crate::error::{FailureError, count};
use crate::worker::Worker;

/// The most pipelines.
pub const MAX_PIPELINES: u64 = 4096;
/// The most workers of all pipelines.
pub const MAX_WORKERS: u64 = 1 << 16;

/// The dead workers of data-parallel pipelines. Every stage has a live worker left.
#[derive(Clone, PartialEq, Eq, PartialOrd, Ord, Hash, Debug)]
pub struct Dead {
    pipelines: u32,
    stages: u32,
    workers: BTreeSet<Worker>,
}

impl Dead {
    /// The dead `workers` of `pipelines` pipelines of `stages` stages each.
    pub fn new(pipelines: u64, stages: u64, workers: &[Worker]) -> Result<Self, FailureError> {
        let within = count("pipelines", pipelines, 1, MAX_PIPELINES)?;
        let most = MAX_WORKERS / within;
        let deep = count("stages of this number of pipelines", stages, 1, most)?;
        let [pipelines, stages] = [within, deep].map(|n| u32::try_from(n).unwrap_or(u32::MAX));
        let mut dead = Self { pipelines, stages, workers: BTreeSet::new() };
        for &worker in workers {
            if worker.pipeline >= pipelines || worker.stage >= stages {
                return Err(FailureError::NoWorker { worker, pipelines, stages });
            }
            if !dead.workers.insert(worker) {
                return Err(FailureError::Twice(worker));
            }
        }
        match (0..stages).find(|&stage| dead.live(stage).next().is_none()) {
            Some(stage) => Err(FailureError::StageLost { stage, pipelines }),
            None => Ok(dead),
        }
    }

    /// `lost` workers drawn by chance from those of `pipelines` pipelines of `stages` stages, so that every stage keeps
    /// one: the same for the same `seed` and number of the draw. None where no such set was found in a thousand.
    #[must_use]
    pub fn drawn(pipelines: u64, stages: u64, lost: u64, seed: u64, draw: u64) -> Option<Self> {
        const TRIES: usize = 1_000;
        let none = Self::new(pipelines, stages, &[]).ok()?;
        let all = pipelines.checked_mul(stages)?;
        let [all, lost] = [all, lost].map(|count| usize::try_from(count).unwrap_or(usize::MAX));
        if lost > all {
            return None;
        }
        let mut chance = Xoshiro256PlusPlus::seed_from_u64(seed.rotate_left(32) ^ draw);
        (0..TRIES).find_map(|_| {
            let of = |number: usize| {
                let number = u32::try_from(number).unwrap_or(u32::MAX);
                Worker { pipeline: number / none.stages, stage: number % none.stages }
            };
            let mut numbers = BTreeSet::new();
            while numbers.len() < lost {
                numbers.insert(chance.random_range(0..all));
            }
            let workers: Vec<Worker> = numbers.into_iter().map(of).collect();
            Self::new(pipelines, stages, &workers).ok()
        })
    }

    /// Number of pipelines.
    #[must_use]
    pub const fn pipelines(&self) -> u32 {
        self.pipelines
    }

    /// Number of stages of each.
    #[must_use]
    pub const fn stages(&self) -> u32 {
        self.stages
    }

    /// The dead workers, pipeline by pipeline.
    pub fn workers(&self) -> impl ExactSizeIterator<Item = Worker> {
        self.workers.iter().copied()
    }

    /// Whether `worker` is dead.
    #[must_use]
    pub fn has(&self, worker: Worker) -> bool {
        self.workers.contains(&worker)
    }

    /// The pipelines whose worker of `stage` lives.
    pub fn live(&self, stage: u32) -> impl Iterator<Item = u32> {
        (0..self.pipelines).filter(move |&pipeline| !self.has(Worker { pipeline, stage }))
    }

    /// The same dead workers with pipelines in an order that depends on their dead stages alone, the intact ones
    /// first, and the number that each has here: pipelines are alike, so that the step is the same.
    #[must_use]
    pub fn canonical(&self) -> (Self, Vec<u32>) {
        let mut names: Vec<u32> = (0..self.pipelines).collect();
        names.sort_by_cached_key(|&name| self.stages_of(name));
        (self.renumbered(&names), names)
    }

    /// The dead stages of a pipeline.
    fn stages_of(&self, pipeline: u32) -> Vec<u32> {
        let range = Worker { pipeline, stage: 0 }..Worker { pipeline: pipeline + 1, stage: 0 };
        self.workers.range(range).map(|worker| worker.stage).collect()
    }

    /// The same where pipeline k is the one that is called `names[k]` here.
    pub(crate) fn renumbered(&self, names: &[u32]) -> Self {
        let workers = (0u32..).zip(names).flat_map(|(pipeline, &name)| {
            self.stages_of(name).into_iter().map(move |stage| Worker { pipeline, stage })
        });
        Self { workers: workers.collect(), ..*self }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn worker(pipeline: u32, stage: u32) -> Worker {
        Worker { pipeline, stage }
    }

    #[test]
    fn dead_workers_are_checked() {
        let dead = Dead::new(3, 2, &[worker(0, 1), worker(2, 1)]).unwrap();
        assert_eq!(dead.live(1).collect::<Vec<_>>(), [1]);
        assert_eq!(dead.live(0).count(), 3);
        assert!(dead.has(worker(2, 1)) && !dead.has(worker(1, 1)));
        let refused = |workers: &[Worker]| Dead::new(3, 2, workers).unwrap_err().to_string();
        assert!(refused(&[worker(3, 0)]).contains("pipelines are 0 to 2"));
        assert!(refused(&[worker(0, 0), worker(0, 0)]).contains("named twice"));
        let all = [worker(0, 1), worker(1, 1), worker(2, 1)];
        assert!(refused(&all).contains("all 3 workers of stage 1"));
        assert!(Dead::new(0, 2, &[]).is_err() && Dead::new(1 << 40, 2, &[]).is_err());
        assert!(Dead::new(4096, 4096, &[]).is_err());
    }

    #[test]
    fn drawn_sets_leave_every_stage_a_worker() {
        for draw in 0..50 {
            let dead = Dead::drawn(3, 4, 5, 7, draw).unwrap();
            assert_eq!(dead.workers().len(), 5);
            assert!((0..4).all(|stage| dead.live(stage).count() > 0));
            assert_eq!(Dead::drawn(3, 4, 5, 7, draw), Some(dead));
        }
        assert_eq!(Dead::drawn(3, 4, 9, 0, 0), None);
        assert_eq!(Dead::drawn(3, 4, 13, 0, 0), None);
        assert_ne!(Dead::drawn(9, 4, 2, 0, 0), Dead::drawn(9, 4, 2, 0, 1));
    }

    #[test]
    fn pipelines_are_alike() {
        let one = Dead::new(4, 3, &[worker(3, 0), worker(1, 2), worker(1, 0)]).unwrap();
        let other = Dead::new(4, 3, &[worker(0, 2), worker(0, 0), worker(2, 0)]).unwrap();
        assert_ne!(one, other);
        let (canonical, names) = one.canonical();
        assert_eq!(canonical, other.canonical().0);
        assert_eq!(names, [0, 2, 3, 1]);
        assert_eq!(canonical.canonical(), (canonical, vec![0, 1, 2, 3]));
    }
}
