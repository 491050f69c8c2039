//! Buffers whose content can be offloaded to the host, and the activations that are offloaded
//! together.

use std::any::Any;

use pipeline::{Bytes, CopyPart};

use crate::model::chunk::ChunkForwarded;
use crate::model::device::Buffer;
use crate::ops::Ops;
use runtime::DeviceError;
use runtime::Offload;

/// The content of a part of a buffer, in host memory.
pub type OnHost = Box<dyn Any + Send>;

/// A buffer of a device whose first elements can be copied to the host, freed, and copied back, on
/// any thread.
pub trait Movable: Send {
    /// Number of elements.
    fn elements(&self) -> usize;

    /// Bytes of an element.
    fn element_bytes(&self) -> usize;

    /// Copies its first `count` elements to the host.
    ///
    /// # Errors
    /// Too little memory on the host.
    fn copy_out(&self, count: usize) -> Result<OnHost, DeviceError>;

    /// Frees its first `count` elements, all of which have been copied.
    ///
    /// # Errors
    /// An error of the device.
    fn free(&mut self, count: usize) -> Result<(), DeviceError>;

    /// Allocates memory for the elements of `host` again, and copies them back in front of the
    /// rest.
    ///
    /// # Errors
    /// Too little memory, or a copy of another kind of buffer.
    fn copy_back(&mut self, host: OnHost) -> Result<(), DeviceError>;
}

/// A buffer among activations.
pub(crate) enum Part<'a, O: Ops> {
    /// A tensor.
    Tensor(&'a mut Buffer<O::Tensor>),
    /// An accumulator.
    Accumulator(&'a mut Buffer<O::Accumulator>),
    /// Token numbers.
    Tokens(&'a mut Buffer<O::Tokens>),
}

/// The buffers of some activations, in a fixed order.
pub(crate) type Parts<'a, O> = Vec<Part<'a, O>>;

impl<O: Ops> Part<'_, O> {
    /// Bytes on the device.
    pub(crate) fn bytes(&self) -> u64 {
        match self {
            Self::Tensor(buffer) => buffer.bytes(),
            Self::Accumulator(buffer) => buffer.bytes(),
            Self::Tokens(buffer) => buffer.bytes(),
        }
    }

    fn movable(&mut self) -> Result<&mut dyn Movable, DeviceError> {
        let movable = match self {
            Self::Tensor(buffer) => O::movable_tensor(buffer),
            Self::Accumulator(buffer) => O::movable_accumulator(buffer),
            Self::Tokens(buffer) => O::movable_tokens(buffer),
        };
        movable.ok_or_else(|| DeviceError::NotAtHand {
            what: "a copy of activations to the host from this device".to_owned(),
        })
    }

    /// Updates its byte count.
    fn recount(&mut self) -> Result<(), DeviceError> {
        let movable = self.movable()?;
        let bytes = movable.elements() as u64 * movable.element_bytes() as u64;
        match self {
            Self::Tensor(buffer) => buffer.recount(bytes),
            Self::Accumulator(buffer) => buffer.recount(bytes),
            Self::Tokens(buffer) => buffer.recount(bytes),
        }
        Ok(())
    }
}

/// The bytes of `parts` on the device.
pub(crate) fn bytes<O: Ops>(parts: &Parts<'_, O>) -> Bytes {
    Bytes(parts.iter().map(Part::bytes).sum())
}

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
        let mut left = self.part.of_bytes(bytes(&parts)).0;
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
        let before = bytes(&parts).0;
        for (part, &(count, _)) in parts.iter_mut().zip(&self.on_host) {
            part.movable()?.free(count)?;
            part.recount()?;
        }
        Ok(Bytes(before - bytes(&parts).0))
    }

    fn copy_back(&mut self) -> Result<Bytes, DeviceError> {
        let mut parts = self.kept.parts();
        let before = bytes(&parts).0;
        for (part, (_, host)) in parts.iter_mut().zip(self.on_host.drain(..)) {
            part.movable()?.copy_back(host)?;
            part.recount()?;
        }
        Ok(Bytes(bytes(&parts).0 - before))
    }

    fn into_any(self: Box<Self>) -> Box<dyn Any + Send> {
        self
    }
}
