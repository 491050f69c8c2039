//! Local search under noise: passes are shifted within their stages, and every order is timed in the same
//! replicas. Few of them show most changes for the worse; the others are drawn on for what may be better.
// Rounding of times does not matter to a search.
#![allow(clippy::cast_precision_loss, clippy::cast_possible_truncation, clippy::cast_sign_loss)]

use super::Statistic;
use super::draws::{BLOCK, Draws, Lot};
use super::walk::Walk;
use crate::chance::Chance;
use crate::compiled_instance::CompiledInstance;
use crate::local::Local;
use crate::timing::Clock;

/// After how many changes tried the longest chains are looked for again.
const LOOKED: u32 = 64;
/// In how many replicas they are looked for.
const CHAINS: usize = 6;

/// An order with what it costs under the noise that is searched.
#[derive(Clone, Debug)]
pub(super) struct Timed {
    /// The statistic of the objective, smoothed: see [`Statistic::energy`].
    pub(super) energy: f64,
    /// The lanes of each stage in their order.
    pub(super) sequence: Vec<u16>,
}

/// How a chain cools down: temperatures in nanoseconds, and the steps it may take.
#[derive(Clone, Copy)]
pub(super) struct Cooling {
    pub(super) hot: f64,
    pub(super) cold: f64,
    pub(super) steps: u64,
}

impl Cooling {
    fn temperature(&self, done: u64) -> f64 {
        let part = done as f64 / self.steps.max(1) as f64;
        self.hot * (self.cold / self.hot).powf(part)
    }
}

/// A chain of changes.
pub(super) struct Chain<'a> {
    compiled: &'a CompiledInstance,
    draws: &'a Draws<'a>,
    statistic: Statistic,
    chance: Chance,
    walk: Walk<'a>,
    clock: Clock,
    slots: Vec<u32>,
    joints: Vec<u32>,
    sorted: Vec<i64>,
}

impl<'a> Chain<'a> {
    pub(super) fn new(
        compiled: &'a CompiledInstance,
        draws: &'a Draws<'a>,
        statistic: Statistic,
        chance: Chance,
    ) -> Self {
        Self {
            compiled,
            draws,
            statistic,
            chance,
            walk: Walk::new(compiled),
            clock: Clock::default(),
            slots: vec![0; compiled.passes()],
            joints: Vec::new(),
            sorted: Vec::new(),
        }
    }

    /// The energy of `sequence`; nothing if its passes wait for each other or do not fit.
    pub(super) fn energy(&mut self, sequence: &[u16]) -> Option<f64> {
        let local = Local::new(self.compiled, sequence, &mut self.clock)?;
        let found = self.walk.find(local.order());
        let blocks: Vec<Lot> =
            (0..self.draws.blocks()).map(|block| self.walk.time(self.draws, block)).collect();
        found.then(|| self.statistic.energy(&blocks, &mut self.sorted))
    }

    /// Simulated annealing from `start`; the best order met, and the passes timed in blocks of replicas.
    pub(super) fn anneal(
        &mut self,
        start: &Timed,
        cooling: Cooling,
        stop: &(dyn Fn() -> bool + Sync),
    ) -> (Timed, u64) {
        let mut best = start.clone();
        let Some(mut local) = Local::new(self.compiled, &start.sequence, &mut self.clock) else {
            return (best, 1);
        };
        let passes = self.compiled.passes() as u64;
        let (mut now, mut steps, mut tried) = (Vec::new(), 0, 0u32);
        if !self.walk.find(local.order()) {
            return (best, 1);
        }
        for block in 0..self.draws.blocks() {
            now.push(self.walk.time(self.draws, block));
        }
        let mut energy = self.statistic.energy(&now, &mut self.sorted);
        let mut new = now.clone();
        while steps < cooling.steps && !stop() {
            if tried.is_multiple_of(LOOKED) {
                steps += self.look(local.order(), &now);
            }
            tried += 1;
            steps += 2;
            let (from, to) = self.draw(&local);
            if from == to {
                continue;
            }
            let Some(change) = local.apply(from, to) else { continue };
            let more = self.chance.worse(cooling.temperature(steps));
            let kept = self.walk.find(local.order()) && {
                let (better, spent) = self.is_taken(&now, &mut new, energy + more);
                steps += passes * spent;
                better.inspect(|&better| energy = better).is_some()
            };
            if !kept {
                local.undo(&change);
                continue;
            }
            std::mem::swap(&mut now, &mut new);
            if energy < best.energy {
                best.energy = energy;
                local.sequence(&mut best.sequence);
            }
        }
        (best, steps)
    }

    /// Times the order whose way was found last block by block: its energy if that is at most `most`, and how
    /// many blocks it took to know.
    fn is_taken(&mut self, now: &[Lot], new: &mut [Lot], most: f64) -> (Option<f64>, u64) {
        for block in 0..new.len() {
            new[block] = self.walk.time(self.draws, block);
            let is_last = block + 1 == new.len();
            if !is_last {
                // An order worse than the temperature allows in the replicas so far rarely recovers in the rest.
                let before = self.statistic.energy(&now[..=block], &mut self.sorted);
                let after = self.statistic.energy(&new[..=block], &mut self.sorted);
                let all = self.statistic.energy(now, &mut self.sorted);
                if after - before > most - all {
                    return (None, block as u64 + 1);
                }
            }
        }
        let energy = self.statistic.energy(new, &mut self.sorted);
        ((energy <= most).then_some(energy), new.len() as u64)
    }

    /// Looks for joints of the longest chains of `order` in some replicas that count.
    fn look(&mut self, order: &[u32], now: &[Lot]) -> u64 {
        if !self.walk.find(order) {
            return 0;
        }
        let block = self.chance.below(now.len());
        let _ = self.walk.time(self.draws, block);
        for (slot, &cell) in order.iter().enumerate() {
            self.slots[cell as usize] = slot as u32;
        }
        let mut replicas: Vec<usize> = (0..BLOCK).collect();
        replicas.sort_by_key(|&at| std::cmp::Reverse(now[block][at]));
        let counted = self.statistic.counted(BLOCK);
        self.joints.clear();
        for _ in 0..CHAINS {
            let at = replicas[self.chance.below(counted)];
            self.walk.joints(order, &self.slots, at, &mut self.joints);
        }
        2 * order.len() as u64
    }

    /// Draws a move, as a pair of slots: mostly of two neighbours on a longest chain, past each other.
    fn draw(&mut self, local: &Local<'_>) -> (usize, usize) {
        const FAR: [usize; 8] = [1, 1, 1, 2, 3, 5, 9, 17];
        let most = FAR[self.chance.below(FAR.len())];
        let far = 1 + self.chance.below(most);
        let back = self.chance.below(2) == 0;
        let from = match self.chance.below(4) {
            0 => self.chance.below(local.order().len()),
            _ if self.joints.is_empty() => self.chance.below(local.order().len()),
            _ => {
                let slot = self.joints[self.chance.below(self.joints.len())] as usize;
                slot - usize::from(!back)
            }
        };
        (from, local.reach(from, far, back))
    }
}
