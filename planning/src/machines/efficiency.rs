//! `[efficiency]` of a machine's file: the rates of [`RATES`], each checked.

use std::fmt;

use pipeline::Nanos;
use plan::{Efficiency, Otherwise, RATE_KEYS, RATES, Rate, RateForm};
use serde::de::{DeserializeSeed, Error, MapAccess, Visitor};
use serde::{Deserialize, Deserializer};

use super::range::within;

/// The rates that a file gives.
pub(super) struct EfficiencyDocument(Vec<(&'static Rate, f64)>);

impl EfficiencyDocument {
    /// Checks every number; the key that is wrong, and why.
    pub(super) fn check(&self) -> Result<(), (&'static str, String)> {
        self.0.iter().try_for_each(|(rate, value)| {
            let [least, most] = rate.form.range();
            within(rate.key, *value, least, most)
        })
    }

    /// The rates, as the planner takes them.
    pub(super) fn rates(&self) -> Efficiency {
        Efficiency::of(&self.0)
    }
}

impl<'de> Deserialize<'de> for EfficiencyDocument {
    fn deserialize<D: Deserializer<'de>>(from: D) -> Result<Self, D::Error> {
        from.deserialize_map(Rates)
    }
}

struct Rates;

impl<'de> Visitor<'de> for Rates {
    type Value = EfficiencyDocument;

    fn expecting(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("a table of rates")
    }

    fn visit_map<A: MapAccess<'de>>(self, mut map: A) -> Result<Self::Value, A::Error> {
        let mut given: Vec<(&'static Rate, f64)> = Vec::new();
        while let Some(rate) = map.next_key_seed(Key)? {
            given.push((rate, map.next_value_seed(Of(rate))?));
        }
        let is_missing = |rate: &&Rate| {
            rate.otherwise == Otherwise::Required && given.iter().all(|one| one.0.key != rate.key)
        };
        match RATES.iter().find(is_missing) {
            Some(rate) => Err(Error::missing_field(rate.key)),
            None => Ok(EfficiencyDocument(given)),
        }
    }
}

/// Reads a key.
struct Key;

impl<'de> DeserializeSeed<'de> for Key {
    type Value = &'static Rate;

    fn deserialize<D: Deserializer<'de>>(self, from: D) -> Result<Self::Value, D::Error> {
        let key = String::deserialize(from)?;
        Rate::named(&key).ok_or_else(|| Error::unknown_field(&key, RATE_KEYS))
    }
}

/// Reads the value of a rate.
struct Of(&'static Rate);

impl<'de> DeserializeSeed<'de> for Of {
    type Value = f64;

    fn deserialize<D: Deserializer<'de>>(self, from: D) -> Result<f64, D::Error> {
        match self.0.form {
            RateForm::Time => {
                let time: Nanos = pipeline::as_text::deserialize(from)?;
                Ok(plan::number(time.0) / 1e9)
            }
            _ => f64::deserialize(from),
        }
    }
}
