//! Keys that somebody may still ask for, though no question has them.

/// The keys, each with what does its work.
const KEYS: [(&str, &str); 1] = [(
    "exact",
    "a search with --ilp proves the optimum of small pipelines, and one with --effort 20 looks longer for it",
)];

/// What does the work of the key or flag `name`, if it is one of those.
#[must_use]
pub fn cure(name: &str) -> Option<&'static str> {
    KEYS.iter().find(|(key, _)| *key == name).map(|(_, cure)| *cure)
}
