//! The units of FSDP: embeddings, layers, head.

use std::ops::Range;

use crate::model::{Layout, Model};

/// The range of each unit in the parameter vector of the model, and the shard of each device.
#[derive(Clone, PartialEq, Eq, Debug)]
pub(super) struct Units {
    ranges: Vec<Range<usize>>,
    devices: usize,
}

impl Units {
    /// The units of `model`, each sharded contiguously over `devices`.
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

    /// Number of units.
    pub(super) fn count(&self) -> usize {
        self.ranges.len()
    }

    /// The range of `unit` in the parameter vector of the model.
    pub(super) fn range(&self, unit: usize) -> Range<usize> {
        self.ranges.get(unit).cloned().unwrap_or(0..0)
    }

    /// The shard of `unit` that `owner` owns, relative to the start of the unit.
    pub(super) fn shard(&self, unit: usize, owner: usize) -> Range<usize> {
        let len = self.range(unit).len();
        len * owner / self.devices..len * (owner + 1) / self.devices
    }

    /// Number of parameters that `owner` owns, over all units.
    pub(super) fn owned(&self, owner: usize) -> usize {
        (0..self.count()).map(|unit| self.shard(unit, owner).len()).sum()
    }
}
