//! Kinds of pairs of an order whose passes are chains of segments, with their durations.

use std::collections::{BTreeMap, BTreeSet};
use std::sync::Arc;

use pipeline::overlap::Composition;
use pipeline::{Kind, Nanos, Slot};
use question::object;
use serde::Serialize;

use cases::Case;

/// Pairs of a forward of like chunks with a backward of like chunks, or such backwards alone where they
/// hide their communication behind their own W.
#[derive(Clone, Debug)]
pub struct PairKind {
    /// The chunks of the forwards; none for backwards without a partner.
    pub forward: BTreeSet<u16>,
    /// The chunks of the backwards.
    pub backward: BTreeSet<u16>,
    /// BW rather than B.
    pub is_whole: bool,
    /// How many there are in a step.
    pub count: u64,
    /// How long their passes take one after the other.
    pub apart: Nanos,
    /// Their joint duration, and the time of each segment.
    pub composition: Arc<Composition>,
}

/// The kinds of pairs in the order of `case`, by the chains of their chunks; nothing where passes have no
/// segments.
#[must_use]
pub fn of(case: &Case) -> Option<Vec<PairKind>> {
    let costs = case.problem.costs();
    let overlap = costs.overlap()?;
    let mut kinds: BTreeMap<(Option<u16>, u16, bool), PairKind> = BTreeMap::new();
    for slot in case.schedule.orders().iter().flat_map(pipeline::Order::slots) {
        let Some([forward, Some(backward)]) = overlap.shared(slot) else { continue };
        let is_whole = backward.kind == Kind::BW;
        let chains = forward.map(|pass| overlap.kind(pass.chunk));
        let key = (chains, overlap.kind(backward.chunk), is_whole);
        let entry = kinds.entry(key);
        if let std::collections::btree_map::Entry::Vacant(vacant) = entry {
            let Some(kind) = first(costs, overlap, slot, is_whole) else { continue };
            vacant.insert(kind);
        }
        let Some(kind) = kinds.get_mut(&key) else { continue };
        kind.forward.extend(forward.map(|pass| pass.chunk));
        kind.backward.insert(backward.chunk);
        kind.count += 1;
    }
    Some(kinds.into_values().collect())
}

/// The kind of `slot`, of which none has been counted.
fn first(
    costs: &pipeline::Costs,
    overlap: &pipeline::overlap::Overlap,
    slot: Slot,
    is_whole: bool,
) -> Option<PairKind> {
    Some(PairKind {
        forward: BTreeSet::new(),
        backward: BTreeSet::new(),
        is_whole,
        count: 0,
        apart: slot.passes().map(|pass| costs.of(pass)).sum(),
        composition: overlap.composition(slot)?,
    })
}

impl PairKind {
    /// The kind in words: `F of 0-3, BW of 4-7`.
    #[must_use]
    pub fn name(&self) -> String {
        let backward = if self.is_whole { "BW" } else { "B" };
        let behind = format!("{backward} of {}", ranges(&self.backward));
        match self.forward.is_empty() {
            true => behind,
            false => format!("F of {}, {behind}", ranges(&self.forward)),
        }
    }
}

/// Numbers as ranges: `0-3 6`.
fn ranges(numbers: &BTreeSet<u16>) -> String {
    let mut runs: Vec<[u16; 2]> = Vec::new();
    for &number in numbers {
        match runs.last_mut() {
            Some([_, last]) if *last + 1 == number => *last = number,
            _ => runs.push([number; 2]),
        }
    }
    let text = |[first, last]: [u16; 2]| match first == last {
        true => first.to_string(),
        false => format!("{first}-{last}"),
    };
    runs.into_iter().map(text).collect::<Vec<_>>().join(" ")
}

/// An element of `pairs`, for machines.
pub(crate) fn json(kind: &PairKind) -> impl Serialize + use<> {
    object!(
        // The chunks whose forwards are in such pairs; empty of a backward alone.
        forward_chunks = kind.forward.clone(),
        backward_chunks = kind.backward.clone(),
        backward = if kind.is_whole { "BW" } else { "B" },
        // How many there are in a step.
        count = kind.count,
        duration_ns = kind.composition.duration.0,
        // The passes one after the other.
        apart_ns = kind.apart.0,
        // How long only the communication stream runs.
        exposed_ns = kind.composition.exposed.0,
        // Lower bound over all orders of the segments: the longer stream or chain.
        bound_ns = kind.composition.bound.0,
    )
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn runs_of_chunks_are_ranges() {
        let text = |numbers: &[u16]| ranges(&numbers.iter().copied().collect());
        assert_eq!(text(&[0, 1, 2, 3]), "0-3");
        assert_eq!(text(&[7, 0, 1, 4]), "0-1 4 7");
        assert_eq!(text(&[]), "");
    }
}
