//! Small changes of an order of slots: a slot elsewhere, two passes as a pair, a pair apart, a W taken
//! from its backward and given back.

// Rounding of times does not matter to a search.
#![allow(clippy::cast_precision_loss)]

use super::slots::{Clock, Doing, Slots, Table};
use crate::annealing::{Tolerance, Walker, draw_distance};
use crate::chance::Chance;
use crate::timing::Score;

/// An order of slots under annealing. Every change is timed from scratch.
pub(super) struct Pairs<'a> {
    table: &'a Table,
    clock: &'a mut Clock,
    /// The slots timed before.
    begin: u64,
    score: Score,
    slots: Slots,
    goal: i64,
    weight: f64,
}

impl<'a> Pairs<'a> {
    /// Begins at slots of that score. It is done at a cost of `goal`; `weight` is that of the mean stage beside the
    /// worst.
    pub(super) fn new(
        table: &'a Table,
        clock: &'a mut Clock,
        (score, slots): (Score, Slots),
        (goal, weight): (i64, f64),
    ) -> Self {
        Self { table, begin: clock.steps, clock, score, slots, goal, weight }
    }

    fn energy(&self, score: Score) -> f64 {
        score.cost as f64 + self.weight * score.sum as f64 / self.table.compiled.stages as f64
    }
}

impl Walker for Pairs<'_> {
    type Value = Score;
    type Order = Slots;
    /// A stage, with its slots as they were.
    type Change = (usize, Vec<Doing>);
    /// A millisecond.
    const ASKED: u64 = 100_000;

    fn value(&self) -> Score {
        self.score
    }

    fn export(&self, into: &mut Slots) {
        into.clone_from(&self.slots);
    }

    fn spent(&self) -> u64 {
        self.clock.steps - self.begin
    }

    fn propose(&mut self, chance: &mut Chance) -> Option<Self::Change> {
        let change = change(&mut self.slots, chance);
        self.clock.steps += u64::from(change.is_none());
        change
    }

    fn takes(&mut self, _: &Self::Change, tolerance: Tolerance<'_>) -> bool {
        self.clock.steps += 1;
        let score = self.clock.time(self.table, &self.slots);
        let more = |score| self.energy(score) - self.energy(self.score);
        let taken = score.filter(|&score| more(score) <= tolerance.draw());
        self.score = taken.unwrap_or(self.score);
        taken.is_some()
    }

    fn undo(&mut self, (stage, old): Self::Change) {
        self.slots[stage] = old;
    }

    fn is_done(&self) -> bool {
        self.score.cost <= self.goal
    }
}

/// Changes the slots of one stage at random. Gives the stage with its slots as they were, or nothing if
/// nothing was changed. Whether the order still runs is for the clock to say.
pub(super) fn change(slots: &mut Slots, chance: &mut Chance) -> Option<(usize, Vec<Doing>)> {
    let stage = chance.below(slots.len());
    let old = slots[stage].clone();
    let order = &mut slots[stage];
    let at = chance.below(order.len());
    let far = draw_distance(chance);
    let to = if chance.below(2) == 0 { at.saturating_sub(far) } else { at + far };
    let to = to.min(order.len().saturating_sub(1));
    let done = match chance.below(8) {
        0..=2 => shift(order, at, to),
        3..=5 => hand_over(order, at, to),
        6 => part(order, at, chance),
        _ => weight(order, at, to),
    };
    done.filter(|()| *order != old).map(|()| (stage, old))
}

/// Moves a slot.
fn shift(order: &mut Vec<Doing>, at: usize, to: usize) -> Option<()> {
    let one = order.get(at).copied()?;
    order.remove(at);
    order.insert(to, one);
    Some(())
}

/// Swaps the forwards of two slots, which forms a pair, splits one, or exchanges the forwards of two pairs.
fn hand_over(order: &mut Vec<Doing>, at: usize, to: usize) -> Option<()> {
    let (one, other) = (order.get(at).copied()?, order.get(to).copied()?);
    // Beside a W there is no forward.
    let takes = |slot: Doing, forward: Option<u8>| {
        forward.is_none() || slot.backward.is_some() || slot.weight.is_none()
    };
    if !takes(one, other.forward) || !takes(other, one.forward) {
        return None;
    }
    order[at].forward = other.forward;
    order[to].forward = one.forward;
    order.retain(|slot| !slot.is_empty());
    Some(())
}

/// Takes a pair apart.
fn part(order: &mut Vec<Doing>, at: usize, chance: &mut Chance) -> Option<()> {
    let pair = order.get(at).copied().filter(|one| one.backward.is_some())?;
    let forward = pair.forward?;
    order[at].forward = None;
    order.insert(at + chance.below(2), Doing::f(forward));
    Some(())
}

/// Takes W from a whole backward, to `to`, or gives it back to its B.
fn weight(order: &mut Vec<Doing>, at: usize, to: usize) -> Option<()> {
    let one = order.get(at).copied()?;
    let chunk = one.weight?;
    if one.backward.is_some() {
        order[at].weight = None;
        order.insert(to.max(at + 1), Doing::w(chunk));
        return Some(());
    }
    let number = order[..at].iter().filter(|slot| slot.weight == Some(chunk)).count();
    let mut backwards = order.iter().enumerate().filter(|(_, slot)| slot.backward == Some(chunk));
    let (own, slot) = backwards.nth(number)?;
    if slot.weight.is_some() {
        return None;
    }
    order[own].weight = Some(chunk);
    order.remove(at);
    Some(())
}
