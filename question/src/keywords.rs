//! Questions as other programs hand them over: JSON of keywords, which becomes the TOML that files have.
//! So each key is read, and each mistake explained, by what reads files.

use std::path::Path;

use serde::de::DeserializeOwned;
use serde_json::Value;

use crate::scenario::Scenario;
use crate::{Diagnostic, quote};

/// Keywords in their order, as JSON of pairs: dictionaries in JSON have none.
pub type Pairs = Vec<(String, Value)>;

/// The placeholder path of TOML that is generated in memory.
pub fn unseen() -> &'static Path {
    Path::new("")
}

/// `json` as a value.
pub fn value<T: DeserializeOwned>(json: &str) -> Result<T, Diagnostic> {
    serde_json::from_str(json).map_err(|error| Diagnostic::new(error.to_string()))
}

/// `json`, an object of keywords, as a TOML document.
pub fn toml(json: &str) -> Result<String, Diagnostic> {
    let object: serde_json::Map<String, Value> = value(json)?;
    written(&object)
}

/// `value` as a TOML document.
pub fn written(value: &impl serde::Serialize) -> Result<String, Diagnostic> {
    ::toml::to_string(value).map_err(|error| Diagnostic::new(error.to_string()))
}

/// The keys of the TOML document `text` of `file`, as JSON.
pub fn document(file: &Path, text: &str) -> Result<Value, Diagnostic> {
    ::toml::from_str(text).map_err(|error| Diagnostic::toml(file, text, &error, &[]))
}

/// `scenario` as a TOML document without the keys that `axes` give.
pub fn without(scenario: &Scenario, axes: &Pairs) -> Result<String, Diagnostic> {
    let wrong = |error: serde_json::Error| Diagnostic::new(error.to_string());
    let mut document = serde_json::to_value(scenario).map_err(wrong)?;
    let settings = document.get_mut("setting").and_then(Value::as_array_mut);
    for setting in settings.into_iter().flatten() {
        remove(setting, axes);
    }
    remove(&mut document, axes);
    written(&document)
}

fn remove(table: &mut Value, axes: &Pairs) {
    if let Value::Object(keys) = table {
        keys.retain(|key, _| axes.iter().all(|(axis, _)| axis != key));
    }
}

/// The keys in `json`, an object of keywords.
pub fn keys<T: DeserializeOwned>(json: &str) -> Result<T, Diagnostic> {
    let text = toml(json)?;
    let wrong = |error: ::toml::de::Error| Diagnostic::toml(unseen(), &text, &error, &[]);
    ::toml::from_str(&text).map_err(wrong).map_err(nowhere)
}

/// `diagnostic` without a place in generated TOML.
pub fn nowhere(mut diagnostic: Diagnostic) -> Diagnostic {
    if diagnostic.place.as_ref().is_some_and(|place| place.file.is_empty()) {
        diagnostic.place = None;
    }
    diagnostic
}

/// `pairs` as the lines of a TOML table.
pub fn lines(pairs: &Pairs) -> Result<String, Diagnostic> {
    let line = |(key, value): &(String, Value)| {
        let value = ::toml::Value::try_from(value);
        let value = value.map_err(|error| Diagnostic::new(error.to_string()).about(key))?;
        Ok(format!("{} = {value}\n", ::toml::Value::String(key.clone())))
    };
    pairs.iter().map(line).collect()
}

/// The value that is called `name`, if one is named, of the key `key`.
pub fn named<T: DeserializeOwned>(name: Option<&str>, key: &str) -> Result<Option<T>, Diagnostic> {
    let read = |name: &str| {
        serde_json::from_value(Value::from(name)).map_err(|error: serde_json::Error| {
            let error = error.to_string();
            let known = error.split_once("expected ").map_or("", |(_, known)| known);
            let known = known.trim_start_matches("one of ").replace('`', "");
            let message = format!("{key}: there is no `{}`", quote::clip(name));
            Diagnostic::new(message).with_help(format!("the words here are {known}")).about(key)
        })
    };
    name.map(read).transpose()
}
