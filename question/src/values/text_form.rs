//! Values of keys that are written as text.

/// Lets values that print what they read be values of keys, written and read by serde as that text; with the
/// feature `schema` also gives them a JSON schema: its name, description, form and examples. `SIGNED` ones are
/// read though they begin with a dash, so that the error is their own.
macro_rules! text_form {
    ($($type:ty: $name:literal, $description:literal, $form:expr, [$($example:expr),*] $(, $signed:ident)?;)*) => {
        $crate::keys::field::text_values! { $($type, [$($example),*] $(, $signed)?;)* }

        $(
        impl serde::Serialize for $type {
            fn serialize<S: serde::Serializer>(&self, to: S) -> Result<S::Ok, S::Error> {
                pipeline::as_text::serialize(self, to)
            }
        }

        impl<'de> serde::Deserialize<'de> for $type {
            fn deserialize<D: serde::Deserializer<'de>>(from: D) -> Result<Self, D::Error> {
                pipeline::as_text::deserialize(from)
            }
        }

        #[cfg(feature = "schema")]
        impl schemars::JsonSchema for $type {
            fn schema_name() -> std::borrow::Cow<'static, str> {
                $name.into()
            }

            fn json_schema(_: &mut schemars::SchemaGenerator) -> schemars::Schema {
                let mut schema: schemars::Schema = $form;
                schema.insert("description".to_owned(), $description.into());
                schema.insert("examples".to_owned(), <Self as $crate::keys::field::Value>::examples().into());
                schema
            }
        }
        )*
    };
}
pub(crate) use text_form;
