//! JSON as Python's `json` writes it: with `Infinity`, `-Infinity` and `NaN`, which JSON has not.

use std::borrow::Cow;

/// The names of numbers that JSON lacks, each with a replacement of equal length: neither is a size or a count.
const NUMBERS: [(&str, &str); 2] = [("Infinity", "1.79e308"), ("NaN", "0.5")];

/// `text` with these numbers as JSON writes some, and without a byte-order mark. Every byte keeps its place.
#[must_use]
pub fn as_json(text: &str) -> Cow<'_, str> {
    let is_plain =
        !text.starts_with('\u{feff}') && !NUMBERS.iter().any(|(name, _)| text.contains(name));
    if is_plain {
        return Cow::Borrowed(text);
    }
    let mut json = String::with_capacity(text.len());
    let mut rest = text;
    if let Some(behind) = rest.strip_prefix('\u{feff}') {
        json.push_str("   ");
        rest = behind;
    }
    let (mut in_string, mut escaped) = (false, false);
    while let Some(first) = rest.chars().next() {
        let number = NUMBERS.iter().find(|(name, _)| !in_string && rest.starts_with(name));
        if let Some((name, other)) = number {
            json.push_str(other);
            rest = &rest[name.len()..];
            continue;
        }
        in_string ^= first == '"' && !escaped;
        escaped = in_string && first == '\\' && !escaped;
        json.push(first);
        rest = &rest[first.len_utf8()..];
    }
    Cow::Owned(json)
}

#[cfg(test)]
mod tests {
    use super::as_json;

    #[test]
    fn numbers_outside_of_strings_are_replaced_in_place() {
        let text = "\u{feff}{\"a\": [-Infinity, Infinity, NaN], \"NaN \\\"Infinity\": 1}";
        let json = as_json(text);
        assert_eq!(json.len(), text.len());
        let value: serde_json::Value = serde_json::from_str(&json).unwrap();
        assert!(
            value["a"][0].as_f64().unwrap() < -1e300 && value["a"][1].as_f64().unwrap() > 1e300
        );
        assert_eq!(value["NaN \"Infinity"], 1);
        assert!(matches!(as_json("{\"a\": 1}"), std::borrow::Cow::Borrowed(_)));
    }
}
