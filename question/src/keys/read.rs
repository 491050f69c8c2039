//! Keys as serde reads and writes them: names with dashes, and nothing for keys that are not given.

use std::fmt;
use std::str::FromStr;

use serde::de::{DeserializeOwned, Deserializer, Error, VariantAccess, Visitor};
use serde::de::{DeserializeSeed, EnumAccess, IntoDeserializer, MapAccess, SeqAccess, Unexpected};
use serde::ser::{SerializeMap, Serializer};
use serde::{Deserialize, Serialize};

use super::field::{Field, Kind, Plain, Value};
use super::row::{Lists, Row, Set};

/// Keys with their values, before they are checked.
pub(crate) type Object = serde_json::Map<String, serde_json::Value>;

/// Removes the keys `names` from `all` and reads them.
pub(crate) fn take<T: DeserializeOwned>(
    all: &mut Object,
    names: &[&str],
) -> Result<T, serde_json::Error> {
    read(names.iter().filter_map(|name| all.remove_entry(*name)).collect())
}

/// Reads the keys `all`.
pub(crate) fn read<T: DeserializeOwned>(all: Object) -> Result<T, serde_json::Error> {
    serde_json::from_value(serde_json::Value::Object(all))
}

/// Reads one value by its `FromStr`, of a key that can be left out.
pub fn text<'de, D: Deserializer<'de>, T>(from: D) -> Result<Option<T>, D::Error>
where
    T: FromStr<Err: fmt::Display>,
{
    pipeline::as_text::deserialize(from).map(Some)
}

/// Adds the keys that are given, or have a default, to `map`.
#[doc(hidden)]
pub fn write<M: SerializeMap>(set: &impl Set, map: &mut M) -> Result<(), M::Error> {
    write_fields(&rows_of(set), &set.fields(), map)
}

fn rows_of<T: Set>(_: &T) -> Vec<&'static Row> {
    T::rows()
}

fn write_fields<M: SerializeMap>(
    rows: &[&Row],
    fields: &[&dyn Field],
    map: &mut M,
) -> Result<(), M::Error> {
    for (row, field) in rows.iter().zip(fields) {
        if field.is_given() || row.default.is_some() || row.required {
            map.serialize_entry(row.name, &Written { values: field.values(), row })?;
        }
    }
    Ok(())
}

/// The values of a key, as they are serialized.
pub(crate) struct Written<'a> {
    pub(crate) values: Vec<Plain>,
    pub(crate) row: &'a Row,
}

impl Serialize for Written<'_> {
    fn serialize<S: Serializer>(&self, to: S) -> Result<S::Ok, S::Error> {
        match &self.values[..] {
            [value] if !self.row.is_list => value.serialize(to),
            all => all.serialize(to),
        }
    }
}

/// Reads a set of keys.
#[doc(hidden)]
pub fn deserialize<'de, T: Set, D: Deserializer<'de>>(from: D) -> Result<T, D::Error> {
    let mut set = T::default();
    let (name, names, rows) = (T::STRUCT, T::NAMES, T::rows());
    let fields = set.fields_mut();
    from.deserialize_struct(name, names, Keys { name, names, rows: &rows, fields })?;
    Ok(set)
}

/// Reads the keys of a set into its fields.
struct Keys<'a> {
    name: &'static str,
    names: &'static [&'static str],
    rows: &'a [&'static Row],
    fields: Vec<&'a mut dyn Field>,
}

impl<'de> Visitor<'de> for Keys<'_> {
    type Value = ();

    fn expecting(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "struct {}", self.name)
    }

    fn visit_map<M: MapAccess<'de>>(mut self, mut map: M) -> Result<(), M::Error> {
        let mut seen = vec![false; self.rows.len()];
        while let Some(at) = map.next_key_seed(Name { rows: self.rows, names: self.names })? {
            let row = self.rows[at];
            if std::mem::replace(&mut seen[at], true) {
                return Err(M::Error::duplicate_field(row.name));
            }
            let (kind, lists, field) = (row.kind, row.lists, &mut *self.fields[at]);
            let is_optional = lists == Lists::OfValues || !matches!(kind, Kind::Text(_));
            match row.is_list {
                true => map.next_value_seed(Values { kind, lists, field })?,
                false => map.next_value_seed(One { kind, field, is_optional })?,
            }
        }
        let missing = self.rows.iter().zip(seen).find(|(row, seen)| row.required && !seen);
        missing.map_or(Ok(()), |(row, _)| Err(M::Error::missing_field(row.name)))
    }
}

