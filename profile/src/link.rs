//! Durations of messages over a link.

use std::collections::BTreeMap;

use serde::{Deserialize, Serialize};

use crate::fit::Fit;
use crate::quantity::Quantity;

/// How a value gets from one stage to the next.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum LinkKind {
    /// A queue between two threads: values change hands, their bytes stay.
    Queue,
    /// TCP over the loopback device.
    Tcp,
    /// A copy in the memory of the host: no link between stages, but what bounds them.
    Copy,
    /// NCCL send and receive.
    Nccl,
    /// An event between two stages on one GPU: values change hands, their bytes stay.
    HandOver,
    /// A copy to another GPU of the same process.
    Peer,
    /// A copy between a GPU and pinned memory of the host: no link between stages.
    HostCopy,
}

impl LinkKind {
    /// All of them.
    pub const ALL: [Self; 7] = [
        Self::Queue,
        Self::Tcp,
        Self::Copy,
        Self::Nccl,
        Self::HandOver,
        Self::Peer,
        Self::HostCopy,
    ];

    /// The name in files.
    #[must_use]
    pub const fn name(self) -> &'static str {
        match self {
            Self::Queue => "queue",
            Self::Tcp => "tcp",
            Self::Copy => "copy",
            Self::Nccl => "nccl",
            Self::HandOver => "hand-over",
            Self::Peer => "peer",
            Self::HostCopy => "host-copy",
        }
    }

    /// The kind of that name.
    #[must_use]
    pub fn named(name: &str) -> Option<Self> {
        Self::ALL.into_iter().find(|kind| kind.name() == name)
    }

    /// Whether the bytes of a message are moved, or only change hands.
    #[must_use]
    pub const fn moves_bytes(self) -> bool {
        !matches!(self, Self::Queue | Self::HandOver)
    }

    /// Whether it joins two stages.
    #[must_use]
    pub const fn joins_stages(self) -> bool {
        !matches!(self, Self::Copy | Self::HostCopy)
    }

    /// Whether it is a GPU that it begins or ends at.
    #[must_use]
    pub const fn is_of_gpus(self) -> bool {
        matches!(self, Self::Nccl | Self::HandOver | Self::Peer | Self::HostCopy)
    }
}

/// Messages of one size; in a file their time and their number of pairs have forms of their own.
#[derive(Clone, PartialEq, Eq, Debug, Serialize, Deserialize)]
#[serde(rename_all = "kebab-case", deny_unknown_fields, expecting = "struct MessageDocument")]
pub struct Message<T = Quantity, N = u64> {
    /// The size.
    #[serde(deserialize_with = "crate::size::bytes")]
    pub bytes: u64,
    /// Number of pairs of ends that sent at the same time.
    pub pairs: N,
    /// Whether both ends of each pair sent at the same time.
    pub both_ways: bool,
    /// The time one way.
    pub time: T,
}

/// The times measured over links of one kind.
#[derive(Clone, PartialEq, Eq, Debug)]
pub struct Link {
    pub kind: LinkKind,
    /// By size, and by what else was sent.
    pub messages: Vec<Message>,
}

impl Link {
    /// The medians by size where nothing else was sent, ascending.
    #[must_use]
    pub fn alone(&self) -> Vec<(u64, u64)> {
        let alone = self.messages.iter().filter(|one| one.pairs == 1 && !one.both_ways);
        let by_size: BTreeMap<u64, u64> =
            alone.map(|one| (one.bytes, one.time.median().0)).collect();
        by_size.into_iter().collect()
    }

    /// Latency and bandwidth; `None` without two sizes.
    #[must_use]
    pub fn fit(&self) -> Option<Fit> {
        Fit::of(&self.alone())
    }

    /// Duration of a message of `bytes` alone, in nanoseconds: as measured where that size was,
    /// on the straight line between its neighbours elsewhere, and beyond the largest by the fit,
    /// from there on. `None` without any measurement.
    #[must_use]
    pub fn time(&self, bytes: u64) -> Option<u64> {
        let points = self.alone();
        let above = points.partition_point(|point| point.0 < bytes);
        match (above.checked_sub(1).map(|below| points[below]), points.get(above)) {
            (_, Some(&(size, time))) if size == bytes => Some(time),
            (None, Some(&(_, time))) => Some(time),
            (Some((small, low)), Some(&(large, high))) => {
                let share = i128::from(bytes - small) * (i128::from(high) - i128::from(low));
                u64::try_from(i128::from(low) + share / i128::from(large - small)).ok()
            }
            (Some((size, time)), None) => {
                let more = self.fit().map_or(0, |fit| fit.time(bytes) - fit.time(size));
                Some(time.saturating_add(more))
            }
            (None, None) => None,
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn times_between_and_beyond_the_sizes_measured() {
        let message = |(bytes, time)| Message {
            bytes,
            pairs: 1,
            both_ways: false,
            time: Quantity::of(vec![time; 7]).unwrap(),
        };
        let mut messages: Vec<_> =
            [(1 << 20, 3_000), (1 << 10, 2_000), (3 << 20, 7_000)].map(message).to_vec();
        messages.push(Message { pairs: 2, ..message((1 << 19, 99_000)) });
        messages.push(Message { both_ways: true, ..message((1 << 19, 99_000)) });
        let link = Link { kind: LinkKind::Tcp, messages };
        assert_eq!(link.time(8), Some(2_000));
        assert_eq!(link.time(1 << 10), Some(2_000));
        assert_eq!(link.time(2 << 20), Some(5_000));
        let beyond = link.time(5 << 20).unwrap();
        assert_eq!(beyond, 7_000 + 2 * link.fit().unwrap().per_mib);
        assert_eq!(Link { kind: LinkKind::Tcp, messages: vec![] }.time(8), None);
    }
}
