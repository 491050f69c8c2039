//! The forms in which values are written: times, sizes, rates, laws and the like, from the schemas.

use std::collections::BTreeMap;

use question::questions::QUESTIONS;
use serde_json::Value;

use super::markdown::{anchor, code, sentence};
use super::schemas;

/// The page of the forms, as pages beside it name it.
const PAGE: &str = "forms.md";

/// The last part of a reference within a schema.
pub fn name_of(reference: &str) -> &str {
    reference.rsplit('/').next().unwrap_or(reference)
}

/// Whether a definition is the form of a value, and no key or table.
pub fn is_form(name: &str, definition: &Value) -> bool {
    !name.starts_with("key.") && definition["properties"].is_null() && !has_table(definition)
}

/// The names that a value can have, each with its meaning, if they are all that it can be.
pub fn names(definition: &Value) -> Option<Vec<(String, String)>> {
    if let Some(values) = definition["enum"].as_array() {
        return Some(values.iter().map(|value| (json(value), String::new())).collect());
    }
    let value = |one: &Value| {
        let meaning = one["description"].as_str().unwrap_or_default();
        Some((json(one.get("const")?), sentence(meaning)))
    };
    definition["oneOf"].as_array()?.iter().map(value).collect()
}

/// Whether a definition can be a table.
fn has_table(definition: &Value) -> bool {
    let all = definition["anyOf"].as_array().into_iter().flatten();
    all.into_iter().any(|one| !one["allOf"].is_null())
}

/// The form of the values of a key, in words.
pub fn of(schema: &Value, definitions: &Value) -> String {
    if let Some(reference) = schema["$ref"].as_str() {
        let name = name_of(reference);
        return match names(&definitions[name]) {
            Some(names) => one_of(&names),
            None => format!("[{name}]({PAGE}#{})", anchor(name)),
        };
    }
    if let Some(only) = schema["allOf"].as_array().and_then(|all| all.first()) {
        return of(only, definitions);
    }
    if let Some(names) = names(schema) {
        return one_of(&names);
    }
    if let Some(ways) = schema["anyOf"].as_array() {
        return either(ways, definitions);
    }
    match schema["type"].as_str() {
        Some("array") => format!("a list of {}", plural(&of(&schema["items"], definitions))),
        Some("integer") => "a whole number".to_owned(),
        Some("number") => "a number".to_owned(),
        Some("boolean") => "`true` or `false`".to_owned(),
        Some("string") => "text".to_owned(),
        _ => "a table".to_owned(),
    }
}

fn one_of(names: &[(String, String)]) -> String {
    let names: Vec<&str> = names.iter().map(|(name, _)| name.as_str()).collect();
    match names.split_last() {
        Some((last, rest)) if !rest.is_empty() => format!("{} or {last}", rest.join(", ")),
        _ => names.concat(),
    }
}

/// One value or a list of such, or several ways.
fn either(ways: &[Value], definitions: &Value) -> String {
    if let [one, list] = ways
        && list["type"] == "array"
        && list["items"] == *one
    {
        let one = of(one, definitions);
        return format!("{one}, or a list of {}", plural(&one));
    }
    ways.iter().map(|way| of(way, definitions)).collect::<Vec<_>>().join(", or ")
}

fn plural(form: &str) -> String {
    match form {
        "a whole number" => "whole numbers".to_owned(),
        "a number" => "numbers".to_owned(),
        "a table" => "tables".to_owned(),
        "text" => "texts".to_owned(),
        _ if form.starts_with('`') => "these".to_owned(),
        _ => form.to_owned(),
    }
}

/// A value as it stands in a file, or as JSON where it is not a single value.
pub fn json(value: &Value) -> String {
    code(&value.to_string())
}

/// All forms of all questions, in the order of their names.
pub fn all() -> String {
    let mut forms: BTreeMap<String, Value> = BTreeMap::new();
    for schema in &QUESTIONS {
        let schema = schemas::named(schema.name).unwrap();
        for (name, form) in schema["definitions"].as_object().into_iter().flatten() {
            if is_form(name, form) && name != "range" && names(form).is_none() {
                let before = forms.insert(name.clone(), form.clone());
                assert!(before.is_none_or(|before| before == *form), "{name} has two meanings");
            }
        }
    }
    forms.iter().map(|(name, form)| section(name, form)).collect()
}

fn section(name: &str, form: &Value) -> String {
    let mut text = format!("## {name}\n\n");
    text += &sentence(form["description"].as_str().unwrap_or_default());
    text += "\n\n";
    if let Some(examples) = form["examples"].as_array() {
        let examples: Vec<String> = examples.iter().map(json).collect();
        text += &format!("For example {}.\n\n", examples.join(", "));
    }
    text
}
