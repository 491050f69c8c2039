//! Which part of a config describes the language model: all of it, or its `text_config`; and which the encoder.

use question::diagnostic::Diagnostic;
use serde_json::{Map, Value};

use super::names::shown;
use super::{File, keys, vision};

/// The keys of the language model, the vision encoder, and notes on the rest.
pub(super) struct Parts {
    pub(super) keys: Map<String, Value>,
    /// The `vision_config`, where it is wanted.
    pub(super) vision: Option<Value>,
    pub(super) left_out: Option<String>,
}

/// Takes `all` apart. Of a config with several parts, keys beside `text_config` that describe the
/// language model go with it: tied embeddings, and everything that is to be judged.
pub(super) fn of(
    file: &File,
    mut all: Map<String, Value>,
    with_vision: bool,
) -> Result<Parts, Diagnostic> {
    let is_flat = vision::is_flat(&all);
    let has_text = all.get("text_config").is_some_and(|text| !text.is_null());
    let vision = if with_vision && (has_text || is_flat) { all.remove(vision::PART) } else { None };
    let mut inner = match all.remove("text_config") {
        None | Some(Value::Null) => {
            let left_out = if is_flat { all.remove(vision::PART) } else { None };
            let left_out = left_out.map(|_| format!("{} is not planned", vision::PART));
            return Ok(Parts { keys: all, vision, left_out });
        }
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
                let message = format!("{} is both in text_config and outside it", shown(&key));
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
        false => format!("only text_config is read; keys outside it are ignored: {rest}"),
    };
    Ok(Parts { keys: inner, vision, left_out: Some(left_out) })
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
