//! Tables of keys: one row for each key, from which flags, files, JSON and schemas all follow.

use serde::Serialize;
use std::path::PathBuf;

/// The value of a key, or one of its list, before or after it is read.
#[derive(Serialize, Clone, PartialEq, Debug)]
#[serde(untagged)]
pub(crate) enum Plain {
    /// Whether something is so.
    Flag(bool),
    /// A whole number.
    Whole(u64),
    /// A number.
    Number(f64),
    /// The path of a file.
    Path(PathBuf),
    /// A text.
    Text(String),
}

/// A word that a key knows.
#[derive(Clone, Copy, Debug)]
pub struct Word {
    /// The word.
    pub name: &'static str,
    /// Its meaning.
    pub meaning: &'static str,
}

/// The kind of the values of a key.
#[derive(Clone, Copy, Debug)]
pub enum Kind {
    /// Whether something is so.
    Flag,
    /// A whole number of 64 bits.
    Whole,
    /// A whole number of 32 bits.
    Narrow,
    /// A whole number as large as memory.
    Size,
    /// A number.
    Number,
    /// A text as it is.
    Name,
    /// The path of a file.
    Path,
    /// A text of a form, and what refuses others.
    Text(fn(&str) -> Result<(), String>),
    /// One of several words, and the name of their type.
    Word(&'static str, &'static [&'static str], &'static [Word]),
}

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
            meaning,
            made: None,
            value: "",
            heading,
            kind: T::KIND,
            is_list: T::IS_LIST,
            lists,
            signed: T::IS_SIGNED,
            default: None,
            range: None,
            conflicts: None,
            required: false,
            words: &[],
            examples: T::examples,
            #[cfg(feature = "schema")]
            schema: T::schema,
        }
    }

    /// The meaning on one line.
    #[must_use]
    pub fn meaning(&self) -> String {
        let text = self.made.map_or_else(|| self.meaning.to_owned(), |made| made());
        text.split_whitespace().collect::<Vec<_>>().join(" ")
    }
}

/// A type that the schemas know, with the feature `schema`.
#[cfg(feature = "schema")]
pub(crate) trait Formed: schemars::JsonSchema {}
#[cfg(feature = "schema")]
impl<T: schemars::JsonSchema> Formed for T {}
/// A type that the schemas know, with the feature `schema`.
#[cfg(not(feature = "schema"))]
pub(crate) trait Formed {}
#[cfg(not(feature = "schema"))]
impl<T> Formed for T {}

/// The type of one value of a key.
pub(crate) trait Value: Formed + Sized {
    /// Its kind.
    const KIND: Kind;
    /// Whether a value that begins with a dash is a value that is refused, and no flag.
    const IS_SIGNED: bool = false;

    /// The value that is written so.
    fn read(plain: Plain) -> Result<Self, String>;

    /// The value as it is written.
    fn plain(&self) -> Plain;

    /// Some values of a type whose texts have a form.
    fn examples() -> Vec<serde_json::Value> {
        Vec::new()
    }
}

/// The field of a key.
pub(crate) trait Field {
    /// Whether it says something.
    fn is_given(&self) -> bool;

    /// Drops the values of a list, and has it given.
    fn clear(&mut self);

    /// Takes a value; a list takes it behind the others.
    fn put(&mut self, plain: Plain) -> Result<(), String>;

    /// All values.
    fn values(&self) -> Vec<Plain>;
}

/// The type of the field of a key.
pub(crate) trait Described: Field + Formed + Sized {
    /// The kind of each value.
    const KIND: Kind;
    /// Whether there may be several.
    const IS_LIST: bool;
    /// Whether a value that begins with a dash is a value that is refused, and no flag.
    const IS_SIGNED: bool;

    /// Some values of a type whose texts have a form.
    fn examples() -> Vec<serde_json::Value>;

    /// The field of a key that is not given, and stands for `default` then.
    fn initial(default: Option<&'static str>) -> Self;

    /// This field, or `other` where it says nothing.
    fn or(self, other: Self) -> Self;

    /// The form of its values as a schema.
    #[cfg(feature = "schema")]
    fn schema(generator: &mut schemars::SchemaGenerator) -> schemars::Schema {
        generator.subschema_for::<Self>()
    }
}

/// The text `default` as a value of the kind `kind`.
pub(crate) fn of_default(kind: Kind, text: &str) -> Plain {
    match kind {
        Kind::Flag => Plain::Flag(text == "true"),
        Kind::Whole | Kind::Narrow | Kind::Size => Plain::Whole(text.parse().unwrap_or_default()),
        Kind::Number => Plain::Number(text.parse().unwrap_or_default()),
        Kind::Path => Plain::Path(text.into()),
        Kind::Name | Kind::Text(_) | Kind::Word(..) => Plain::Text(text.to_owned()),
    }
}

/// The values in the text `default` of a key of the kind `kind`, one behind the other.
pub(crate) fn defaults(kind: Kind, default: &'static str) -> impl Iterator<Item = Plain> {
    default.split(',').map(move |text| of_default(kind, text))
}

impl<T: Value> Field for Option<T> {
    fn is_given(&self) -> bool {
        self.is_some()
    }

