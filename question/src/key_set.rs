//! Sets of keys: their names, which of them are given, and how they are written and read.

use std::fmt;
use std::marker::PhantomData;
use std::str::FromStr;

use pipeline::as_text;
use serde::Deserialize;
use serde::de::{DeserializeOwned, Deserializer, SeqAccess, Visitor};
use serde_json::Value;

/// Gives a set of optional keys its list of names, lets one set override another, and writes the keys that
/// are given.
macro_rules! key_set {
    ($set:ident { $($field:ident: $name:literal),* $(,)? } $(and $nested:ident)?) => {
        impl $set {
            /// The names of all keys.
            pub const NAMES: &'static [&'static str] = &[$($name),*];

            /// The names of the keys that say something.
            pub fn given(&self) -> impl Iterator<Item = &'static str> + use<> {
                let all = [$(self.$field.is_some()),*];
                Self::NAMES.iter().copied().zip(all).filter(|(_, given)| *given).map(|(name, _)| name)
            }

            /// These keys, and those of `other` where these say nothing.
            #[must_use]
            pub fn or(self, other: Self) -> Self {
                Self {
                    $($field: self.$field.or(other.$field),)*
                    $($nested: self.$nested.or(other.$nested),)?
                }
            }

            /// Adds the keys that are given to `map`.
            pub(crate) fn write<M: serde::ser::SerializeMap>(&self, map: &mut M) -> Result<(), M::Error> {
                $(if let Some(value) = &self.$field {
                    map.serialize_entry($name, value)?;
                })*
                $(self.$nested.write(map)?;)?
                Ok(())
            }
        }

        impl serde::Serialize for $set {
            fn serialize<S: serde::Serializer>(&self, to: S) -> Result<S::Ok, S::Error> {
                let mut map = to.serialize_map(None)?;
                self.write(&mut map)?;
                serde::ser::SerializeMap::end(map)
            }
        }
    };
}
pub(crate) use key_set;

/// Keys with their values, before they are checked.
pub(crate) type Object = serde_json::Map<String, Value>;

/// Removes the keys `names` from `all` and reads them.
pub(crate) fn take<T: DeserializeOwned>(
    all: &mut Object,
    names: &[&str],
) -> Result<T, serde_json::Error> {
    read(names.iter().filter_map(|name| all.remove_entry(*name)).collect())
}

/// Reads the keys `all`.
pub(crate) fn read<T: DeserializeOwned>(all: Object) -> Result<T, serde_json::Error> {
    serde_json::from_value(Value::Object(all))
}

/// Reads one value by its `FromStr`.
pub(crate) fn text<'de, D: Deserializer<'de>, T>(deserializer: D) -> Result<Option<T>, D::Error>
where
    T: FromStr<Err: fmt::Display>,
{
    as_text::deserialize(deserializer).map(Some)
}

/// Reads one value, or a list of them, by their `FromStr`.
pub(crate) fn list<'de, D: Deserializer<'de>, T>(
    deserializer: D,
) -> Result<Option<Vec<T>>, D::Error>
where
    T: FromStr<Err: fmt::Display>,
{
    deserializer.deserialize_any(List(PhantomData)).map(Some)
}

/// Reads one text or a list of them.
struct List<T>(PhantomData<T>);

impl<'de, T: FromStr<Err: fmt::Display>> Visitor<'de> for List<T> {
    type Value = Vec<T>;

    fn expecting(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("a text or a list of texts")
    }

    fn visit_str<E: serde::de::Error>(self, text: &str) -> Result<Vec<T>, E> {
        text.parse().map(|value| vec![value]).map_err(E::custom)
    }

    fn visit_i64<E: serde::de::Error>(self, number: i64) -> Result<Vec<T>, E> {
        self.visit_str(&number.to_string())
    }

    fn visit_u64<E: serde::de::Error>(self, number: u64) -> Result<Vec<T>, E> {
        self.visit_str(&number.to_string())
    }

    fn visit_f64<E: serde::de::Error>(self, number: f64) -> Result<Vec<T>, E> {
        self.visit_str(&number.to_string())
    }

    fn visit_seq<A: SeqAccess<'de>>(self, mut items: A) -> Result<Vec<T>, A::Error> {
        let mut values = Vec::new();
        while let Some(One(value)) = items.next_element::<One<T>>()? {
            values.push(value);
        }
        Ok(values)
    }
}

/// One element of a list.
struct One<T>(T);

impl<'de, T: FromStr<Err: fmt::Display>> Deserialize<'de> for One<T> {
    fn deserialize<D: Deserializer<'de>>(deserializer: D) -> Result<Self, D::Error> {
        as_text::deserialize(deserializer).map(One)
    }
}
