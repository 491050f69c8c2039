//! Tables of keys: one row for each key, from which flags, files, JSON and schemas all follow.

pub use super::row::{Lists, Row, Set, dashed};

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

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;
    use crate::keys::Keys;
    use crate::keys::field::{Kind, defaults};
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
