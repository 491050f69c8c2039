//! The hops of a timeline file: a number for all links, or a list with one for each.

use std::fmt;

use pipeline::{Fault, Hops, Nanos, Schedule};
use serde::de::value::SeqAccessDeserializer;
use serde::de::{Deserializer, SeqAccess, Visitor};
use serde::{Deserialize, Serialize};

use super::bounded::bounded;

/// Latencies in nanoseconds as they are written.
#[derive(Serialize)]
#[serde(untagged)]
pub(super) enum RawHops {
    /// One for all links.
    Alike(u64),
    Each(Vec<u64>),
}

impl RawHops {
    pub(super) fn of(hops: &Hops) -> Self {
        match hops.by_link() {
            [all] => Self::Alike(all.0),
            each => Self::Each(each.iter().map(|hop| hop.0).collect()),
        }
    }

    /// The hops between stages of `schedule`.
    pub(super) fn whole(self, schedule: &Schedule) -> Result<Hops, Fault> {
        let links: Vec<Nanos> = match self {
            Self::Alike(hop) => return Ok(Hops::alike(Nanos(hop))),
            Self::Each(links) => links.into_iter().map(Nanos).collect(),
        };
        Hops::placed(schedule.shape(), schedule.placement(), &links)
    }
}

impl<'de> Deserialize<'de> for RawHops {
    fn deserialize<D: Deserializer<'de>>(from: D) -> Result<Self, D::Error> {
        struct Read;

        impl<'de> Visitor<'de> for Read {
            type Value = RawHops;

            fn expecting(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
                f.write_str("nanoseconds, or a list of them")
            }

            fn visit_u64<E>(self, hop: u64) -> Result<RawHops, E> {
                Ok(RawHops::Alike(hop))
            }

            fn visit_seq<A: SeqAccess<'de>>(self, items: A) -> Result<RawHops, A::Error> {
                bounded(SeqAccessDeserializer::new(items)).map(RawHops::Each)
            }
        }

        from.deserialize_any(Read)
    }
}