    fn clear(&mut self) {}

    fn put(&mut self, plain: Plain) -> Result<(), String> {
        *self = Some(T::read(plain)?);
        Ok(())
    }

    fn values(&self) -> Vec<Plain> {
        self.iter().map(T::plain).collect()
    }
}

impl<T: Value> Described for Option<T> {
    const KIND: Kind = T::KIND;
    const IS_LIST: bool = false;
    const IS_SIGNED: bool = T::IS_SIGNED;

    fn examples() -> Vec<serde_json::Value> {
        T::examples()
    }

    fn initial(_: Option<&'static str>) -> Self {
        None
    }

    fn or(self, other: Self) -> Self {
        self.or(other)
    }
}

impl<T: Value> Field for Option<Vec<T>> {
    fn is_given(&self) -> bool {
        self.is_some()
    }

    fn clear(&mut self) {
        *self = Some(Vec::new());
    }

    fn put(&mut self, plain: Plain) -> Result<(), String> {
        self.get_or_insert_default().push(T::read(plain)?);
        Ok(())
    }

    fn values(&self) -> Vec<Plain> {
        self.iter().flatten().map(T::plain).collect()
    }
}

impl<T: Value> Described for Option<Vec<T>> {
    const KIND: Kind = T::KIND;
    const IS_LIST: bool = true;
    const IS_SIGNED: bool = T::IS_SIGNED;

    fn examples() -> Vec<serde_json::Value> {
        T::examples()
    }

    fn initial(_: Option<&'static str>) -> Self {
        None
    }

    fn or(self, other: Self) -> Self {
        self.or(other)
    }
}

impl<T: Value> Field for Vec<T> {
    fn is_given(&self) -> bool {
        !self.is_empty()
    }

    fn clear(&mut self) {
        Self::clear(self);
    }

    fn put(&mut self, plain: Plain) -> Result<(), String> {
        self.push(T::read(plain)?);
        Ok(())
    }

    fn values(&self) -> Vec<Plain> {
        self.iter().map(T::plain).collect()
    }
}

impl<T: Value> Described for Vec<T> {
    const KIND: Kind = T::KIND;
    const IS_LIST: bool = true;
    const IS_SIGNED: bool = T::IS_SIGNED;

    fn examples() -> Vec<serde_json::Value> {
        T::examples()
    }

    fn initial(default: Option<&'static str>) -> Self {
        let all = default.into_iter().flat_map(|text| defaults(T::KIND, text));
        all.filter_map(|plain| T::read(plain).ok()).collect()
    }

    fn or(self, other: Self) -> Self {
        if self.is_empty() { other } else { self }
    }
}

impl<T: Value + Default> Field for T {
    fn is_given(&self) -> bool {
        self.plain() != Self::default().plain()
    }

    fn clear(&mut self) {}

    fn put(&mut self, plain: Plain) -> Result<(), String> {
        *self = T::read(plain)?;
        Ok(())
    }

    fn values(&self) -> Vec<Plain> {
        vec![self.plain()]
    }
}

impl<T: Value + Default> Described for T {
    const KIND: Kind = T::KIND;
    const IS_LIST: bool = false;
    const IS_SIGNED: bool = T::IS_SIGNED;

    fn examples() -> Vec<serde_json::Value> {
        T::examples()
    }

    fn initial(default: Option<&'static str>) -> Self {
        let plain = default.map(|text| of_default(<T as Value>::KIND, text));
        plain.and_then(|plain| T::read(plain).ok()).unwrap_or_default()
    }

