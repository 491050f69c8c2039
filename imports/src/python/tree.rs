//! The object that a recipe makes, as a tree of keys.

use serde_json::{Map, Value as Tree, json};

use super::reader::{Reader, Value};

/// The line that sets a value which is not read.
pub(super) const UNREAD: &str = "?";
/// The line that makes an object.
const LINE: &str = "@";
/// The line behind which any field of an object may have another value.
pub(super) const LOST: &str = "!";
/// The most values of a tree, and its deepest nesting.
const MOST_VALUES: usize = 50_000;
const MOST_DEEP: usize = 24;

/// The line of a value that is not read, or of a call whose value is not known.
pub(super) fn line_of(value: &Tree) -> Option<u64> {
    match value {
        Tree::Array(parts) => parts.iter().find_map(line_of),
        Tree::Object(own) => {
            let line = own.get(UNREAD).or(own.get(LINE)).or(own.get(LOST));
            Some(line.and_then(Tree::as_u64).unwrap_or(0))
        }
        _ => None,
    }
}

/// The fields of an object, without how it was made.
pub(super) fn plain(tree: &Tree) -> Map<String, Tree> {
    let mut own = tree.as_object().cloned().unwrap_or_default();
    ["class", "of", UNREAD, LINE, LOST].iter().for_each(|key| drop(own.remove(*key)));
    own
}

impl Reader<'_> {
    /// `value` as a tree of keys. An object that a call made has its class, and what it was made of.
    pub(super) fn tree(&self, value: &Value, depth: usize, count: &mut usize) -> Tree {
        *count += 1;
        let at = match value {
            _ if depth > MOST_DEEP || *count > MOST_VALUES => return json!({ UNREAD: 0 }),
            Value::Plain(tree) => return tree.clone(),
            Value::Unknown(line) => return json!({ UNREAD: line }),
            Value::Outside(name) if name == "DEFAULT_NULL_TOKENIZER_VOCAB_SIZE" => {
                return 32_000.into();
            }
            Value::Outside(name)
                if name.starts_with("torch.") || name.starts_with("AttnBackend.") =>
            {
                return Tree::from(name.as_str());
            }
            Value::Outside(name) => return json!({ "class": name, LINE: self.line }),
            Value::Function(_) => return json!({ "class": "function", LINE: self.line }),
            Value::Object(at) | Value::Base(at) => *at,
        };
        let own = &self.objects[at];
        let parts: Tree = own.of.iter().map(|part| self.tree(part, depth + 1, count)).collect();
        if own.class == "[]" {
            return own.lost.map_or(parts, |line| json!({ UNREAD: line }));
        }
        let made = [("class", own.class.as_str().into()), ("of", parts), (LINE, own.line.into())];
        let made = made.into_iter().filter(|_| own.class != "{}");
        let mut all: Map<String, Tree> = made.map(|(key, own)| (key.to_owned(), own)).collect();
        all.extend(own.lost.map(|line| (LOST.to_owned(), Tree::from(line))));
        for (key, field) in own.fields.iter().filter(|(_, field)| !self.is_of_base(field)) {
            all.insert(key.clone(), self.tree(field, depth + 1, count));
        }
        Tree::Object(all)
    }

    /// Whether a field is only asked for, never set.
    fn is_of_base(&self, field: &Value) -> bool {
        let Value::Base(at) = field else { return false };
        let own = &self.objects[*at];
        own.lost.is_none() && own.fields.values().all(|field| self.is_of_base(field))
    }
}
