//! Removed keys that users may still ask for.

/// The removed keys, each with its replacement.
const KEYS: [(&str, &str); 1] = [(
    "exact",
    "a search with --ilp proves the optimum of small pipelines, and one with --effort 20 looks longer for it",
)];

/// The replacement of the removed key or flag `name`, if there is one.
#[must_use]
pub fn cure(name: &str) -> Option<&'static str> {
    KEYS.iter().find(|(key, _)| *key == name).map(|(_, cure)| *cure)
}
