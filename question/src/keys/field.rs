//! The fields of keys: the types of their values, and how generic code reads and writes them.

use std::path::PathBuf;

use serde::Serialize;

/// The value of a key, or one of its list, before or after it is read.
#[derive(Serialize, Clone, PartialEq, Debug)]
#[serde(untagged)]
pub enum Plain {
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

/// A word that a key accepts.
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
    /// A text of a form, and its validator.
    Text(fn(&str) -> Result<(), String>),
    /// One of several words, and the name of their type.
    Word(&'static str, &'static [&'static str], &'static [Word]),
}

/// A type with a JSON schema, with the feature `schema`.
#[cfg(feature = "schema")]
pub trait Formed: schemars::JsonSchema {}
#[cfg(feature = "schema")]
impl<T: schemars::JsonSchema> Formed for T {}
/// A type with a JSON schema, with the feature `schema`.
#[cfg(not(feature = "schema"))]
pub trait Formed {}
#[cfg(not(feature = "schema"))]
impl<T> Formed for T {}

/// The type of one value of a key.
pub trait Value: Formed + Sized {
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
pub trait Field {
    /// Whether it says something.
    fn is_given(&self) -> bool;

    /// Drops the values of a list, and has it given.
    fn clear(&mut self);

    /// Takes a value; a list takes it behind the others.
    fn put(&mut self, plain: Plain) -> Result<(), String>;

    /// All values.
    fn values(&self) -> Vec<Plain>;
}

/// The type of the field of a key: `Option<T>` or `Option<Vec<T>>` where a key has no default,
/// `T` or `Vec<T>` where it has a default.
pub trait Described: Formed + Default {
    /// The type of one value.
    type Value: Value;
    /// Whether there may be several.
    const IS_LIST: bool;

    /// Whether it says something.
    fn says(&self) -> bool;

    /// Takes a value; a list takes it behind the others.
    fn take(&mut self, value: Self::Value);

    /// All values.
    fn all(&self) -> impl Iterator<Item = &Self::Value>;

    /// Drops the values of a list, and has it given.
    fn restart(&mut self) {}

    /// This field, or `other` where it is not given.
    fn or(self, other: Self) -> Self {
        if self.says() { self } else { other }
    }

    /// The field of a key that is not given, and stands for `default` then.
    fn initial(default: Option<&'static str>) -> Self {
        let mut field = Self::default();
        let all =
            default.into_iter().flat_map(|text| defaults(Self::Value::KIND, text, Self::IS_LIST));
        all.filter_map(|plain| Self::Value::read(plain).ok()).for_each(|value| field.take(value));
        field
    }

    /// The form of its values as a schema.
    #[cfg(feature = "schema")]
    fn schema(generator: &mut schemars::SchemaGenerator) -> schemars::Schema {
        generator.subschema_for::<Self>()
    }
}

impl<T: Described> Field for T {
    fn is_given(&self) -> bool {
        self.says()
    }

    fn clear(&mut self) {
        self.restart();
    }

    fn put(&mut self, plain: Plain) -> Result<(), String> {
        self.take(T::Value::read(plain)?);
        Ok(())
    }

    fn values(&self) -> Vec<Plain> {
        self.all().map(Value::plain).collect()
    }
}

impl<T: Value> Described for Option<T> {
    type Value = T;
    const IS_LIST: bool = false;

    fn says(&self) -> bool {
        self.is_some()
    }

    fn take(&mut self, value: T) {
        *self = Some(value);
    }

    fn all(&self) -> impl Iterator<Item = &T> {
        self.iter()
    }
}

impl<T: Value> Described for Option<Vec<T>> {
    type Value = T;
    const IS_LIST: bool = true;

    fn says(&self) -> bool {
        self.is_some()
    }

    fn take(&mut self, value: T) {
        self.get_or_insert_default().push(value);
    }

    fn all(&self) -> impl Iterator<Item = &T> {
        self.iter().flatten()
    }

    fn restart(&mut self) {
        *self = Some(Vec::new());
    }
}

impl<T: Value> Described for Vec<T> {
    type Value = T;
    const IS_LIST: bool = true;

    fn says(&self) -> bool {
        !self.is_empty()
    }

    fn take(&mut self, value: T) {
        self.push(value);
    }

    fn all(&self) -> impl Iterator<Item = &T> {
        self.iter()
    }

    fn restart(&mut self) {
        self.clear();
    }
}

impl<T: Value + Default> Described for T {
    type Value = T;
    const IS_LIST: bool = false;

    fn says(&self) -> bool {
        self.plain() != Self::default().plain()
    }

    fn take(&mut self, value: T) {
        *self = value;
    }

    fn all(&self) -> impl Iterator<Item = &T> {
        std::iter::once(self)
    }
}

/// The values in the text `default` of a key of the kind `kind`: one, or those of a list.
pub(crate) fn defaults(kind: Kind, default: &'static str, is_list: bool) -> Vec<Plain> {
    let one = |text: &str| match kind {
        Kind::Flag => Plain::Flag(text == "true"),
        Kind::Whole | Kind::Narrow | Kind::Size => Plain::Whole(text.parse().unwrap_or_default()),
        Kind::Number => Plain::Number(text.parse().unwrap_or_default()),
        Kind::Path => Plain::Path(text.into()),
        Kind::Name | Kind::Text(_) | Kind::Word(..) => Plain::Text(text.to_owned()),
    };
    match is_list {
        true => default.split(',').map(one).collect(),
        false => vec![one(default)],
    }
}

/// The value of a kind that is not text, as [`Plain`] has it.
macro_rules! plain_values {
    ($(
        $type:ty: $kind:ident, $variant:ident, $signed:literal,
        |$value:ident| $to:expr, |$back:ident| $from:expr;
    )*) => {$(
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
        impl $crate::keys::field::Value for $type {
            const KIND: $crate::keys::field::Kind = $crate::keys::field::Kind::Text(|text| {
                text.parse::<Self>().map(drop).map_err(|error| error.to_string())
            });
            $(const IS_SIGNED: bool = $crate::keys::field::$signed;)?

            fn read(plain: $crate::keys::field::Plain) -> Result<Self, String> {
                let read: Result<Self, <Self as std::str::FromStr>::Err> =
                    $crate::keys::field::text_of(plain).parse();
                read.map_err(|error| error.to_string())
            }

            fn plain(&self) -> $crate::keys::field::Plain {
                $crate::keys::field::Plain::Text(self.to_string())
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
