//! A key and a set of keys, as all that reads and writes them sees them.

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