/// Reads the name of a key: its place among the rows.
struct Name<'a> {
    rows: &'a [&'static Row],
    names: &'static [&'static str],
}

impl<'de> DeserializeSeed<'de> for Name<'_> {
    type Value = usize;

    fn deserialize<D: Deserializer<'de>>(self, from: D) -> Result<usize, D::Error> {
        from.deserialize_identifier(self)
    }
}

impl Visitor<'_> for Name<'_> {
    type Value = usize;

    fn expecting(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("field identifier")
    }

    fn visit_str<E: Error>(self, name: &str) -> Result<usize, E> {
        let at = self.rows.iter().position(|row| row.name == name);
        at.ok_or_else(|| E::unknown_field(name, self.names))
    }
}

/// Reads a list; a single value is a list of one.
pub fn list<'de, D: Deserializer<'de>, T: Value>(from: D) -> Result<Vec<T>, D::Error> {
    let mut list = Vec::new();
    Values { kind: T::KIND, lists: Lists::OfValues, field: &mut list }.deserialize(from)?;
    Ok(list)
}

/// The same, where the list can be left out.
pub fn optional_list<'de, D: Deserializer<'de>, T: Value>(
    from: D,
) -> Result<Option<Vec<T>>, D::Error> {
    list(from).map(Some)
}

/// Reads the values of a key that takes several.
struct Values<'a> {
    kind: Kind,
    lists: Lists,
    field: &'a mut dyn Field,
}

impl<'de> DeserializeSeed<'de> for Values<'_> {
    type Value = ();

    fn deserialize<D: Deserializer<'de>>(self, from: D) -> Result<(), D::Error> {
        from.deserialize_any(self)
    }
}

impl Values<'_> {
    /// The reader of one of a list.
    fn one(&mut self) -> One<'_> {
        let kind = match (self.lists, self.kind) {
            (Lists::OfTexts, Kind::Name) => Kind::Text(|_| Ok(())),
            (_, kind) => kind,
        };
        One { kind, field: &mut *self.field, is_optional: false }
    }

    fn only<'de, V: IntoDeserializer<'de, E>, E: Error>(mut self, value: V) -> Result<(), E> {
        self.field.clear();
        self.one().deserialize(value.into_deserializer())
    }
}

impl<'de> Visitor<'de> for Values<'_> {
    type Value = ();

    fn expecting(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(match self.lists {
            Lists::OfTexts => "a text or a list of texts",
            Lists::OfValues => "a value or a list of values",
        })
    }

    fn visit_bool<E: Error>(self, value: bool) -> Result<(), E> {
        match self.lists {
            Lists::OfTexts => Err(E::invalid_type(Unexpected::Bool(value), &self)),
            Lists::OfValues => self.only(value),
        }
    }

    fn visit_i64<E: Error>(self, value: i64) -> Result<(), E> {
        self.only(value)
    }

    fn visit_u64<E: Error>(self, value: u64) -> Result<(), E> {
        self.only(value)
    }

    fn visit_f64<E: Error>(self, value: f64) -> Result<(), E> {
        self.only(value)
    }

    fn visit_str<E: Error>(self, value: &str) -> Result<(), E> {
        self.only(value)
    }

    fn visit_seq<A: SeqAccess<'de>>(mut self, mut items: A) -> Result<(), A::Error> {
        self.field.clear();
        while items.next_element_seed(self.one())?.is_some() {}
        Ok(())
    }
}

/// Reads one value of a key.
struct One<'a> {
    kind: Kind,
    field: &'a mut dyn Field,
    /// Whether nothing may stand in its place, as `null` of JSON.
    is_optional: bool,
}

