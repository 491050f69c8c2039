//! The messages between devices, as bytes: a header of fixed length, then a payload of the length
//! in the header.

use runtime::tcp::take;

/// Bytes of a header: kind, 3 bytes of padding, unit, minibatch, call, length.
pub(super) const HEADER: usize = 24;
/// The longest failure text, in bytes.
pub(super) const MOST_WORDS: usize = 4096;

/// The kind of a message.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(super) enum Kind {
    /// The sender is ready.
    Ready,
    /// Requests the receiver's shard of a unit.
    Pull,
    /// The sender's shard of a unit.
    Shard,
    /// Gradients of the receiver's shard of a unit.
    Push,
    /// The sender has pushed all gradients of a minibatch.
    Done,
    /// To rank 0: the sender's measurements and weights.
    Report,
    /// From rank 0: all have reported.
    Over,
    /// The sender stops; the payload is the reason.
    Stop,
}

const KINDS: [Kind; 8] = [
    Kind::Ready,
    Kind::Pull,
    Kind::Shard,
    Kind::Push,
    Kind::Done,
    Kind::Report,
    Kind::Over,
    Kind::Stop,
];

/// The header of a message.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(super) struct Head {
    pub(super) kind: Kind,
    pub(super) unit: u32,
    pub(super) minibatch: u32,
    /// The number of the collective or of the pull that it belongs to, as its sender counts.
    pub(super) call: u32,
}

impl Head {
    /// The header of a message without a unit.
    pub(super) const fn of(kind: Kind, minibatch: u32) -> Self {
        Self { kind, unit: 0, minibatch, call: 0 }
    }

    /// The header, followed by `payload`.
    pub(super) fn frame(self, payload: &[u8]) -> Vec<u8> {
        let Self { kind, unit, minibatch, call } = self;
        let number = (0u8..).zip(KINDS).find(|(_, other)| *other == kind).map_or(0, |(at, _)| at);
        let mut frame = Vec::with_capacity(HEADER + payload.len());
        frame.extend([number, 0, 0, 0]);
        frame.extend([unit, minibatch, call].into_iter().flat_map(u32::to_le_bytes));
        frame.extend((payload.len() as u64).to_le_bytes());
        frame.extend(payload);
        frame
    }

    /// Reads a header: its kind, and the bytes that follow.
    pub(super) fn read(header: &[u8; HEADER]) -> Option<(Self, u64)> {
        let mut rest = &header[..];
        let [number, _, _, _] = take(&mut rest)?;
        let kind = *KINDS.get(usize::from(number))?;
        let [unit, minibatch, call] =
            [take(&mut rest)?, take(&mut rest)?, take(&mut rest)?].map(u32::from_le_bytes);
        let length = u64::from_le_bytes(take(&mut rest)?);
        Some((Self { kind, unit, minibatch, call }, length))
    }
}

/// Parameters as bytes.
pub(super) fn pack_weights(weights: &[f32]) -> Vec<u8> {
    weights.iter().flat_map(|weight| weight.to_bits().to_le_bytes()).collect()
}

/// The inverse.
pub(super) fn weights(bytes: &[u8]) -> impl Iterator<Item = f32> {
    let (numbers, _) = bytes.as_chunks::<4>();
    numbers.iter().map(|bytes| f32::from_bits(u32::from_le_bytes(*bytes)))
}

/// Gradients as bytes.
pub(super) fn pack_gradients(gradients: &[i64]) -> Vec<u8> {
    gradients.iter().flat_map(|gradient| gradient.to_le_bytes()).collect()
}

/// The inverse.
pub(super) fn gradients(bytes: &[u8]) -> impl Iterator<Item = i64> {
    let (numbers, _) = bytes.as_chunks::<8>();
    numbers.iter().map(|bytes| i64::from_le_bytes(*bytes))
}
