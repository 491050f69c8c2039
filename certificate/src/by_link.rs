//! The latency of hops in a certificate: a number for all links, or a list with one for each.

use std::fmt;

use pipeline::{Fault, Hops, Nanos, Schedule};
use serde::Deserialize;
use serde::de::{Deserializer, SeqAccess, Unexpected, Visitor};

/// Latencies in nanoseconds as they were written.
pub(crate) enum ByLink {
    Alike(u64),
    Each(Vec<u64>),
}

impl ByLink {
    /// The hops between stages of `schedule`.
    pub(crate) fn hops(&self, schedule: &Schedule) -> Result<Hops, Fault> {
        match self {
            Self::Alike(hop) => Ok(Hops::alike(Nanos(*hop))),
            Self::Each(links) => {
                let links: Vec<Nanos> = links.iter().copied().map(Nanos).collect();
                Hops::placed(schedule.shape(), schedule.placement(), &links)
            }
        }
    }
}

impl<'de> Deserialize<'de> for ByLink {
    fn deserialize<D: Deserializer<'de>>(from: D) -> Result<Self, D::Error> {
        struct Read;

        impl<'de> Visitor<'de> for Read {
            type Value = ByLink;

            fn expecting(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
                f.write_str("nanoseconds, or a list of them")
            }

            fn visit_u64<E: serde::de::Error>(self, hop: u64) -> Result<ByLink, E> {
                Ok(ByLink::Alike(hop))
            }

            fn visit_i64<E: serde::de::Error>(self, hop: i64) -> Result<ByLink, E> {
                let wrong = |_| E::invalid_value(Unexpected::Signed(hop), &self);
                u64::try_from(hop).map_err(wrong).map(ByLink::Alike)
            }

            fn visit_seq<A: SeqAccess<'de>>(self, mut items: A) -> Result<ByLink, A::Error> {
                let mut links = Vec::new();
                while let Some(hop) = items.next_element()? {
                    links.push(hop);
                }
                Ok(ByLink::Each(links))
            }
        }

        from.deserialize_any(Read)
    }
}
