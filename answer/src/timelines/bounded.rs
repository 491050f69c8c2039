//! Lists of bounded length.

use std::fmt;
use std::marker::PhantomData;

use pipeline::MAX_CHUNKS;
use serde::Deserialize;
use serde::de::{Deserializer, Error as _, SeqAccess, Visitor};

/// Reads a list with at most as many elements as a pipeline may have chunks: a short text must not
/// take much memory.
pub(super) fn bounded<'de, D: Deserializer<'de>, T: Deserialize<'de>>(
    from: D,
) -> Result<Vec<T>, D::Error> {
    from.deserialize_seq(Bounded(PhantomData))
}

struct Bounded<T>(PhantomData<T>);

impl<'de, T: Deserialize<'de>> Visitor<'de> for Bounded<T> {
    type Value = Vec<T>;

    fn expecting(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "a list of at most {MAX_CHUNKS}")
    }

    fn visit_seq<A: SeqAccess<'de>>(self, mut items: A) -> Result<Vec<T>, A::Error> {
        let mut all = Vec::new();
        while let Some(item) = items.next_element()? {
            if all.len() as u64 == MAX_CHUNKS {
                return Err(A::Error::custom(format!("a list is longer than {MAX_CHUNKS}")));
            }
            all.push(item);
        }
        Ok(all)
    }
}
