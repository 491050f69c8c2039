//! Headlines of answers about many settings.

use std::collections::BTreeMap;

/// The most settings that have a sentence each.
pub(crate) const MOST_SENTENCES: usize = 4;

/// How often each name is the best of a setting, the most frequent first; `what` says of what, and `best` has nothing for
/// a setting without one.
pub(crate) fn counted(what: &str, best: &[Option<String>]) -> String {
    let mut counts: BTreeMap<&str, usize> = BTreeMap::new();
    for name in best {
        *counts.entry(name.as_deref().unwrap_or("none")).or_default() += 1;
    }
    let mut counts: Vec<(&str, usize)> = counts.into_iter().collect();
    counts.sort_by_key(|&(name, count)| (name == "none", std::cmp::Reverse(count)));
    let parts: Vec<String> =
        counts.iter().map(|(name, count)| format!("{name} in {count}")).collect();
    format!("{what} of {} settings: {}.", best.len(), parts.join(", "))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_most_frequent_comes_first_and_none_last() {
        let names = ["zb-v", "1f1b", "", "", "", "1f1b"];
        let names = names.map(|name| (!name.is_empty()).then(|| name.to_owned()));
        let text = counted("Best schedule", &names);
        assert_eq!(text, "Best schedule of 6 settings: 1f1b in 2, zb-v in 1, none in 3.");
    }
}
