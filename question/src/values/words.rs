//! Values of keys that are one of several words.

/// Declares a choice between words: the comment of each is its meaning in help and schema.
macro_rules! words {
    (
        $(#[doc = $about:literal])+
        $(derive($derived:ident),)? pub enum $type:ident {
            $($(#[doc = $meaning:literal])+ $variant:ident = $word:literal $(, $default:ident)?;)+
        }
    ) => {
        $(#[doc = $about])+
        #[derive(Clone, Copy, PartialEq, Eq, Debug)]
        $(#[derive($derived)])?
        pub enum $type {
            $($(#[doc = $meaning])+ $(#[$default])? $variant,)+
        }

        impl $type {
            /// All of them, in the order in which they are listed.
            pub const ALL: &'static [Self] = &[$(Self::$variant),+];
            /// Their words.
            const NAMES: &'static [&'static str] = &[$($word),+];
            /// Their words and meanings.
            const WORDS: &'static [$crate::keys::field::Word] = &[$($crate::keys::field::Word {
                name: $word,
                meaning: concat!($($meaning, "\n"),+),
            }),+];

            /// As it is written.
            #[must_use]
            pub const fn name(self) -> &'static str {
                match self {
                    $(Self::$variant => $word,)+
                }
            }

            /// The choice of that name.
            fn named(name: &str) -> Option<Self> {
                Self::ALL.iter().copied().find(|one| one.name() == name)
            }
        }

        impl $crate::keys::field::Value for $type {
            const KIND: $crate::keys::field::Kind =
                $crate::keys::field::Kind::Word(stringify!($type), Self::NAMES, Self::WORDS);

            fn read(plain: $crate::keys::field::Plain) -> Result<Self, String> {
                let name = $crate::keys::field::text_of(plain);
                Self::named(&name).ok_or_else(|| format!("there is no `{name}`"))
            }

            fn plain(&self) -> $crate::keys::field::Plain {
                $crate::keys::field::Plain::Text(self.name().to_owned())
            }
        }

        impl serde::Serialize for $type {
            fn serialize<S: serde::Serializer>(&self, to: S) -> Result<S::Ok, S::Error> {
                to.serialize_str(self.name())
            }
        }

        impl<'de> serde::Deserialize<'de> for $type {
            fn deserialize<D: serde::Deserializer<'de>>(from: D) -> Result<Self, D::Error> {
                let name = $crate::keys::read::word(stringify!($type), Self::NAMES, from)?;
                Self::named(name).ok_or_else(|| serde::de::Error::unknown_variant(name, Self::NAMES))
            }
        }

        #[cfg(feature = "clap")]
        impl clap::ValueEnum for $type {
            fn value_variants<'a>() -> &'a [Self] {
                Self::ALL
            }

            fn to_possible_value(&self) -> Option<clap::builder::PossibleValue> {
                let word = Self::WORDS.iter().find(|word| word.name == self.name());
                word.map($crate::keys::flags::possible)
            }
        }

        #[cfg(feature = "schema")]
        impl schemars::JsonSchema for $type {
            fn schema_name() -> std::borrow::Cow<'static, str> {
                stringify!($type).into()
            }

            fn json_schema(_: &mut schemars::SchemaGenerator) -> schemars::Schema {
                $crate::keys::form::of_words(concat!($($about, "\n"),+), Self::WORDS)
            }
        }
    };
}
pub(crate) use words;
