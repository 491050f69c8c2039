//! Suggestions for misspelt names.

/// The most names that are offered.
const MOST: usize = 3;

/// The names nearest to `name`, the nearest first, that are near enough to be meant.
pub fn names<'a>(name: &str, known: impl IntoIterator<Item = &'a str>) -> Vec<&'a str> {
    // Unknown names may be long; known ones are not.
    let name: String = name.chars().take(64).collect::<String>().to_lowercase();
    if name.is_empty() {
        return Vec::new();
    }
    let far = (name.chars().count() / 3).max(1);
    let plain = |name: &str| name.replace('-', "");
    let rank = |known: &'a str| {
        // Dashes are easily left out.
        let distance = strsim::damerau_levenshtein(known, &name)
            .min(strsim::damerau_levenshtein(&plain(known), &plain(&name)));
        let contained = name.len() >= 3 && plain(known).contains(&plain(&name));
        (distance <= far || contained).then_some((!contained, distance, known))
    };
    let mut near: Vec<_> = known.into_iter().filter_map(rank).collect();
    near.sort_by_key(|&(apart, distance, _)| (distance, apart));
    near.dedup();
    // What differs in dashes or case alone is meant.
    if let Some(exact) = near.iter().position(|&(_, distance, _)| distance > 0).filter(|&at| at > 0)
    {
        near.truncate(exact);
    }
    near.into_iter().take(MOST).map(|(.., known)| known).collect()
}

/// A question after them, to follow the message that `name` is unknown; nothing if none is near.
pub fn question<'a>(name: &str, known: impl IntoIterator<Item = &'a str>) -> String {
    let near: Vec<String> = names(name, known).iter().map(|one| format!("`{one}`")).collect();
    match near.split_last() {
        None => String::new(),
        Some((only, [])) => format!(": did you mean {only}?"),
        Some((last, others)) => format!(": did you mean {} or {last}?", others.join(", ")),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const KNOWN: [&str; 6] = ["gpipe", "1f1b", "1f1b-i", "zb-h1", "zb-h2", "interlaced"];

    #[test]
    fn what_is_near_is_offered_and_nothing_else() {
        assert_eq!(names("zbh1", KNOWN), ["zb-h1"]);
        assert_eq!(names("zbh", KNOWN), ["zb-h1", "zb-h2"]);
        assert_eq!(question("ZB-H3", KNOWN), ": did you mean `zb-h1` or `zb-h2`?");
        assert_eq!(names("1F1B", KNOWN), ["1f1b"]);
        assert_eq!(question("interlace", KNOWN), ": did you mean `interlaced`?");
        assert_eq!(question("nope", KNOWN), "");
        assert_eq!(question("", KNOWN), "");
        assert_eq!(question(&"x".repeat(100_000), KNOWN), "");
    }
}
