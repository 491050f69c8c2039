//! The parts of the model that travel as one: embeddings, layers, head.

use std::ops::Range;

use crate::model::{Layout, Model};

/// Where the parameters of each unit lie in the vector of the model, and which device owns which of them.
#[derive(Clone, PartialEq, Eq, Debug)]
pub(super) struct Units {
    ranges: Vec<Range<usize>>,
    devices: usize,
}

impl Units {
    /// The units of `model`, each divided among `devices` in parts that lie one behind the other.
    pub(super) fn new(model: Model, devices: usize) -> Self {
        let layout = Layout::whole(model);
        let mut begin = 0;
        let embedding = layout.embedding().map(|embedding| embedding.end());
        let layers = layout.layers().iter().map(|layer| layer.end());
        let head = layout.head().map(|head| head.end());
        let ends = embedding.into_iter().chain(layers).chain(head);
        let ranges = ends.map(|end| std::mem::replace(&mut begin, end)..end).collect();
        Self { ranges, devices }
    }

    /// How many there are.
    pub(super) fn count(&self) -> usize {
        self.ranges.len()
    }

    /// Where the parameters of `unit` lie in the vector of the model.
    pub(super) fn range(&self, unit: usize) -> Range<usize> {
        self.ranges.get(unit).cloned().unwrap_or(0..0)
    }

    /// The part of `unit` that `owner` owns, counted from the beginning of the unit.
    pub(super) fn shard(&self, unit: usize, owner: usize) -> Range<usize> {
        let len = self.range(unit).len();
        len * owner / self.devices..len * (owner + 1) / self.devices
    }

    /// Parameters that `owner` owns of all units.
    pub(super) fn owned(&self, owner: usize) -> usize {
        (0..self.count()).map(|unit| self.shard(unit, owner).len()).sum()
    }
}
