//! Times an order in many replicas at once. Which pass can run when does not depend on how long passes
//! take: the way through all stages is found once, and then followed in every replica.
// Passes are fewer than `MAX_PASSES_UNDER_NOISE`.
#![allow(clippy::cast_possible_truncation, clippy::cast_precision_loss)]

use super::draws::{BLOCK, Draws, Lot, remote};
use crate::compiled_instance::{CompiledInstance, NONE};

/// A pass on the way through all stages.
#[derive(Clone, Copy)]
struct Step {
    cell: u32,
    /// The pass of another lane whose end it waits for, or [`NONE`].
    input: u32,
    stage: u32,
    /// Whether it is the first of its stage.
    begins: bool,
}

/// Buffers for timing an order, allocated once and reused.
pub(super) struct Walk<'a> {
    compiled: &'a CompiledInstance,
    steps: Vec<Step>,
    /// By lane, how many of its passes are on the way.
    next: Vec<u32>,
    /// By stage, its place in its order.
    at: Vec<usize>,
    /// Stages that are ready to advance.
    ready: Vec<usize>,
    /// The end of every pass in each replica of the block timed last.
    pub(super) ends: Vec<Lot>,
    /// When each stage begins and ends in these replicas.
    first: Vec<Lot>,
    free: Vec<Lot>,
}

impl<'a> Walk<'a> {
    pub(super) fn new(compiled: &'a CompiledInstance) -> Self {
        let none = vec![[0.0; BLOCK]; compiled.stages];
        Self {
            compiled,
            steps: Vec::with_capacity(compiled.passes()),
            next: Vec::new(),
            at: Vec::new(),
            ready: Vec::new(),
            ends: vec![[0.0; BLOCK]; compiled.passes()],
            first: none.clone(),
            free: none,
        }
    }

    /// Finds the way through `order`, passes in their slots, stage by stage; whether there is one.
    pub(super) fn find(&mut self, order: &[u32]) -> bool {
        let compiled = self.compiled;
        let (each, columns) = (compiled.passes_per_stage(), compiled.microbatches);
        self.steps.clear();
        self.next.clear();
        self.next.resize(compiled.lanes.len(), 0);
        self.at.clear();
        self.at.resize(compiled.stages, 0);
        self.ready.clear();
        self.ready.extend((0..compiled.stages).rev());
        while let Some(stage) = self.ready.pop() {
            while self.at[stage] < each {
                let cell = order[stage * each + self.at[stage]];
                let (lane, number) = ((cell / columns) as usize, cell % columns);
                let one = &compiled.lanes[lane];
                if self.next[lane] != number
                    || (one.local != NONE && self.next[one.local as usize] <= number)
                {
                    return false;
                }
                let input = match remote(compiled, lane) {
                    Some(remote) if self.next[remote] <= number => break,
                    Some(remote) => remote as u32 * columns + number,
                    None => NONE,
                };
                self.next[lane] = number + 1;
                let begins = self.at[stage] == 0;
                self.at[stage] += 1;
                self.steps.push(Step { cell, input, stage: stage as u32, begins });
                if one.wakes != NONE {
                    self.ready.push(one.wakes as usize);
                }
            }
        }
        self.steps.len() == order.len()
    }

    /// Times the order whose way was found last in all replicas of `block`: how long its step takes in each.
    pub(super) fn time(&mut self, draws: &Draws<'_>, block: usize) -> Lot {
        self.free.fill([0.0; BLOCK]);
        for step in &self.steps {
            let free = &mut self.free[step.stage as usize];
            if step.input != NONE {
                draws.wait(block, step.cell, free, &self.ends[step.input as usize]);
            }
            if step.begins {
                self.first[step.stage as usize] = *free;
            }
            draws.run(block, step.cell, free);
            self.ends[step.cell as usize] = *free;
        }
        let mut cost = [0.0; BLOCK];
        for stage in 0..self.compiled.stages {
            for (at, cost) in cost.iter_mut().enumerate() {
                *cost = f64::max(*cost, self.length(stage, at));
            }
        }
        cost
    }

    /// Cost of `stage` under the objective, in replica number `at` of the block timed last.
    fn length(&self, stage: usize, at: usize) -> f64 {
        let begin = if self.compiled.makespan { 0.0 } else { self.first[stage][at] };
        self.free[stage][at] - begin
    }

    /// The slots of `order`, timed last, whose pass starts when that of the slot before ends, along the
    /// longest chain of passes in replica number `at`; `slots` says where each pass is.
    pub(super) fn joints(&self, order: &[u32], slots: &[u32], at: usize, joints: &mut Vec<u32>) {
        let compiled = self.compiled;
        let (each, columns) = (compiled.passes_per_stage(), compiled.microbatches);
        let length = |stage: &usize| self.length(*stage, at);
        let last = (0..compiled.stages).max_by(|a, b| length(a).total_cmp(&length(b)));
        let Some(last) = last else { return };
        let mut slot = (last + 1) * each - 1;
        // A pass that takes no time could lead back to itself.
        for _ in 0..order.len() {
            let cell = order[slot];
            let before =
                (!slot.is_multiple_of(each)).then(|| self.ends[order[slot - 1] as usize][at]);
            let input = remote(compiled, (cell / columns) as usize)
                .map(|lane| lane as u32 * columns + cell % columns);
            let arrives = input.map_or(f64::MIN, |input| {
                let hop = compiled.lanes[(cell / columns) as usize].hop;
                self.ends[input as usize][at] + hop as f64
            });
            match (before, input) {
                (None, None) => return,
                (Some(before), _) if before >= arrives => {
                    joints.push(slot as u32);
                    slot -= 1;
                }
                (_, Some(input)) => slot = slots[input as usize] as usize,
                (Some(_), None) => slot -= 1,
            }
        }
    }
}