impl One<'_> {
    fn value<'de, T: Deserialize<'de>, D: Deserializer<'de>>(
        &self,
        from: D,
        plain: impl Fn(T) -> Plain,
    ) -> Result<Option<Plain>, D::Error> {
        match self.is_optional {
            true => Ok(Option::<T>::deserialize(from)?.map(plain)),
            false => T::deserialize(from).map(plain).map(Some),
        }
    }

    fn put<E: Error>(self, plain: Option<Plain>) -> Result<(), E> {
        plain.map_or(Ok(()), |plain| self.field.put(plain)).map_err(E::custom)
    }
}

impl<'de> DeserializeSeed<'de> for One<'_> {
    type Value = ();

    fn deserialize<D: Deserializer<'de>>(self, from: D) -> Result<(), D::Error> {
        let plain = match self.kind {
            Kind::Flag => self.value(from, Plain::Flag)?,
            Kind::Whole => self.value(from, Plain::Whole)?,
            Kind::Narrow => self.value(from, |one: u32| Plain::Whole(one.into()))?,
            Kind::Size => self.value(from, |one: usize| Plain::Whole(one as u64))?,
            Kind::Number => self.value(from, Plain::Number)?,
            Kind::Name => self.value(from, Plain::Text)?,
            Kind::Path => self.value(from, Plain::Path)?,
            Kind::Word(name, names, _) => Some(Plain::Text(word(name, names, from)?.to_owned())),
            Kind::Text(_) => return from.deserialize_any(self),
        };
        self.put(plain)
    }
}

/// A text of a form; a bare number counts as its text, so that a missing unit is named.
impl Visitor<'_> for One<'_> {
    type Value = ();

    fn expecting(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("a text")
    }

    fn visit_unit<E: Error>(self) -> Result<(), E> {
        match self.is_optional {
            true => Ok(()),
            false => Err(E::invalid_type(Unexpected::Unit, &self)),
        }
    }

    fn visit_str<E: Error>(self, text: &str) -> Result<(), E> {
        self.put(Some(Plain::Text(text.to_owned())))
    }

    fn visit_i64<E: Error>(self, number: i64) -> Result<(), E> {
        self.visit_str(&number.to_string())
    }

    fn visit_u64<E: Error>(self, number: u64) -> Result<(), E> {
        self.visit_str(&number.to_string())
    }

    fn visit_f64<E: Error>(self, number: f64) -> Result<(), E> {
        self.visit_str(&number.to_string())
    }
}

/// Reads one of the words `names` of the type `name`.
pub(crate) fn word<'de, D: Deserializer<'de>>(
    name: &'static str,
    names: &'static [&'static str],
    from: D,
) -> Result<&'static str, D::Error> {
    from.deserialize_enum(name, names, Words { name, names })
}

/// Reads a word.
#[derive(Clone, Copy)]
struct Words {
    name: &'static str,
    names: &'static [&'static str],
}

impl<'de> Visitor<'de> for Words {
    type Value = &'static str;

    fn expecting(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "enum {}", self.name)
    }

    fn visit_enum<A: EnumAccess<'de>>(self, access: A) -> Result<&'static str, A::Error> {
        let (word, rest) = access.variant_seed(Variant(self.names))?;
        rest.unit_variant().map(|()| word)
    }
}

/// Reads the name of a word.
struct Variant(&'static [&'static str]);

impl<'de> DeserializeSeed<'de> for Variant {
    type Value = &'static str;

    fn deserialize<D: Deserializer<'de>>(self, from: D) -> Result<&'static str, D::Error> {
        from.deserialize_identifier(self)
    }
}

impl Visitor<'_> for Variant {
    type Value = &'static str;

    fn expecting(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("variant identifier")
    }

    fn visit_str<E: Error>(self, text: &str) -> Result<&'static str, E> {
        let known = self.0.iter().copied().find(|word| *word == text);
        known.ok_or_else(|| E::unknown_variant(text, self.0))
    }
}
