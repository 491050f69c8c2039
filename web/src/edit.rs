//! Changes of a scenario file that leave the rest of it as its author wrote it.

use std::ops::Range;
use std::path::Path;

use question::{Diagnostic, keywords, object};
use serde::{Deserialize, Serialize};
use serde_json::{Map, Value};
use toml::de::{DeTable, DeValue};

use crate::text::QUESTION;

/// Keys at the top of a scenario and their new values; null takes a key out.
pub(crate) type Changes = Map<String, Value>;

/// A scenario and a change to it.
#[derive(Deserialize)]
pub(crate) struct Request {
    /// The scenario.
    text: String,
    /// The keys to change.
    change: Changes,
}

impl Request {
    /// The changed scenario, as a file.
    pub(crate) fn answer(self) -> Result<impl Serialize, Diagnostic> {
        Ok(object!(text = changed(self.text, &self.change)?))
    }
}

/// `text` with `changes`: values are written in place of the old ones, new keys below the last one at the
/// top, and comments stay. Where a key is written in a form that cannot be changed in place, such as a
/// dotted one, the whole file is written anew.
///
/// # Errors
/// If `text` is not TOML, or a value has no form there.
pub(crate) fn changed(text: String, changes: &Changes) -> Result<String, Diagnostic> {
    if changes.is_empty() {
        return Ok(text);
    }
    let mut keys = match keywords::document(Path::new(QUESTION), &text)? {
        Value::Object(keys) => keys,
        _ => Map::new(),
    };
    for (key, value) in changes {
        match value {
            Value::Null => drop(keys.remove(key)),
            value => drop(keys.insert(key.clone(), value.clone())),
        }
    }
    let wanted = Value::Object(keys);
    let edited = in_place(&text, changes)?;
    match keywords::document(Path::new(QUESTION), &edited) {
        Ok(found) if found == wanted => Ok(edited),
        _ => keywords::written(&wanted),
    }
}

/// `text` with its lines and values at the top replaced.
fn in_place(text: &str, changes: &Changes) -> Result<String, Diagnostic> {
    let wrong = |error| Diagnostic::toml(Path::new(QUESTION), text, &error, &[]);
    let table = DeTable::parse(text).map_err(wrong)?;
    let top = top(text, table.get_ref());
    let mut edits: Vec<(Range<usize>, String)> = Vec::new();
    for (key, value) in changes {
        let found = table.get_ref().iter().find(|(name, _)| name.get_ref() == key);
        match (found, value) {
            (None, Value::Null) => {}
            (None, value) => edits.push((top..top, line(text, top, key, value)?)),
            (Some((name, old)), Value::Null) => {
                edits.push((lines(text, name.span().start..old.span().end), String::new()));
            }
            (Some((_, old)), value) => edits.push((old.span(), written(key, value)?)),
        }
    }
    edits.sort_by_key(|(place, _)| place.start);
    let (mut edited, mut at) = (String::new(), 0);
    for (place, new) in edits {
        edited.extend([&text[at..place.start.max(at)], &new]);
        at = place.end.max(at);
    }
    Ok(edited + &text[at..])
}

/// Where keys at the top end: at the beginning of the line of the first table, or at the end of `text`.
fn top(text: &str, table: &DeTable<'_>) -> usize {
    let values = table.values().filter(|value| !has_tables(value.get_ref()));
    let values: Vec<_> = values.map(toml::Spanned::span).collect();
    let is_header = |at: usize, line: &str| {
        line.trim_start().starts_with('[') && values.iter().all(|value| !value.contains(&at))
    };
    let mut at = 0;
    for line in text.split_inclusive('\n') {
        if is_header(at, line) {
            return at;
        }
        at += line.len();
    }
    at
}

/// Whether `value` is a table or a list of tables, such as stand below headers.
fn has_tables(value: &DeValue<'_>) -> bool {
    match value {
        DeValue::Table(_) => true,
        DeValue::Array(all) => all.iter().any(|one| matches!(one.get_ref(), DeValue::Table(_))),
        _ => false,
    }
}

/// The line of a new key at `at` of `text`.
fn line(text: &str, at: usize, key: &str, value: &Value) -> Result<String, Diagnostic> {
    let begun = text[..at].ends_with('\n') || at == 0;
    Ok(format!("{}{key} = {}\n", if begun { "" } else { "\n" }, written(key, value)?))
}

/// The whole lines of `place`.
fn lines(text: &str, place: Range<usize>) -> Range<usize> {
    let start = text[..place.start].rfind('\n').map_or(0, |at| at + 1);
    let end = text[place.end..].find('\n').map_or(text.len(), |at| place.end + at + 1);
    start..end
}

/// `value` as TOML.
fn written(key: &str, value: &Value) -> Result<String, Diagnostic> {
    let value = toml::Value::try_from(value);
    Ok(value.map_err(|error| Diagnostic::new(error.to_string()).about(key))?.to_string())
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;

    fn edited(text: &str, changes: Value) -> String {
        let Value::Object(changes) = changes else { panic!("{changes} is not an object") };
        changed(text.to_owned(), &changes).unwrap()
    }

    #[test]
    fn comments_and_the_order_of_keys_stay() {
        let text = "# A question.\nstages = 8 # p\nhop = \"1us\"\n\n[[setting]]\nname = \"a\"\n";
        let after = edited(text, json!({ "stages": 4, "hop": null, "forward": ["1ms", "2ms"] }));
        assert_eq!(
            after,
            "# A question.\nstages = 4 # p\n\nforward = [\"1ms\", \"2ms\"]\n[[setting]]\nname = \"a\"\n"
        );
    }

    #[test]
    fn a_line_of_an_array_is_no_header_and_a_last_line_may_lack_its_end() {
        let text = "forward = [\n  \"1ms\",\n]\nstages = 2";
        assert_eq!(
            edited(text, json!({ "hop": "2us" })),
            "forward = [\n  \"1ms\",\n]\nstages = 2\nhop = \"2us\"\n"
        );
        assert_eq!(edited(text, json!({ "forward": null })), "stages = 2");
    }

    #[test]
    fn what_cannot_be_changed_in_place_is_written_anew() {
        let text = "convention.zb-h2 = \"span\"\nstages = 2\n";
        let after = edited(text, json!({ "convention": null, "stages": 3 }));
        assert_eq!(after, "stages = 3\n");
        let after = edited("a = { b = 1 }\n", json!({ "a": "c" }));
        assert_eq!(after, "a = \"c\"\n");
    }

    #[test]
    fn every_example_stays_as_it_is_but_for_what_is_changed() {
        for (name, text) in scenarios::EXAMPLES.files() {
            let after = edited(text, json!({ "stages": 6, "seed": 11 }));
            let back = edited(&after, json!({ "seed": null }));
            let is_new = |line: &&str| line.starts_with("seed");
            let seeds = text.lines().filter(is_new).count();
            assert_eq!(back.lines().count(), text.lines().count() - seeds, "{name}");
            assert!(back.contains("stages = 6") && after.contains("seed = 11"), "{name}");
        }
    }

    #[test]
    fn what_is_no_toml_is_an_error_at_its_place() {
        let changes = Changes::from_iter([("stages".to_owned(), json!(4))]);
        let error = changed("stages = \n".to_owned(), &changes).unwrap_err();
        assert_eq!(error.place.and_then(|place| place.line), Some(1));
    }
}
