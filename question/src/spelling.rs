//! How texts name keys. The library writes a key as a flag, `--hop`: a door without flags shows its texts with the
//! keys as files have them, or as keywords of Python.

use crate::keys::HardwareKeys;
use crate::questions::QUESTIONS;

/// `text` with `` `hop` `` in place of `--hop`, for every key. Commands, which stand between backticks, stay as they are.
#[must_use]
pub fn without_flags(text: &str) -> String {
    let part = |(at, part): (usize, &str)| match at % 2 {
        0 => prose(part),
        _ => part.to_owned(),
    };
    text.split('`').enumerate().map(part).collect::<Vec<_>>().join("`")
}

/// The same for text without backticks.
fn prose(text: &str) -> String {
    let mut parts = text.split("--");
    let mut said = parts.next().unwrap_or_default().to_owned();
    for part in parts {
        let end = part.find(|c: char| !(c.is_ascii_alphanumeric() || c == '-'));
        let (name, rest) = part.split_at(end.unwrap_or(part.len()));
        let is_flag = is_key(name) && !said.ends_with(|c: char| c.is_alphanumeric() || c == '-');
        said += &if is_flag { format!("`{name}`{rest}") } else { format!("--{part}") };
    }
    said
}

/// `text` with keys as keywords of Python: `` `memory_limit` `` in place of `--memory-limit`, `` `hop="1us"` `` in place of
/// `--hop 1us`, and `memory_limit` in place of `memory-limit`. Commands, which stand between backticks, stay as they
/// are. `more` are names of keys that are not flags.
#[must_use]
pub fn as_keywords(text: &str, more: &[&[&str]]) -> String {
    let is_key = |name: &str| is_key(name) || more.iter().any(|names| names.contains(&name));
    let part = |(at, part): (usize, &str)| match at % 2 {
        0 => keywords_in_prose(part, &is_key),
        _ if is_key(part) => keyword(part),
        _ => part.to_owned(),
    };
    text.split('`').enumerate().map(part).collect::<Vec<_>>().join("`")
}

/// The same for text without backticks.
fn keywords_in_prose(text: &str, is_key: &dyn Fn(&str) -> bool) -> String {
    let is_of_name = |c: char| c.is_ascii_alphanumeric() || c == '-';
    let (mut said, mut rest) = (String::new(), text);
    while let Some(begin) = rest.find(is_of_name) {
        let (before, word) = rest.split_at(begin);
        said += before;
        let end = word.find(|c| !is_of_name(c)).unwrap_or(word.len());
        let (word, after) = word.split_at(end);
        rest = after;
        // A part of a path or of another name is not a key.
        let is_part = said.ends_with(['/', '.', '_']) || is_name_of_file(after);
        match word.strip_prefix("--") {
            Some(name) if is_key(name) => {
                let (assignment, left) = assigned(name, after);
                said += &assignment;
                rest = left;
            }
            None if word.contains('-') && !is_part && is_key(word) => said += &keyword(word),
            _ => said += word,
        }
    }
    said + rest
}

fn is_name_of_file(after: &str) -> bool {
    let mut after = after.chars();
    matches!(after.next(), Some('.' | '/')) && after.next().is_some_and(char::is_alphanumeric)
}

fn keyword(name: &str) -> String {
    name.replace('-', "_")
}

/// The flag `name` as a keyword, with the value that stands behind it in `after`, if that has a digit; and what is left.
fn assigned<'a>(name: &str, after: &'a str) -> (String, &'a str) {
    let keyword = keyword(name);
    let value = after.strip_prefix(' ').and_then(|rest| rest.split(char::is_whitespace).next());
    let value = value.unwrap_or_default().trim_end_matches([',', ';', ')', '.', ':', '?']);
    if !value.contains(|c: char| c.is_ascii_digit()) || !value.starts_with(char::is_alphanumeric) {
        return (format!("`{keyword}`"), after);
    }
    let quoted = |one: &str| match one.parse::<u64>() {
        Ok(_) => one.to_owned(),
        Err(_) => format!("{one:?}"),
    };
    let values: Vec<String> = value.split(',').map(quoted).collect();
    let written = match &values[..] {
        [one] => one.clone(),
        _ => format!("[{}]", values.join(", ")),
    };
    (format!("`{keyword}={written}`"), &after[1 + value.len()..])
}

fn is_key(name: &str) -> bool {
    let mut questions = QUESTIONS.iter().map(|kind| kind.flags);
    questions.any(|flags| flags.contains(&name)) || HardwareKeys::NAMES.contains(&name)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn keys_are_named_as_in_files() {
        for (text, expected) in [
            ("give --hidden, --heads and --seq", "give `hidden`, `heads` and `seq`"),
            ("as in --hop 10us; (--memory-limit)", "as in `hop` 10us; (`memory-limit`)"),
            (
                "see `debubble simulate --hop 1us`, --ilp",
                "see `debubble simulate --hop 1us`, `ilp`",
            ),
            ("--moe-expert is another's", "--moe-expert is another's"),
            ("a--hop, ---hop and -- hop", "a--hop, ---hop and -- hop"),
            ("", ""),
        ] {
            assert_eq!(without_flags(text), expected);
        }
    }

    #[test]
    fn keys_are_named_as_keywords() {
        for (text, expected) in [
            ("give --hidden, --heads and --seq", "give `hidden`, `heads` and `seq`"),
            ("as in --hop 10us; (--memory-limit)", "as in `hop=\"10us\"`; (`memory_limit`)"),
            ("as in --forward 10ms,12ms; or", "as in `forward=[\"10ms\", \"12ms\"]`; or"),
            ("--effort 20 looks longer", "`effort=20` looks longer"),
            ("`memory-limit` or memory-limits: no", "`memory_limit` or memory_limits: no"),
            ("see `debubble simulate --hop 1us`", "see `debubble simulate --hop 1us`"),
            ("deadline-days, zb-h1", "deadline_days, zb-h1"),
            ("a/memory-limit.toml, memory-limit.toml", "a/memory-limit.toml, memory-limit.toml"),
            ("--num-layers is another's, a--hop", "--num-layers is another's, a--hop"),
            ("--hop", "`hop`"),
            ("--hop ", "`hop` "),
            ("", ""),
        ] {
            assert_eq!(as_keywords(text, &[&["deadline-days"]]), expected);
        }
    }
}
