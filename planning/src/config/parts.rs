//! Which part of a config describes the language model: all of it, or its `text_config`.

use question::diagnostic::Diagnostic;
use serde_json::{Map, Value};

use super::names::shown;
use super::{File, keys};

/// The keys of the language model, and notes on the rest.
pub(super) struct Parts {
    pub(super) keys: Map<String, Value>,
    pub(super) left_out: Option<String>,
}

/// Takes `all` apart. Of a config with several parts, keys beside `text_config` that describe the
/// language model go with it: tied embeddings, and everything that is to be judged.
pub(super) fn of(file: &File, mut all: Map<String, Value>) -> Result<Parts, Diagnostic> {
    let mut inner = match all.remove("text_config") {
        None | Some(Value::Null) => return Ok(Parts { keys: all, left_out: None }),
        Some(Value::Object(inner)) => inner,
        Some(other) => return Err(file.not("an object", "text_config", &other)),
    };
    let mut left_out = Vec::new();
    for (key, value) in all {
        if value.is_null() || keys::is_harmless(&key) {
            continue;
        }
        match inner.get(&key) {
            Some(own) if *own == value => {}
            Some(own) if !own.is_null() => {
                let message = format!("{} stands in text_config and beside it", shown(&key));
                return Err(file.wrong(&key, message + ", and they differ"));
            }
            _ if is_of_text(&key) => {
                inner.insert(key, value);
            }
            _ => left_out.push(shown(&key)),
        }
    }
    let mut rest = left_out.iter().take(MOST_NAMED).cloned().collect::<Vec<_>>().join(", ");
    if left_out.len() > MOST_NAMED {
        rest += &format!(" and {} more", left_out.len() - MOST_NAMED);
    }
    let left_out = match left_out.is_empty() {
        true => "only text_config is read".to_owned(),
        false => format!("only text_config is read; what stands beside it is not planned: {rest}"),
    };
    Ok(Parts { keys: inner, left_out: Some(left_out) })
}

/// The most keys that are named in one sentence.
const MOST_NAMED: usize = 20;

/// Whether `key` describes the language model wherever it stands; the configs of other
/// parts do not.
fn is_of_text(key: &str) -> bool {
    let other_part = key.ends_with("_config") && !key.contains("quantization");
    let size = keys::has(keys::SIZES, key) || keys::has(keys::GPT2_SIZES, key);
    size || (!other_part && keys::feature_of(key).is_some())
}
