//! Tables of keys: one row for each key, from which flags, files, JSON and schemas all follow.

use super::field::{Described, Field, Kind, Value};

/// How the lists of a set of keys are written in files.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum Lists {
    /// As a text or a list of texts; numbers count as their text.
    OfTexts,
    /// As a value or a list of values.
    OfValues,
}

/// A key: its name and meaning, and the values that it takes.
#[derive(Clone, Copy, Debug)]
pub struct Row {
    /// The name in files and as a flag, with dashes.
    pub name: &'static str,
    /// The name of the field, with underscores.
    pub field: &'static str,
    /// The name in forms, in the words of the field; none where no form has the key.
    pub label: &'static str,
    /// The meaning: the lines of the comment on the field.
    pub meaning: &'static str,
    /// The meaning, where it is not written but made.
    pub made: Option<fn() -> String>,
    /// The name of the value in the help.
    pub value: &'static str,
    /// The heading in the help; none where it is that of the command.
    pub heading: &'static str,
    /// The kind of each value.
    pub kind: Kind,
    /// Whether there may be several values.
    pub is_list: bool,
    /// How a list is written in files.
    pub lists: Lists,
    /// Whether a value that begins with a dash is still a value, to be refused as one.
    pub signed: bool,
    /// The value where none is given, as text.
    pub default: Option<&'static str>,
    /// The least and the largest number that a flag takes.
    pub range: Option<(u64, u64)>,
    /// The field of a key that excludes this one as a flag.
    pub conflicts: Option<&'static str>,
    /// Whether files must give it.
    pub required: bool,
    /// The words that a text may be, for the schema.
    pub words: &'static [&'static str],
    /// Some values, where texts have a form.
    pub examples: fn() -> Vec<serde_json::Value>,
    /// The form of the values as a schema.
    #[cfg(feature = "schema")]
    pub schema: fn(&mut schemars::SchemaGenerator) -> schemars::Schema,
}

