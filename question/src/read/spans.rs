//! Byte spans of the keys of a TOML file.

use std::collections::BTreeMap;
use std::ops::Range;

use toml::Spanned;
use toml::de::{DeTable, DeValue};

/// The span of the value of each key, by path: `batch`, `search.tensor`, or `cluster.1.devices` for
/// the second `[[cluster]]`; `cluster.1` is that table itself.
#[derive(Clone, Debug, Default)]
pub struct KeySpans(BTreeMap<String, Option<Range<usize>>>);

impl KeySpans {
    /// The spans of all keys of `table`, nested ones too.
    pub(crate) fn of(table: &DeTable<'_>) -> Self {
        let mut spans = Self::default();
        spans.add_table("", table);
        spans
    }

    /// The spans of a file with the content `text`; none if it is not valid TOML.
    pub fn of_text(text: &str) -> Self {
        DeTable::parse(text).map_or_else(|_| Self::default(), |table| Self::of(table.get_ref()))
    }

    /// Keys that are given without a file.
    pub(crate) fn nowhere(keys: impl Iterator<Item = &'static str>) -> Self {
        Self(keys.map(|key| (key.to_owned(), None)).collect())
    }

    /// The span of the key at the path `key`.
    pub(crate) fn get(&self, key: &str) -> Option<Range<usize>> {
        self.0.get(key).cloned().flatten()
    }

    /// The span of the key at the path `key`, else of the first key of that name in any table.
    pub fn find(&self, key: &str) -> Option<Range<usize>> {
        let named = |(path, _): &(&String, &_)| path.rsplit('.').next() == Some(key);
        let anywhere = || {
            self.0
                .iter()
                .filter(named)
                .filter_map(|(_, span)| span.as_ref())
                .min_by_key(|at| at.start)
        };
        self.get(key).or_else(|| anywhere().cloned())
    }

    /// Whether the key at the path `key` is given.
    pub fn has(&self, key: &str) -> bool {
        self.0.contains_key(key)
    }

    /// Forgets the key `key`.
    pub(crate) fn remove(&mut self, key: &str) {
        self.0.remove(key);
    }

    /// Adds the spans of `other` for keys that have none here.
    pub(crate) fn add_missing(&mut self, other: &Self) {
        for (key, span) in &other.0 {
            self.0.entry(key.clone()).or_insert_with(|| span.clone());
        }
    }

    fn add_table(&mut self, path: &str, table: &DeTable<'_>) {
        for (key, value) in table {
            let dot = if path.is_empty() { "" } else { "." };
            self.add(format!("{path}{dot}{}", key.get_ref()), value);
        }
    }

    fn add(&mut self, path: String, value: &Spanned<DeValue<'_>>) {
        match value.get_ref() {
            DeValue::Table(table) => self.add_table(&path, table),
            DeValue::Array(items) => {
                for (number, item) in items.iter().enumerate() {
                    self.add(format!("{path}.{number}"), item);
                }
            }
            _ => {}
        }
        self.0.insert(path, Some(value.span()));
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn keys_of_each_table_have_their_own_span() {
        let text = "batch = 7\n[[cluster]]\ndevices = [8]\n[[cluster]]\ndevices = [8, 0]\n";
        let spans = KeySpans::of_text(text);
        let said = |key: &str| spans.find(key).map(|span| &text[span]);
        assert_eq!(said("batch"), Some("7"));
        assert_eq!(said("cluster.0.devices"), Some("[8]"));
        assert_eq!(said("cluster.1.devices"), Some("[8, 0]"));
        assert_eq!(said("cluster.1.devices.1"), Some("0"));
        // A name without its table: where it stands first.
        assert_eq!(said("devices"), Some("[8]"));
        let second = spans.find("cluster.1").unwrap();
        assert_eq!(second.start, text.rfind("[[cluster]]").unwrap());
        assert_eq!(said("tokens"), None);
        assert!(KeySpans::of_text("batch = ").find("batch").is_none());
    }
}
