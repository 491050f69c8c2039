//! Keys as a JSON schema (feature `schema`).

use schemars::{Schema, SchemaGenerator, json_schema};
use serde_json::{Map, Value, json};

use super::table::{Row, Set, Word, defaults, of_default};

/// Gives a set of keys its JSON schema.
macro_rules! form {
    ($set:ident) => {
        impl schemars::JsonSchema for $set {
            fn schema_name() -> std::borrow::Cow<'static, str> {
                stringify!($set).into()
            }

            fn json_schema(generator: &mut schemars::SchemaGenerator) -> schemars::Schema {
                $crate::keys::form::of::<$set>(generator)
            }
        }
    };
}
pub(crate) use form;

/// The schema of the set of keys `T`: an object with these and no other properties.
pub(crate) fn of<T: Set>(generator: &mut SchemaGenerator) -> Schema {
    let mut properties = Map::new();
    for row in T::rows() {
        properties.insert(row.name.to_owned(), property(row, generator));
    }
    let mut schema = json_schema!({
        "description": T::ABOUT.trim(),
        "type": "object",
        "properties": properties,
        "additionalProperties": false,
    });
    let required = T::rows().into_iter().filter(|row| row.required).map(|row| row.name);
    let required: Vec<&str> = required.collect();
    if !required.is_empty() {
        schema.insert("required".to_owned(), json!(required));
    }
    schema
}

fn property(row: &Row, generator: &mut SchemaGenerator) -> Value {
    let mut schema = (row.schema)(generator);
    if row.is_list {
        crate::schema::one_or_list(&mut schema);
    }
    schema.insert("description".to_owned(), row.meaning().into());
    if !row.words.is_empty() {
        schema.insert("enum".to_owned(), json!(row.words));
    }
    if let Some(default) = row.default {
        let default = match row.is_list {
            true => json!(defaults(row.kind, default).collect::<Vec<_>>()),
            false => json!(of_default(row.kind, default)),
        };
        schema.insert("default".to_owned(), default);
    }
    schema.to_value()
}

/// The schema of one of `words`.
pub(crate) fn of_words(about: &str, words: &[Word]) -> Schema {
    let one = |word: &Word| json!({ "type": "string", "const": word.name, "description": word.meaning.trim() });
    let all: Vec<Value> = words.iter().map(one).collect();
    json_schema!({ "description": about.trim(), "oneOf": all })
}