impl Row {
    /// The row of a key of type `T` without anything particular.
    pub const fn of<T: Described>(
        (name, field): (&'static str, &'static str),
        meaning: &'static str,
        (heading, lists): (&'static str, Lists),
    ) -> Self {
        Self {
            name,
            field,
            label: "",
            meaning,
            made: None,
            value: "",
            heading,
            kind: <T::Value as Value>::KIND,
            is_list: T::IS_LIST,
            lists,
            signed: <T::Value as Value>::IS_SIGNED,
            default: None,
            range: None,
            conflicts: None,
            required: false,
            words: &[],
            examples: <T::Value as Value>::examples,
            #[cfg(feature = "schema")]
            schema: T::schema,
        }
    }

    /// The meaning on one line.
    #[must_use]
    pub fn meaning(&self) -> String {
        let text = self.made.map_or_else(|| self.meaning.to_owned(), |made| made());
        let lines = text.lines().map(str::trim).filter(|line| !line.is_empty());
        lines.collect::<Vec<_>>().join(" ")
    }
}

/// The bytes of `field` with dashes for underscores.
#[doc(hidden)]
#[must_use]
pub const fn dashed<const LENGTH: usize>(field: &str) -> [u8; LENGTH] {
    let (bytes, mut name, mut at) = (field.as_bytes(), [0; LENGTH], 0);
    while at < LENGTH {
        name[at] = if bytes[at] == b'_' { b'-' } else { bytes[at] };
        at += 1;
    }
    name
}

/// Declares a set of keys, with their heading in the help and how their lists are written. Each row is a field:
/// its comment is the help of the flag and the description in the schema; behind its type stand the parts of
/// its [`Row`] that are not as usual. A crate with a feature `schema` has the JSON schema of the set with it.
#[macro_export]
macro_rules! keys {
    // The name of the key of a field.
    (@name $field:ident) => {{
        const FIELD: &str = stringify!($field);
        const NAME: &[u8] = &$crate::keys::table::dashed::<{ FIELD.len() }>(FIELD);
        match std::str::from_utf8(NAME) {
            Ok(name) => name,
            Err(_) => FIELD,
        }
    }};
    // The name of a set in errors and schemas: that of its type, unless another is given.
    (@called $set:ident) => {
        stringify!($set)
    };
    (@called $set:ident $known:literal) => {
        $known
    };
    (
        $(#[doc = $about:literal])+
        pub struct $set:ident $(as $known:literal)?: $heading:expr, $lists:expr;
        $($(#[doc = $meaning:literal])+ $field:ident: $type:ty $(, $part:ident: $value:expr)*;)*
        $(and $(#[doc = $nested_about:literal])+ $nested:ident: $nested_type:ty;)?
    ) => {
        $(#[doc = $about])+
        #[derive(Clone, PartialEq, Debug)]
        pub struct $set {
            $($(#[doc = $meaning])+ pub $field: $type,)*
            $($(#[doc = $nested_about])+ pub $nested: $nested_type,)?
        }

        impl $set {
            /// The rows of all keys.
            pub const ROWS: &'static [$crate::keys::table::Row] = &[$($crate::keys::table::Row {
                $($part: $value,)*
                ..$crate::keys::table::Row::of::<$type>(
                    ($crate::keys!(@name $field), stringify!($field)),
                    concat!($($meaning, "\n"),+),
                    ($heading, $lists),
                )
            }),*];

            /// The names of all keys.
            pub const NAMES: &'static [&'static str] = &[$($crate::keys!(@name $field)),*];

            /// The rows of the given keys.
            fn given_rows(&self) -> impl Iterator<Item = &'static $crate::keys::table::Row> + use<> {
                use $crate::keys::field::Field;
                let all = [$(self.$field.is_given()),*];
                Self::ROWS.iter().zip(all).filter(|(_, given)| *given).map(|(row, _)| row)
            }

            /// The names of the given keys.
            pub fn given(&self) -> impl Iterator<Item = &'static str> + use<> {
                self.given_rows().map(|row| row.name)
            }

            /// These keys, and those of `other` where these are not given. Keys with a default cannot tell
            /// whether they are given: they lie over those of files as flags do.
            #[must_use]
            pub fn or(self, other: Self) -> Self {
                use $crate::keys::field::Described;
                Self {
                    $($field: Described::or(self.$field, other.$field),)*
                    $($nested: self.$nested.or(other.$nested),)?
                }
            }
        }

        impl Default for $set {
            fn default() -> Self {
                use $crate::keys::field::Described;
                let mut rows = Self::ROWS.iter();
                let mut default = || rows.next().and_then(|row| row.default);
                Self {
                    $($field: Described::initial(default()),)*
                    $($nested: <$nested_type>::default(),)?
                }
            }
        }

        impl $crate::keys::table::Set for $set {
            const ABOUT: &'static str = concat!($($about, "\n"),+);
            const STRUCT: &'static str = $crate::keys!(@called $set $($known)?);
            const NAMES: &'static [&'static str] = Self::NAMES;

            fn rows() -> Vec<&'static $crate::keys::table::Row> {
                let rows = Self::ROWS.iter();
                $(let rows = rows.chain(<$nested_type>::ROWS);)?
                rows.collect()
            }

            fn fields(&self) -> Vec<&dyn $crate::keys::field::Field> {
                let fields: Vec<&dyn $crate::keys::field::Field> = vec![$(&self.$field),*];
                $(let fields = fields.into_iter().chain(self.$nested.fields()).collect();)?
                fields
            }

            fn fields_mut(&mut self) -> Vec<&mut dyn $crate::keys::field::Field> {
                let fields: Vec<&mut dyn $crate::keys::field::Field> = vec![$(&mut self.$field),*];
                $(let fields = fields.into_iter().chain(self.$nested.fields_mut()).collect();)?
                fields
            }
        }

        impl serde::Serialize for $set {
            fn serialize<S: serde::Serializer>(&self, to: S) -> Result<S::Ok, S::Error> {
                let mut map = to.serialize_map(None)?;
                $crate::keys::read::write(self, &mut map)?;
                serde::ser::SerializeMap::end(map)
            }
        }

        impl<'de> serde::Deserialize<'de> for $set {
            fn deserialize<D: serde::Deserializer<'de>>(from: D) -> Result<Self, D::Error> {
                $crate::keys::read::deserialize(from)
            }
        }

        #[cfg(feature = "schema")]
        impl schemars::JsonSchema for $set {
            fn schema_name() -> std::borrow::Cow<'static, str> {
                <$set as $crate::keys::table::Set>::STRUCT.into()
            }

            fn json_schema(generator: &mut schemars::SchemaGenerator) -> schemars::Schema {
                $crate::keys::form::of::<$set>(generator)
            }
        }
    };
}
pub use keys;

/// A set of keys with its rows and fields, in the same order.
pub trait Set: Default {
    /// The description of the set: the lines of its comment.
    const ABOUT: &'static str;
    /// Its name in errors and schemas.
    const STRUCT: &'static str;
    /// The names of its own keys.
    const NAMES: &'static [&'static str];

    /// The rows of its keys, and of those of the set within.
    fn rows() -> Vec<&'static Row>;

    /// The fields of its keys, and of those of the set within.
    fn fields(&self) -> Vec<&dyn Field>;

    /// The mutable fields of its keys, and of those of the set within.
    fn fields_mut(&mut self) -> Vec<&mut dyn Field>;
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;
    use crate::keys::Keys;
    use crate::keys::field::defaults;
    use crate::{encoder, fsdp, replay, rl, search};

    #[test]
    fn defaults_and_examples_of_rows_are_values() {
        fn check<T: Set>() {
            let mut set = T::default();
            for (row, field) in T::rows().into_iter().zip(set.fields_mut()) {
                let given = field.values().iter().map(|one| json!(one)).collect::<Vec<_>>();
                let default =
                    row.default.into_iter().flat_map(|text| defaults(row.kind, text, row.is_list));
                let default: Vec<_> = default.map(|one| json!(one)).collect();
                assert!(row.default.is_none() || given == default, "{}", row.name);
                let is_form = matches!(row.kind, Kind::Text(_));
                assert_eq!((row.examples)().is_empty(), !is_form, "{}", row.name);
            }
        }
        check::<Keys>();
        check::<fsdp::FsdpKeys>();
        check::<rl::RlKeys>();
        check::<encoder::EncoderKeys>();
        check::<search::SearchKeys>();
        check::<replay::ReplayKeys>();
    }
}
