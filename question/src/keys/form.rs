//! Keys as a JSON schema (feature `schema`).

use schemars::{Schema, SchemaGenerator, json_schema};
use serde_json::{Map, Value, json};

use super::field::{Word, defaults};
use super::read::Written;
use super::row::{Row, Set};

/// The schema of the set of keys `T`: an object with these and no other properties.
#[doc(hidden)]
pub fn of<T: Set>(generator: &mut SchemaGenerator) -> Schema {
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
        one_or_list(&mut schema);
    }
    if !row.label.is_empty() {
        schema.insert("title".to_owned(), row.label.into());
    }
    schema.insert("description".to_owned(), row.meaning().into());
    if !row.words.is_empty() {
        schema.insert("enum".to_owned(), json!(row.words));
    }
    if let Some(default) = row.default {
        let default = defaults(row.kind, default, row.is_list);
        schema.insert("default".to_owned(), json!(Written { values: default, row }));
    }
    schema.to_value()
}

/// The schema of one of `words`.
pub(crate) fn of_words(about: &str, words: &[Word]) -> Schema {
    let one = |word: &Word| json!({ "type": "string", "const": word.name, "description": word.meaning.trim() });
    let all: Vec<Value> = words.iter().map(one).collect();
    json_schema!({ "description": about.trim(), "oneOf": all })
}

/// The pattern of a number without a unit.
pub(crate) const NUMBER: &str = r"\s*[+-]?([0-9]+\.?[0-9]*|\.[0-9]+)([eE][+-]?[0-9]+)?\s*";

/// A text of the form `pattern`.
pub(crate) fn pattern(pattern: &str) -> Schema {
    json_schema!({ "type": "string", "pattern": pattern })
}

/// One of `words`.
pub(crate) fn words(words: &[&str]) -> Schema {
    json_schema!({ "type": "string", "enum": words })
}

/// A number from `least` to `most`, also as text.
pub(crate) fn number(least: f64, most: f64) -> Schema {
    json_schema!({
        "type": ["number", "string"],
        "minimum": least,
        "maximum": most,
        "pattern": format!("^{NUMBER}$"),
    })
}

/// Lets the list `schema` also be written as its only value.
pub fn one_or_list(schema: &mut Schema) {
    let mut value = std::mem::take(schema).to_value();
    one_or_list_value(&mut value);
    *schema = Schema::try_from(value).unwrap_or_default();
}

fn one_or_list_value(schema: &mut Value) {
    let Value::Object(list) = schema else { return };
    if list.get("type").is_none_or(|kind| *kind != "array" && *kind != json!(["array", "null"])) {
        return;
    }
    let Some(item) = list.remove("items") else { return };
    list.remove("type");
    let many = json!({ "type": "array", "items": item.clone() });
    list.insert("anyOf".to_owned(), json!([item, many]));
}
