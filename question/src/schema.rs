//! JSON schemas of questions (feature `schema`).
//!
//! The schemas are derived from the types that read the questions: the doc comment of a key is its
//! description, and units have a pattern and examples. They follow draft 7, which editors of TOML support.

use schemars::generate::SchemaSettings;
use schemars::{JsonSchema, SchemaGenerator};
use serde_json::{Value, json};

use crate::keys::Keys;
use crate::keys::read::Object;
use crate::scenario::{Head, SettingHead};

/// The schema of a question that `T` reads, with its `title` and `examples`.
#[must_use]
pub fn of<T: JsonSchema>(title: &str, examples: &[Value]) -> Value {
    let mut schema = generator().into_root_schema_for::<T>().to_value();
    if let Value::Object(all) = &mut schema {
        all.insert("title".to_owned(), title.into());
        all.insert("examples".to_owned(), examples.into());
    }
    tidy(&mut schema);
    schema
}

/// The schema of a scenario: keys at the top, in each `[[setting]]`, and as the axes of a `[sweep]`.
#[must_use]
pub fn scenario() -> Value {
    let example = json!({
        "schedule": ["1f1b", "zb-h1"],
        "stages": 8,
        "microbatches": 24,
        "forward": "10ms",
        "backward-input": "10ms",
        "backward-weight": "10ms",
        "setting": [{ "name": "near", "hop": "10us" }, { "name": "far", "hop": "500us" }],
    });
    of_scenario("debubble scenario", &example)
}

/// The schema of a scenario that has a `[sweep]`.
#[must_use]
pub fn sweep() -> Value {
    let example = json!({
        "schedule": "1f1b",
        "stages": 8,
        "microbatches": 24,
        "forward": "10ms",
        "backward": "20ms",
        "sweep": { "hop": { "from": "0us", "to": "500us", "step": "50us" } },
    });
    let mut schema = of_scenario("debubble sweep", &example);
    schema["required"] = json!(["sweep"]);
    schema
}

fn generator() -> SchemaGenerator {
    SchemaSettings::draft07().into_generator()
}

/// The properties of the object that `T` reads.
fn properties<T: JsonSchema>(generator: &mut SchemaGenerator) -> Object {
    match T::json_schema(generator).to_value() {
        Value::Object(mut schema) => match schema.remove("properties") {
            Some(Value::Object(properties)) => properties,
            _ => Object::new(),
        },
        _ => Object::new(),
    }
}

fn of_scenario(title: &str, example: &Value) -> Value {
    let mut generator = generator();
    let keys = properties::<Keys>(&mut generator);
    let mut top = properties::<Head>(&mut generator);
    let mut of_setting = properties::<SettingHead>(&mut generator);
    let mut axes = Object::new();
    let mut definitions = generator.take_definitions(true);
    for (name, key) in keys {
        let reference = json!({ "$ref": format!("#/definitions/key.{name}") });
        axes.insert(name.clone(), axis(&reference));
        of_setting.insert(name.clone(), reference.clone());
        top.insert(name.clone(), reference);
        definitions.insert(format!("key.{name}"), key);
    }
    definitions.insert("range".to_owned(), range());
    let settings = object(&of_setting, "One question: keys that override those at the top.");
    top.insert(
        "setting".to_owned(),
        json!({
            "description": "Questions that share the keys at the top, each with keys of its own.",
            "type": "array",
            "minItems": 1,
            "items": settings,
        }),
    );
    let mut sweep = object(&axes, "Keys with all their values: every combination is a question.");
    sweep["minProperties"] = 1.into();
    top.insert("sweep".to_owned(), sweep);
    let mut schema = object(
        &top,
        "Questions about pipeline schedules, for `debubble simulate` and `debubble sweep`.",
    );
    schema["$schema"] = "http://json-schema.org/draft-07/schema#".into();
    schema["title"] = title.into();
    schema["definitions"] = definitions.into();
    schema["examples"] = json!([example]);
    tidy(&mut schema);
    schema
}

/// An object with `properties` and no others.
fn object(properties: &Object, description: &str) -> Value {
    json!({
        "type": "object",
        "description": description,
        "properties": properties,
        "additionalProperties": false,
    })
}

/// The values of the axis of a sweep whose key is `key`.
fn axis(key: &Value) -> Value {
    let list = json!({ "type": "array", "items": key, "minItems": 1, "uniqueItems": true });
    json!({ "anyOf": [list, { "$ref": "#/definitions/range" }] })
}

/// A range of values: their first and last, and the step or factor between neighbours.
fn range() -> Value {
    let number =
        json!({ "type": ["number", "string"], "pattern": r"^[0-9][0-9_.]*\s*\w*$", "minimum": 0 });
    let form = |step: &str| {
        json!({
            "type": "object",
            "properties": { "from": number, "to": number, step: number },
            "required": ["from", "to", step],
            "additionalProperties": false,
        })
    };
    json!({
        "description": "A range of decimal numbers, with one unit.",
        "anyOf": [form("step"), form("factor")],
        "examples": [{ "from": "0us", "to": "500us", "step": "50us" }],
    })
}

/// Leaves out `null`, which TOML does not have, and widths of integers, which are not standard formats;
/// puts every description on one line.
fn tidy(schema: &mut Value) {
    match schema {
        Value::Array(all) => all.iter_mut().for_each(tidy),
        Value::Object(all) => {
            tidy_object(all);
            all.values_mut().for_each(tidy);
        }
        _ => {}
    }
}

fn tidy_object(all: &mut Object) {
    if let Some(Value::Array(kinds)) = all.get_mut("type") {
        kinds.retain(|kind| kind != "null");
        if let [kind] = &kinds[..] {
            let kind = kind.clone();
            all.insert("type".to_owned(), kind);
        }
    }
    if let Some(Value::Array(forms)) = all.get_mut("anyOf") {
        forms.retain(|form| *form != json!({ "type": "null" }));
        if let [form] = &forms[..] {
            let form = form.clone();
            all.remove("anyOf");
            all.insert("allOf".to_owned(), json!([form]));
        }
    }
    if all.get("default").is_some_and(Value::is_null) {
        all.remove("default");
    }
    if all.get("format").is_some_and(|format| format.is_string()) {
        all.remove("format");
    }
    if let Some(Value::String(text)) = all.get_mut("description") {
        *text = text.split_whitespace().collect::<Vec<_>>().join(" ");
    }
}
