//! The buffers of some activations, which are copied to the host one by one.

use pipeline::Bytes;

use crate::model::device::Buffer;
use crate::movable::Movable;
use crate::ops::Ops;
use runtime::DeviceError;

/// A buffer among activations.
pub(crate) enum Part<'a, O: Ops> {
    Tensor(&'a mut Buffer<O::Tensor>),
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

    pub(crate) fn movable(&mut self) -> Result<&mut dyn Movable, DeviceError> {
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
    pub(crate) fn recount(&mut self) -> Result<(), DeviceError> {
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