    fn or(self, _: Self) -> Self {
        self
    }
}

/// The value of a kind that is no text, as [`Plain`] has it.
macro_rules! plain_values {
    ($($type:ty: $kind:ident, $variant:ident, $signed:literal, |$value:ident| $to:expr, |$back:ident| $from:expr;)*) => {$(
        impl Value for $type {
            const KIND: Kind = Kind::$kind;
            const IS_SIGNED: bool = $signed;

            fn read(plain: Plain) -> Result<Self, String> {
                match plain {
                    Plain::$variant($value) => $to,
                    other => Err(format!("{other:?} is none of its values")),
                }
            }

            fn plain(&self) -> Plain {
                let $back = self;
                Plain::$variant($from)
            }
        }
    )*};
}

plain_values! {
    bool: Flag, Flag, false, |value| Ok(value), |value| *value;
    u64: Whole, Whole, true, |value| Ok(value), |value| *value;
    u32: Narrow, Whole, true, |value| value.try_into().map_err(|_| "too large".to_owned()), |value| u64::from(*value);
    usize: Size, Whole, true, |value| value.try_into().map_err(|_| "too large".to_owned()), |value| *value as u64;
    f64: Number, Number, true, |value| Ok(value), |value| *value;
    String: Name, Text, false, |value| Ok(value), |value| value.clone();
    PathBuf: Path, Path, false, |value| Ok(value), |value| value.clone();
}

/// Lets types that print what they read be values of keys; `signed` ones are read though they begin with a dash.
macro_rules! text_values {
    ($($type:ty, [$($example:expr),*] $(, $signed:ident)?;)*) => {$(
        impl $crate::keys::table::Value for $type {
            const KIND: $crate::keys::table::Kind = $crate::keys::table::Kind::Text(|text| {
                text.parse::<Self>().map(drop).map_err(|error| error.to_string())
            });
            $(const IS_SIGNED: bool = $crate::keys::table::$signed;)?

            fn read(plain: $crate::keys::table::Plain) -> Result<Self, String> {
                $crate::keys::table::text_of(plain).parse().map_err(|error: <Self as std::str::FromStr>::Err| error.to_string())
            }

            fn plain(&self) -> $crate::keys::table::Plain {
                $crate::keys::table::Plain::Text(self.to_string())
            }

            fn examples() -> Vec<serde_json::Value> {
                vec![$($example.into()),*]
            }
        }
    )*};
}
pub(crate) use text_values;

/// Marks types of values that may begin with a dash.
pub(crate) const SIGNED: bool = true;

/// The text of `plain`.
pub(crate) fn text_of(plain: Plain) -> String {
    match plain {
        Plain::Flag(flag) => flag.to_string(),
        Plain::Whole(number) => number.to_string(),
        Plain::Number(number) => number.to_string(),
        Plain::Path(path) => path.to_string_lossy().into_owned(),
        Plain::Text(text) => text,
    }
}

text_values! {
    pipeline::Nanos, ["29.718ms", "500us", "1e-3s"], SIGNED;
    pipeline::Bytes, ["38GiB", "40GB"], SIGNED;
    pipeline::Bandwidth, ["300GB/s", "200Gbit/s"], SIGNED;
    pipeline::Limit, ["1.5p", "38GiB"], SIGNED;
    pipeline::LayerLayout, ["Et*4|(t*4|)*14tmL", "E||t,t|*3L"];
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

/// Declares a set of keys, with their heading in the help and how their lists are written. Each row is a field:
/// its comment is the help of the flag and the description in the schema; behind its type stand the parts of
/// its [`Row`] that are not as usual.
macro_rules! keys {
    (
        $(#[doc = $about:literal])+
        pub struct $set:ident: $heading:expr, $lists:expr;
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

            /// The rows of the keys that say something.
            fn given_rows(&self) -> impl Iterator<Item = &'static $crate::keys::table::Row> + use<> {
                use $crate::keys::table::Field;
                let all = [$(self.$field.is_given()),*];
                Self::ROWS.iter().zip(all).filter(|(_, given)| *given).map(|(row, _)| row)
            }

            /// The names of the keys that say something.
            pub fn given(&self) -> impl Iterator<Item = &'static str> + use<> {
                self.given_rows().map(|row| row.name)
            }

            /// These keys, and those of `other` where these say nothing.
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
            const STRUCT: &'static str = stringify!($set);
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
    /// What the set is about: the lines of its comment.
    #[cfg_attr(not(feature = "schema"), allow(dead_code))]
    const ABOUT: &'static str;
    /// The name of its type.
    const STRUCT: &'static str;
    /// The names of its own keys.
    const NAMES: &'static [&'static str];

    /// The rows of its keys, and of those of the set within.
    fn rows() -> Vec<&'static Row>;

    /// The fields of its keys, and of those of the set within.
    fn fields(&self) -> Vec<&dyn Field>;

    /// The same, to be written to.
    fn fields_mut(&mut self) -> Vec<&mut dyn Field>;
}
