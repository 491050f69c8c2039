//! Local search under noise: passes are shifted within their stages, and every order is timed in the same
//! replicas. Few of them show most changes for the worse; the others are drawn on for what may be better.
// Rounding of times does not matter to a search.
#![allow(clippy::cast_precision_loss, clippy::cast_possible_truncation, clippy::cast_sign_loss)]

use super::Statistic;
use super::draws::{BLOCK, Draws, Lot};
use super::walk::Walk;
use crate::annealing::{self, Cooling, Tolerance, Walker};
use crate::chance::Chance;
use crate::compiled_instance::CompiledInstance;
use crate::local::{Change, Local};
use crate::timing::Clock;

/// After how many changes tried the longest chains are looked for again.
const LOOKED: u32 = 64;
/// In how many replicas they are looked for.
const CHAINS: usize = 6;

/// The energy of an order under the noise that is searched ([`Statistic::energy`]), and the lanes of each stage in
/// their order.
pub(super) type Timed = (f64, Vec<u16>);

/// Times orders in replicas of the noise.
pub(super) struct Timer<'a> {
    compiled: &'a CompiledInstance,
    draws: &'a Draws<'a>,
    statistic: Statistic,
    walk: Walk<'a>,
    clock: Clock,
    slots: Vec<u32>,
    joints: Vec<u32>,
    sorted: Vec<i64>,
}

impl<'a> Timer<'a> {
    pub(super) fn new(
        compiled: &'a CompiledInstance,
        draws: &'a Draws<'a>,
        statistic: Statistic,
    ) -> Self {
        Self {
            compiled,
            draws,
            statistic,
            walk: Walk::new(compiled),
            clock: Clock::default(),
            slots: vec![0; compiled.passes()],
            joints: Vec::new(),
            sorted: Vec::new(),
        }
    }

    /// The energy of `sequence`; nothing if its passes wait for each other or do not fit.
    pub(super) fn energy(&mut self, sequence: &[u16]) -> Option<f64> {
        self.time(sequence).map(|(_, blocks)| self.statistic.energy(&blocks, &mut self.sorted))
    }

    /// The order that `sequence` stands for, timed in all blocks of replicas.
    fn time(&mut self, sequence: &[u16]) -> Option<(Local<'a>, Vec<Lot>)> {
        let local = Local::new(self.compiled, sequence, &mut self.clock)?;
        let found = self.walk.find(local.order());
        let blocks = 0..self.draws.blocks();
        found.then(|| (local, blocks.map(|block| self.walk.time(self.draws, block)).collect()))
    }

    /// Simulated annealing from `start`; the best order met, and the passes timed in blocks of replicas.
    pub(super) fn anneal(
        &mut self,
        start: &Timed,
        chance: &mut Chance,
        cooling: Cooling,
        stop: &dyn Fn() -> bool,
    ) -> (Timed, u64) {
        let mut best = start.clone();
        let Some((local, now)) = self.time(&start.1) else { return (best, 1) };
        let energy = self.statistic.energy(&now, &mut self.sorted);
        let new = now.clone();
        let mut noisy = Noisy { timer: self, local, now, new, energy, steps: 0, tried: 0 };
        annealing::anneal(&mut noisy, (chance, cooling), &mut best, stop);
        (best, noisy.steps)
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
    fn look(&mut self, order: &[u32], now: &[Lot], chance: &mut Chance) -> u64 {
        if !self.walk.find(order) {
            return 0;
        }
        let block = chance.below(now.len());
        let _ = self.walk.time(self.draws, block);
        for (slot, &cell) in order.iter().enumerate() {
            self.slots[cell as usize] = slot as u32;
        }
        let mut replicas: Vec<usize> = (0..BLOCK).collect();
        replicas.sort_by(|&a, &b| now[block][b].total_cmp(&now[block][a]));
        let counted = self.statistic.counted(BLOCK);
        self.joints.clear();
        for _ in 0..CHAINS {
            let at = replicas[chance.below(counted)];
            self.walk.joints(order, &self.slots, at, &mut self.joints);
        }
        2 * order.len() as u64
    }
}

/// An order under annealing by its times in all replicas.
struct Noisy<'t, 'a> {
    timer: &'t mut Timer<'a>,
    local: Local<'a>,
    /// The times of the order, in blocks of replicas, and those of the order that is evaluated.
    now: Vec<Lot>,
    new: Vec<Lot>,
    energy: f64,
    steps: u64,
    tried: u32,
}

impl Walker for Noisy<'_, '_> {
    type Value = f64;
    type Order = Vec<u16>;
    type Change = Change;

    fn value(&self) -> f64 {
        self.energy
    }

    fn export(&self, into: &mut Vec<u16>) {
        self.local.sequence(into);
    }

    fn spent(&self) -> u64 {
        self.steps
    }

    /// Mostly of two neighbours on a longest chain, past each other.
    fn propose(&mut self, chance: &mut Chance) -> Option<Change> {
        if self.tried.is_multiple_of(LOOKED) {
            self.steps += self.timer.look(self.local.order(), &self.now, chance);
        }
        self.tried += 1;
        self.steps += 2;
        let far = annealing::draw_distance(chance);
        let back = chance.below(2) == 0;
        let slots = self.local.order().len();
        let (slot, is_joint) = annealing::draw_slot(chance, slots, &self.timer.joints);
        let from = slot - usize::from(is_joint && !back);
        let to = self.local.reach(from, far, back);
        if from == to { None } else { self.local.apply(from, to) }
    }

    fn takes(&mut self, _: &Change, tolerance: Tolerance<'_>) -> bool {
        let most = self.energy + tolerance.draw();
        if !self.timer.walk.find(self.local.order()) {
            return false;
        }
        let (better, blocks) = self.timer.is_taken(&self.now, &mut self.new, most);
        self.steps += self.local.order().len() as u64 * blocks;
        if let Some(energy) = better {
            self.energy = energy;
            std::mem::swap(&mut self.now, &mut self.new);
        }
        better.is_some()
    }

    fn undo(&mut self, change: Change) {
        self.local.take_back(&change);
    }
}
