//! Small changes of an order of slots: a slot elsewhere, two passes as a pair, a pair apart, a W taken
//! from its backward and given back.

use super::slots::{Doing, Slots};
use crate::chance::Chance;

/// How far a pass is moved at most.
const FAR: [usize; 8] = [1, 1, 1, 2, 3, 5, 9, 17];

/// Changes the slots of one stage at random. Gives the stage with its slots as they were, or nothing if
/// nothing was changed. Whether the order still runs is for the clock to say.
pub(super) fn change(slots: &mut Slots, chance: &mut Chance) -> Option<(usize, Vec<Doing>)> {
    let stage = chance.below(slots.len());
    let old = slots[stage].clone();
    let order = &mut slots[stage];
    let at = chance.below(order.len());
    let far = FAR[chance.below(FAR.len())];
    let far = 1 + chance.below(far);
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
