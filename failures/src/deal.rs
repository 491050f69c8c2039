//! Which live worker takes over the passes of a dead one.

use std::cmp::Reverse;
use std::collections::BinaryHeap;

use pipeline::Nanos;

use crate::dead::Dead;
use crate::worker::Worker;

/// How the microbatches of dead workers are dealt to the live workers of their stage.
#[derive(Clone, Copy, PartialEq, Eq, Default, Debug)]
pub enum Deal {
    /// Each to the worker with the least work so far, over all dead workers of the stage.
    #[default]
    Balanced,
    /// In turn, from the first worker again for each dead one.
    InTurn,
}

/// The pipeline whose worker runs the passes of a microbatch, stage by stage.
#[derive(Clone, PartialEq, Eq, Debug)]
pub(crate) struct Dealt {
    stages: usize,
    microbatches: usize,
    /// By pipeline, stage and microbatch.
    takers: Vec<u32>,
}

impl Dealt {
    /// Deals the microbatches of `dead` workers, each of which takes `work(stage, microbatch)`.
    pub(crate) fn new(
        dead: &Dead,
        microbatches: u32,
        deal: Deal,
        work: impl Fn(u32, u32) -> Nanos,
    ) -> Self {
        let [pipelines, stages] = [dead.pipelines() as usize, dead.stages() as usize];
        let microbatches = microbatches as usize;
        let own = (0..dead.pipelines())
            .flat_map(|pipeline| std::iter::repeat_n(pipeline, stages * microbatches));
        let takers = own.collect();
        let mut dealt = Self { stages, microbatches, takers };
        debug_assert_eq!(dealt.takers.len(), pipelines * stages * microbatches);
        for stage in 0..dead.stages() {
            dealt.stage(dead, stage, deal, &work);
        }
        dealt
    }

    fn stage(&mut self, dead: &Dead, stage: u32, deal: Deal, work: &impl Fn(u32, u32) -> Nanos) {
        let live: Vec<u32> = dead.live(stage).collect();
        let each = u32::try_from(self.microbatches).unwrap_or(u32::MAX);
        let own: u128 = (0..each).map(|one| u128::from(work(stage, one).0)).sum();
        let mut loads: BinaryHeap<Reverse<(u128, u32)>> =
            live.iter().map(|&peer| Reverse((own, peer))).collect();
        for lost in dead.workers().filter(|worker| worker.stage == stage) {
            for microbatch in 0..each {
                let turn = live[microbatch as usize % live.len()];
                let least = loads.peek().map_or(turn, |&Reverse((_, peer))| peer);
                let peer = match deal {
                    Deal::Balanced => least,
                    Deal::InTurn => turn,
                };
                if let Some(mut top) = loads.peek_mut() {
                    top.0.0 += u128::from(work(stage, microbatch).0);
                }
                let at = self.at(lost, microbatch);
                self.takers[at] = peer;
            }
        }
    }

    const fn at(&self, worker: Worker, microbatch: u32) -> usize {
        let row = worker.pipeline as usize * self.stages + worker.stage as usize;
        row * self.microbatches + microbatch as usize
    }

    /// The pipeline whose worker runs `microbatch` of `worker`: its own, unless it is dead.
    pub(crate) fn taker(&self, worker: Worker, microbatch: u32) -> u32 {
        self.takers[self.at(worker, microbatch)]
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn loads(deal: Deal, lost: &[(u32, u32)], microbatches: u32) -> Vec<usize> {
        let lost: Vec<Worker> =
            lost.iter().map(|&(pipeline, stage)| Worker { pipeline, stage }).collect();
        let dead = Dead::new(5, 2, &lost).unwrap();
        let dealt = Dealt::new(&dead, microbatches, deal, |_, _| Nanos(10));
        let taken = |taker| {
            let all = (0..5).flat_map(|pipeline| (0..microbatches).map(move |one| (pipeline, one)));
            all.filter(|&(pipeline, one)| dealt.taker(Worker { pipeline, stage: 1 }, one) == taker)
                .count()
        };
        (0..5).map(taken).collect()
    }

    #[test]
    fn microbatches_of_the_dead_go_to_live_peers() {
        assert_eq!(loads(Deal::Balanced, &[(2, 1)], 6), [8, 8, 0, 7, 7]);
        assert_eq!(loads(Deal::InTurn, &[(2, 1)], 6), [8, 8, 0, 7, 7]);
        // Of another stage: this one is as it was.
        assert_eq!(loads(Deal::Balanced, &[(2, 0)], 6), [6; 5]);
    }

    #[test]
    fn several_failures_of_a_stage_are_balanced() {
        assert_eq!(loads(Deal::InTurn, &[(2, 1), (4, 1)], 4), [8, 6, 0, 6, 0]);
        assert_eq!(loads(Deal::Balanced, &[(2, 1), (4, 1)], 4), [7, 7, 0, 6, 0]);
    }
}
