//! How the words of the contract stand in data files (feature `serde`).
//!
//! Times, sizes, rates, limits and slots are texts, as a user writes them (`29.718ms`, `38GiB`,
//! `300GB/s`, `1.5p`, `F0.3`); kinds and families go by their names. Where programs read what programs
//! wrote, times are whole numbers of [`nanoseconds`], and keys say so: `start_ns`.

use std::fmt::{self, Display};
use std::marker::PhantomData;
use std::str::FromStr;

use serde::de::{Error, Visitor};
use serde::{Deserialize, Deserializer, Serialize, Serializer};

use crate::bandwidth::Bandwidth;
use crate::family::Family;
use crate::layer_layout::LayerLayout;
use crate::pass::{Kind, Slot};
use crate::problem::Limit;
use crate::units::{Bytes, Nanos};

/// Values as the text that they print and read: `#[serde(with = "pipeline::as_text")]`.
pub mod as_text {
    use super::*;

    /// Writes what `value` prints.
    ///
    /// # Errors
    /// Those of the format.
    pub fn serialize<T: Display, S: Serializer>(value: &T, to: S) -> Result<S::Ok, S::Error> {
        to.collect_str(value)
    }

    /// Reads one value by its `FromStr`, also from a bare number, so that a missing unit is named.
    ///
    /// # Errors
    /// Anything but a text or a number, and what `T` does not read.
    pub fn deserialize<'de, D, T>(from: D) -> Result<T, D::Error>
    where
        D: Deserializer<'de>,
        T: FromStr<Err: Display>,
    {
        from.deserialize_any(Text(PhantomData))
    }
}

/// Times as whole numbers of nanoseconds: `#[serde(with = "pipeline::nanoseconds")]`.
pub mod nanoseconds {
    use super::*;

    /// Writes the number.
    ///
    /// # Errors
    /// Those of the format.
    pub fn serialize<S: Serializer>(time: &Nanos, to: S) -> Result<S::Ok, S::Error> {
        to.serialize_u64(time.0)
    }

    /// Reads a number.
    ///
    /// # Errors
    /// Anything but a whole number of at least 0.
    pub fn deserialize<'de, D: Deserializer<'de>>(from: D) -> Result<Nanos, D::Error> {
        u64::deserialize(from).map(Nanos)
    }
}

/// Reads what `T` reads from text.
struct Text<T>(PhantomData<T>);

impl<T: FromStr<Err: Display>> Visitor<'_> for Text<T> {
    type Value = T;

    fn expecting(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("a text")
    }

    fn visit_str<E: Error>(self, text: &str) -> Result<T, E> {
        text.parse().map_err(E::custom)
    }

    fn visit_i64<E: Error>(self, number: i64) -> Result<T, E> {
        self.visit_str(&number.to_string())
    }

    fn visit_u64<E: Error>(self, number: u64) -> Result<T, E> {
        self.visit_str(&number.to_string())
    }

    fn visit_f64<E: Error>(self, number: f64) -> Result<T, E> {
        self.visit_str(&number.to_string())
    }
}

macro_rules! as_text {
    ($($type:ty),*) => {$(
        impl Serialize for $type {
            fn serialize<S: Serializer>(&self, to: S) -> Result<S::Ok, S::Error> {
                as_text::serialize(self, to)
            }
        }

        impl<'de> Deserialize<'de> for $type {
            fn deserialize<D: Deserializer<'de>>(from: D) -> Result<Self, D::Error> {
                as_text::deserialize(from)
            }
        }
    )*};
}
as_text!(Nanos, Bytes, Bandwidth, Limit, Slot, LayerLayout);

macro_rules! by_name {
    ($($type:ty: $what:literal),*) => {$(
        impl Serialize for $type {
            fn serialize<S: Serializer>(&self, to: S) -> Result<S::Ok, S::Error> {
                to.serialize_str(self.name())
            }
        }

        impl<'de> Deserialize<'de> for $type {
            fn deserialize<D: Deserializer<'de>>(from: D) -> Result<Self, D::Error> {
                let name = String::deserialize(from)?;
                let unknown = || D::Error::custom(format_args!("there is no {} `{name}`", $what));
                Self::named(&name).ok_or_else(unknown)
            }
        }
    )*};
}
by_name!(Kind: "kind of pass", Family: "schedule family");

#[cfg(test)]
mod tests {
    use std::fmt::Debug;

    use serde::de::DeserializeOwned;

    use super::*;
    use crate::{Metrics, Pass, Placement, Span, Timeline};

    fn is_written_as<T>(value: &T, text: &str)
    where
        T: Serialize + DeserializeOwned + PartialEq + Debug,
    {
        assert_eq!(serde_json::to_string(value).unwrap(), text);
        assert_eq!(serde_json::from_str::<T>(text).unwrap(), *value);
    }

    #[test]
    fn units_are_texts() {
        is_written_as(&Nanos(29_718_000), "\"29.718ms\"");
        is_written_as(&Bytes(38 << 30), "\"38GiB\"");
        is_written_as(&Bandwidth::new(300_000_000_000).unwrap(), "\"300GB/s\"");
        is_written_as(&Limit::TimesP { millionths: 1_500_000 }, "\"1.5p\"");
        is_written_as(&Some(Nanos(1)), "\"1ns\"");
        let error = serde_json::from_str::<Nanos>("12").unwrap_err().to_string();
        assert!(error.contains("`12` has no unit"), "{error}");
        let error = serde_json::from_str::<Bytes>("[]").unwrap_err().to_string();
        assert!(error.contains("expected a text"), "{error}");
    }

    #[test]
    fn names_and_slots() {
        for kind in Kind::ALL {
            is_written_as(&kind, &format!("\"{}\"", kind.name()));
        }
        for family in Family::ALL {
            is_written_as(&family, &format!("\"{}\"", family.name()));
        }
        is_written_as(&Slot::Pair(Pass::f(1, 4), Pass::bw(0, 2)), "\"F1.4&BW0.2\"");
        let all = [Placement::Looped, Placement::Vee, Placement::Mirrored];
        is_written_as(&all, r#"["looped","v","mirrored"]"#);
        let error = serde_json::from_str::<Family>("\"zb-9\"").unwrap_err().to_string();
        assert!(error.contains("there is no schedule family `zb-9`"), "{error}");
        assert!(serde_json::from_str::<Slot>("\"F1\"").is_err());
    }

    #[test]
    fn timelines_count_nanoseconds() {
        let span = Span { slot: Pass::f(0, 0).into(), start: Nanos(3), end: Nanos(5_000_000) };
        let timeline = Timeline { stages: vec![vec![span]] };
        let text = r#"{"stages":[[{"slot":"F0.0","start_ns":3,"end_ns":5000000}]]}"#;
        is_written_as(&timeline, text);
        let text = r#"{"stages":[{"first_start_ns":3,"last_end_ns":5000000,"busy_ns":4999997}]}"#;
        is_written_as(&Metrics::of(&timeline), text);
    }
}
