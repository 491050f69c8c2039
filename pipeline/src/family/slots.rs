//! Orders read off a grid of slots of equal length.

use crate::order::Order;
use crate::pass::Pass;

/// The passes in the order of the slots they are due at. They come as runs of ascending slots, few
/// per stage, so that sorting them is merging: linear in the passes.
pub(super) fn order(due: impl Iterator<Item = (u64, Pass)>) -> Order {
    let mut due: Vec<(u64, Pass)> = due.collect();
    due.sort_by_key(|&(slot, _)| slot);
    due.into_iter().map(|(_, pass)| pass).collect()
}
