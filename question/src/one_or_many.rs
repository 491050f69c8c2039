//! Lists that may be written as their only value.

use std::fmt;
use std::marker::PhantomData;

use serde::Deserialize;
use serde::de::value::SeqAccessDeserializer;
use serde::de::{Deserializer, IntoDeserializer, SeqAccess, Visitor};

/// Reads a list; a single value is a list of one.
pub(crate) fn deserialize<'de, D: Deserializer<'de>, T: Deserialize<'de>>(
    deserializer: D,
) -> Result<Vec<T>, D::Error> {
    deserializer.deserialize_any(OneOrMany(PhantomData))
}

/// Deserializes a value or a list of values that can be left out.
pub(crate) fn optional<'de, D: Deserializer<'de>, T: Deserialize<'de>>(
    deserializer: D,
) -> Result<Option<Vec<T>>, D::Error> {
    deserialize(deserializer).map(Some)
}

struct OneOrMany<T>(PhantomData<T>);

impl<T> OneOrMany<T> {
    fn one<'de, V, E>(value: V) -> Result<Vec<T>, E>
    where
        T: Deserialize<'de>,
        V: IntoDeserializer<'de, E>,
        E: serde::de::Error,
    {
        T::deserialize(value.into_deserializer()).map(|one| vec![one])
    }
}

impl<'de, T: Deserialize<'de>> Visitor<'de> for OneOrMany<T> {
    type Value = Vec<T>;

    fn expecting(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("a value or a list of values")
    }

    fn visit_bool<E: serde::de::Error>(self, value: bool) -> Result<Vec<T>, E> {
        Self::one(value)
    }

    fn visit_i64<E: serde::de::Error>(self, value: i64) -> Result<Vec<T>, E> {
        Self::one(value)
    }

    fn visit_u64<E: serde::de::Error>(self, value: u64) -> Result<Vec<T>, E> {
        Self::one(value)
    }

    fn visit_f64<E: serde::de::Error>(self, value: f64) -> Result<Vec<T>, E> {
        Self::one(value)
    }

    fn visit_str<E: serde::de::Error>(self, value: &str) -> Result<Vec<T>, E> {
        Self::one(value)
    }

    fn visit_seq<A: SeqAccess<'de>>(self, items: A) -> Result<Vec<T>, A::Error> {
        Vec::deserialize(SeqAccessDeserializer::new(items))
    }
}
