//! The activations of one F that are copied to the host and back together.

use std::any::Any;

use pipeline::{Bytes, CopyPart};

use crate::model::chunk::ChunkForwarded;
use crate::model::parts;
use crate::movable::OnHost;
use crate::ops::Ops;
use runtime::{DeviceError, Offload};

/// Activations of one F that are copied to the host and back.
pub(crate) struct Offloaded<O: Ops> {
    pub(crate) kept: ChunkForwarded<O>,
    part: CopyPart,
    /// The host copy of each buffer that has one, in the order of its buffers, and its number of
    /// elements.
    on_host: Vec<(usize, OnHost)>,
}

impl<O: Ops> Offloaded<O> {
    /// Activations `kept` of which `part` is to be copied.
    pub(crate) const fn new(kept: ChunkForwarded<O>, part: CopyPart) -> Self {
        Self { kept, part, on_host: Vec::new() }
    }
}

impl<O: Ops> Offload for Offloaded<O> {
    fn copy_out(&mut self) -> Result<(), DeviceError> {
        let mut parts = self.kept.parts();
        let mut left = self.part.of_bytes(parts::bytes(&parts)).0;
        for part in &mut parts {
            let movable = part.movable()?;
            let each = movable.element_bytes().max(1) as u64;
            let most = usize::try_from(left / each).unwrap_or(usize::MAX);
            let count = movable.elements().min(most);
            left -= count as u64 * each;
            self.on_host.push((count, movable.copy_out(count)?));
        }
        Ok(())
    }

    fn free(&mut self) -> Result<Bytes, DeviceError> {
        let mut parts = self.kept.parts();
        let before = parts::bytes(&parts).0;
        for (part, &(count, _)) in parts.iter_mut().zip(&self.on_host) {
            part.movable()?.free(count)?;
            part.recount()?;
        }
        Ok(Bytes(before - parts::bytes(&parts).0))
    }

    fn copy_back(&mut self) -> Result<Bytes, DeviceError> {
        let mut parts = self.kept.parts();
        let before = parts::bytes(&parts).0;
        for (part, (_, host)) in parts.iter_mut().zip(self.on_host.drain(..)) {
            part.movable()?.copy_back(host)?;
            part.recount()?;
        }
        Ok(Bytes(parts::bytes(&parts).0 - before))
    }

    fn into_any(self: Box<Self>) -> Box<dyn Any + Send> {
        self
    }
}
