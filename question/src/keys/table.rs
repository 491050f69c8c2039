//! Tables of keys: one row for each key, from which flags, files, JSON and schemas all follow.

pub(crate) use super::field::{Described, Field};

use super::field::{Kind, Value};

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
    pub(crate) const fn of<T: Described>(
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
pub(crate) const fn dashed<const LENGTH: usize>(field: &str) -> [u8; LENGTH] {
    let (bytes, mut name, mut at) = (field.as_bytes(), [0; LENGTH], 0);
    while at < LENGTH {
        name[at] = if bytes[at] == b'_' { b'-' } else { bytes[at] };
        at += 1;
    }
    name
}

/// The name of the key of a field.
macro_rules! name_of {
    ($field:ident) => {{
        const FIELD: &str = stringify!($field);
        const NAME: &[u8] = &$crate::keys::table::dashed::<{ FIELD.len() }>(FIELD);
        match std::str::from_utf8(NAME) {
            Ok(name) => name,
            Err(_) => FIELD,
        }
    }};
}
pub(crate) use name_of;

/// The name of a set of keys in errors and schemas: that of its type, unless another is given.
macro_rules! struct_name {
    ($set:ident) => {
        stringify!($set)
    };
    ($set:ident, $known:literal) => {
        $known
    };
}
pub(crate) use struct_name;

/// Declares a set of keys, with their heading in the help and how their lists are written. Each row is a field:
/// its comment is the help of the flag and the description in the schema; behind its type stand the parts of
/// its [`Row`] that are not as usual.
macro_rules! keys {
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
                    ($crate::keys::table::name_of!($field), stringify!($field)),
                    concat!($($meaning, "\n"),+),
                    ($heading, $lists),
                )
            }),*];

            /// The names of all keys.
            pub const NAMES: &'static [&'static str] = &[$($crate::keys::table::name_of!($field)),*];

            /// The rows of the given keys.
            fn given_rows(&self) -> impl Iterator<Item = &'static $crate::keys::table::Row> + use<> {
                use $crate::keys::table::Field;
                let all = [$(self.$field.is_given()),*];
                Self::ROWS.iter().zip(all).filter(|(_, given)| *given).map(|(row, _)| row)
            }

            /// The names of the given keys.
            pub fn given(&self) -> impl Iterator<Item = &'static str> + use<> {
                self.given_rows().map(|row| row.name)
            }

            /// These keys, and those of `other` where these are not given.
            #[must_use]
            pub fn or(self, other: Self) -> Self {
                use $crate::keys::table::Described;
                Self {
                    $($field: Described::or(self.$field, other.$field),)*
                    $($nested: self.$nested.or(other.$nested),)?
                }
            }
        }

        impl Default for $set {
            fn default() -> Self {
                use $crate::keys::table::Described;
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
            const STRUCT: &'static str = $crate::keys::table::struct_name!($set $(, $known)?);
            const NAMES: &'static [&'static str] = Self::NAMES;

            fn rows() -> Vec<&'static $crate::keys::table::Row> {
                let rows = Self::ROWS.iter();
                $(let rows = rows.chain(<$nested_type>::ROWS);)?
                rows.collect()
            }

            fn fields(&self) -> Vec<&dyn $crate::keys::table::Field> {
                let fields: Vec<&dyn $crate::keys::table::Field> = vec![$(&self.$field),*];
                $(let fields = fields.into_iter().chain(self.$nested.fields()).collect();)?
                fields
            }

            fn fields_mut(&mut self) -> Vec<&mut dyn $crate::keys::table::Field> {
                let fields: Vec<&mut dyn $crate::keys::table::Field> = vec![$(&mut self.$field),*];
                $(let fields = fields.into_iter().chain(self.$nested.fields_mut()).collect();)?
                fields
            }
        }

        $crate::keys::read::reads_and_writes!($set);
        #[cfg(feature = "clap")]
        $crate::keys::flags::flags!($set);
        #[cfg(feature = "schema")]
        $crate::keys::form::form!($set);
    };
}
pub(crate) use keys;

/// A set of keys with its rows and fields, in the same order.
pub(crate) trait Set: Default {
    /// The description of the set: the lines of its comment.
    #[cfg_attr(not(feature = "schema"), allow(dead_code))]
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
