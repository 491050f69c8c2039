//! YAML as a tree of keys, in bounded memory: events of a parser, of which aliases and depth are counted.

use std::collections::BTreeMap;

use saphyr_parser::{Event, Parser, ScalarStyle};
use serde_json::{Map, Number, Value};

/// The deepest nesting of tables and lists.
const MOST_DEEP: usize = 64;
/// The most bytes of a tree, each part with its text and [`OF_A_PART`] beside.
const MOST_BYTES: usize = 16 << 20;
/// Bytes that a part takes at least.
const OF_A_PART: usize = 64;

/// The first document of `text`.
pub(super) fn parse(text: &str) -> Result<Value, String> {
    let mut tree = Tree::default();
    for event in Parser::new_from_str(text) {
        let (event, _) = event.map_err(|error| error.to_string())?;
        match event {
            Event::Scalar(text, style, anchor, _) => {
                let value = match style {
                    ScalarStyle::Plain => plain(&text),
                    _ => Value::String(text.into_owned()),
                };
                tree.count(&value)?;
                tree.place(value, anchor)?;
            }
            Event::Alias(anchor) => {
                let of_alias = tree.anchors.get(&anchor).map(bytes);
                tree.take(of_alias.ok_or("an alias has no anchor before it")?)?;
                let aliased = tree.anchors.get(&anchor).cloned().unwrap_or_default();
                tree.place(aliased, 0)?;
            }
            Event::MappingStart(anchor, _) => tree.open(Open::Table(Map::new(), None), anchor)?,
            Event::SequenceStart(anchor, _) => tree.open(Open::List(Vec::new()), anchor)?,
            Event::MappingEnd | Event::SequenceEnd => tree.close()?,
            Event::DocumentEnd => break,
            _ => {}
        }
    }
    Ok(tree.root.unwrap_or_default())
}

/// A table or a list whose end has not come.
enum Open {
    /// Its keys, and one whose value has not come.
    Table(Map<String, Value>, Option<String>),
    List(Vec<Value>),
}

#[derive(Default)]
struct Tree {
    root: Option<Value>,
    open: Vec<(Open, usize)>,
    anchors: BTreeMap<usize, Value>,
    bytes: usize,
}

impl Tree {
    fn open(&mut self, open: Open, anchor: usize) -> Result<(), String> {
        if self.open.len() >= MOST_DEEP {
            return Err(format!("it nests more than {MOST_DEEP} tables and lists"));
        }
        self.open.push((open, anchor));
        Ok(())
    }

    fn close(&mut self) -> Result<(), String> {
        let (open, anchor) = self.open.pop().ok_or("a table or list ends that has not begun")?;
        let value = match open {
            Open::Table(table, _) => Value::Object(table),
            Open::List(parts) => Value::Array(parts),
        };
        self.place(value, anchor)
    }

    /// Counts the bytes of `value`, which is kept once more.
    fn count(&mut self, value: &Value) -> Result<(), String> {
        self.take(bytes(value))
    }

    fn take(&mut self, bytes: usize) -> Result<(), String> {
        self.bytes = self.bytes.saturating_add(bytes);
        match self.bytes > MOST_BYTES {
            true => Err("its aliases and values make too much of it".to_owned()),
            false => Ok(()),
        }
    }

    /// Puts `value` where the next one belongs.
    fn place(&mut self, value: Value, anchor: usize) -> Result<(), String> {
        if anchor > 0 {
            self.count(&value)?;
            self.anchors.insert(anchor, value.clone());
        }
        match self.open.last_mut() {
            None => self.root = Some(value),
            Some((Open::List(parts), _)) => parts.push(value),
            Some((Open::Table(_, key @ None), _)) => {
                *key = Some(match value {
                    Value::String(text) => text,
                    other => other.to_string(),
                });
            }
            Some((Open::Table(table, key), _)) => {
                let key = key.take().unwrap_or_default();
                match value {
                    // The keys of another table, under those of this one.
                    Value::Object(other) if key == "<<" => {
                        other.into_iter().for_each(|(key, value)| {
                            table.entry(key).or_insert(value);
                        });
                    }
                    value => drop(table.insert(key, value)),
                }
            }
        }
        Ok(())
    }
}

/// The bytes of `value` and all its parts.
fn bytes(value: &Value) -> usize {
    OF_A_PART
        + match value {
            Value::String(text) => text.len(),
            Value::Array(parts) => parts.iter().map(bytes).sum(),
            Value::Object(table) => table.iter().map(|(key, value)| key.len() + bytes(value)).sum(),
            _ => 0,
        }
}

/// A scalar without quotes, as YAML 1.1 reads it and YAML 1.2, too: Python's loaders are of the former.
pub(super) fn plain(text: &str) -> Value {
    match text {
        "" | "~" | "null" | "Null" | "NULL" | "None" => return Value::Null,
        "true" | "True" | "TRUE" | "yes" | "Yes" | "on" | "On" => return Value::Bool(true),
        "false" | "False" | "FALSE" | "no" | "No" | "off" | "Off" => return Value::Bool(false),
        _ => {}
    }
    let is_number = text.starts_with(|c: char| c.is_ascii_digit() || matches!(c, '-' | '+' | '.'));
    let digits = text.replace('_', "");
    let number = match is_number {
        true => whole(&digits).or_else(|| digits.parse().ok().and_then(Number::from_f64)),
        false => None,
    };
    number.map_or_else(|| Value::String(text.to_owned()), Value::Number)
}

fn whole(digits: &str) -> Option<Number> {
    let of_positive = digits.parse::<u64>().ok().map(Number::from);
    of_positive.or_else(|| digits.parse::<i64>().ok().map(Number::from))
}

#[cfg(test)]
mod tests {
    use std::fmt::Write;

    use serde_json::json;

    use super::*;

    #[test]
    fn a_tree_has_the_types_of_its_scalars() {
        let text = "a: &x {b: 1, c: [2.5, yes, null, 'no', 1_000]}\nd: *x\ne:\n  <<: *x\n  b: -3\n---\nf: 1\n";
        let expected = json!({
            "a": {"b": 1, "c": [2.5, true, null, "no", 1000]},
            "d": {"b": 1, "c": [2.5, true, null, "no", 1000]},
            "e": {"b": -3, "c": [2.5, true, null, "no", 1000]},
        });
        assert_eq!(parse(text), Ok(expected));
    }

    #[test]
    fn hostile_trees_are_refused() {
        assert!(parse(&"[".repeat(100_000)).is_err());
        assert!(parse(&"- ".repeat(100_000)).unwrap_err().contains("nests"));
        let mut bomb = "a0: &a0 [lol, lol, lol, lol, lol, lol, lol, lol, lol]\n".to_owned();
        for at in 1..40 {
            let one = format!("*a{}", at - 1);
            writeln!(bomb, "a{at}: &a{at} [{}]", [one.as_str(); 9].join(", ")).unwrap();
        }
        assert!(parse(&bomb).unwrap_err().contains("aliases"));
        assert!(parse("a: *b").is_err());
        assert!(parse("a: [1").is_err());
        for text in ["", "\u{0}", "%", "]", "a: b: c", "&", "*", "!!", "? ? ?"] {
            drop(parse(text));
        }
    }
}
