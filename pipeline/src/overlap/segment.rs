//! The segments of a pass: what it does one after the other, each on a stream of its device.

use std::fmt;
use std::str::FromStr;

use thiserror::Error;

use crate::units::{Bytes, Nanos};

/// A stream of a device: what lies on one runs in order, first in, first out; the two run beside each
/// other.
#[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash, Debug)]
#[repr(u8)]
pub enum Stream {
    /// Matrix products, attention, norms.
    Compute,
    /// The all-to-alls of experts, and other communication within a pass.
    Communication,
}

impl Stream {
    /// Both streams, in the order of their discriminants.
    pub const ALL: [Self; 2] = [Self::Compute, Self::Communication];

    /// The name in files.
    #[must_use]
    pub const fn name(self) -> &'static str {
        match self {
            Self::Compute => "compute",
            Self::Communication => "communication",
        }
    }

    /// The stream of that name.
    #[must_use]
    pub fn named(name: &str) -> Option<Self> {
        Self::ALL.into_iter().find(|stream| stream.name() == name)
    }
}

/// Which pass of a pair a segment belongs to, and whether it is work for the weights.
#[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash, Debug)]
pub enum Part {
    /// Of a forward.
    F,
    /// Of a backward for the input.
    B,
    /// Of a backward for the weights.
    W,
}

impl Part {
    /// All parts.
    pub const ALL: [Self; 3] = [Self::F, Self::B, Self::W];

    /// The letter in lines of segments.
    #[must_use]
    pub const fn letter(self) -> char {
        match self {
            Self::F => 'F',
            Self::B => 'B',
            Self::W => 'W',
        }
    }
}

/// The name of a segment: a word in small letters, such as `attention`. The same name in F, B and W
/// is the same place of a layer.
#[derive(Clone, PartialEq, Eq, PartialOrd, Ord, Hash, Debug)]
pub struct SegmentName(Box<str>);

/// A text that is not a name of a segment.
#[derive(Clone, PartialEq, Eq, Debug, Error)]
#[error(
    "`{0}` is not a name of a segment: write up to 24 small letters, digits and dashes, first a letter"
)]
pub struct SegmentNameError(String);

impl SegmentName {
    /// The name as text.
    #[must_use]
    pub fn as_str(&self) -> &str {
        &self.0
    }
}

impl FromStr for SegmentName {
    type Err = SegmentNameError;

    fn from_str(text: &str) -> Result<Self, SegmentNameError> {
        let legal = |c: char| c.is_ascii_lowercase() || c.is_ascii_digit() || c == '-';
        let first = text.chars().next().is_some_and(|c| c.is_ascii_lowercase());
        if !first || text.len() > 24 || !text.chars().all(legal) {
            return Err(SegmentNameError(text.chars().take(40).collect()));
        }
        Ok(Self(text.into()))
    }
}

impl fmt::Display for SegmentName {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.pad(&self.0)
    }
}

/// Contention between the two streams while both run; alone, each runs at full rate.
///
/// A unit of communication that is hidden saves `1 - hold x slow` units of time, so that the product
/// is at most 1: else overlap would be worse than none.
#[derive(Clone, Copy, PartialEq, Eq, Hash, Debug)]
pub struct Contention {
    /// Share of the compute that concurrent communication takes, in thousandths: of the multiprocessors, and of any
    /// other resource that both need.
    hold: u16,
    /// Slowdown of the communication by concurrent compute, in thousandths of its time alone.
    slow: u16,
}

/// Constants under which overlap would be worse than none.
#[derive(Clone, Copy, PartialEq, Eq, Debug, Error)]
pub enum ContentionError {
    /// More than all of the compute.
    #[error("hold is a share of the compute, from 0 to 1")]
    Hold,
    /// Communication that beside compute is faster than alone, or more than sixty times as slow.
    #[error("slow is the factor on the time of overlapped communication, from 1 to 60")]
    Slow,
    /// A product above 1.
    #[error(
        "hold x slow is above 1, so that overlap would take longer than none: check which of them was measured"
    )]
    WorseThanNone,
}

impl Contention {
    /// The streams take nothing from each other: right for times that were measured beside each other, and
    /// for kernels that share the multiprocessors by a fixed partition.
    pub const NONE: Self = Self { hold: 0, slow: 1000 };

    /// `hold` and `slow` in thousandths.
    ///
    /// # Errors
    /// [`ContentionError`] if they are out of range, or overlap would be worse than none.
    pub fn new(hold: u64, slow: u64) -> Result<Self, ContentionError> {
        if hold > 1000 {
            return Err(ContentionError::Hold);
        }
        if !(1000..=60_000).contains(&slow) {
            return Err(ContentionError::Slow);
        }
        if hold * slow > 1_000_000 {
            return Err(ContentionError::WorseThanNone);
        }
        let small = |number: u64| u16::try_from(number).unwrap_or(u16::MAX);
        Ok(Self { hold: small(hold), slow: small(slow) })
    }

    /// Thousandths of the compute that are taken.
    #[must_use]
    pub const fn hold(self) -> u16 {
        self.hold
    }

    /// Thousandths of the time alone that communication takes beside compute.
    #[must_use]
    pub const fn slow(self) -> u16 {
        self.slow
    }
}

/// A piece of a pass on one stream.
#[derive(Clone, PartialEq, Eq, Debug)]
pub struct Segment {
    /// Its place in the layer.
    pub name: SegmentName,
    /// The stream it runs on.
    pub stream: Stream,
    /// How long it takes alone.
    pub time: Nanos,
    /// The bytes that it moves, if it is to move them over the wires of a cluster.
    pub bytes: Option<Bytes>,
    /// Of communication, what it takes from compute beside it, and compute from it.
    pub contention: Contention,
}

impl Segment {
    /// A segment of compute.
    #[must_use]
    pub const fn compute(name: SegmentName, time: Nanos) -> Self {
        let contention = Contention::NONE;
        Self { name, stream: Stream::Compute, time, bytes: None, contention }
    }

    /// A segment of communication that takes nothing from compute.
    #[must_use]
    pub const fn communication(name: SegmentName, time: Nanos) -> Self {
        let contention = Contention::NONE;
        Self { name, stream: Stream::Communication, time, bytes: None, contention }
    }

    /// The same under `contention`.
    #[must_use]
    pub fn under(self, contention: Contention) -> Self {
        Self { contention, ..self }
    }
}
