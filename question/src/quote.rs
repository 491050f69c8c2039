//! Input quoted in messages: at most one line of it, however long the input is.

use std::path::Path;

/// The most characters that a message quotes of one piece of input.
const MOST: usize = 80;
/// The most characters of a message in all.
const MOST_OF_MESSAGE: usize = 1500;

/// `text` on one line; the middle is left out if it is long.
pub fn clip(text: &str) -> String {
    clip_to(text, MOST)
}

fn clip_to(text: &str, most: usize) -> String {
    // Bytes are counted first, for counting characters of much text takes time.
    let is_long = text.len() > most && text.chars().nth(most).is_some();
    let text = match is_long {
        false => text.to_owned(),
        true => {
            let head: String = text.chars().take(most * 3 / 4).collect();
            let mut tail: Vec<char> = text.chars().rev().take(most / 5).collect();
            tail.reverse();
            format!("{head}…{}", tail.into_iter().collect::<String>())
        }
    };
    let plain = |c: char| match c.is_control() {
        true => c.escape_default().to_string(),
        false => c.to_string(),
    };
    text.chars().map(plain).collect()
}

/// A path as messages quote it.
pub fn path(path: &Path) -> String {
    clip(&path.to_string_lossy())
}

/// `message` with an ellipsis for all from its first of `quotes` to its last, but for a command, and for each word that stands
/// in `content`, too.
pub(crate) fn without(message: &str, quotes: &[char], content: &str) -> String {
    let mut text = message.to_owned();
    if let Some((from, to)) = message.find(quotes).zip(message.rfind(quotes))
        && !(message[from + 1..].starts_with("debubble ") && message.matches(quotes).count() == 2)
    {
        text.replace_range(from..=to, "`…`");
    }
    let is_word = |c: char| c.is_alphanumeric() || "_-./$".contains(c);
    let known: std::collections::HashSet<&str> =
        content.split(|c| !is_word(c)).filter(|word| word.len() > 2).collect();
    let hidden = |word: &str| known.contains(word.trim_matches(|c| !is_word(c)));
    text.split(' ').map(|word| if hidden(word) { "…" } else { word }).collect::<Vec<_>>().join(" ")
}

/// `message` on one line, with everything in it that is quoted or is one long word clipped.
pub fn brief(message: &str) -> String {
    let mut text = String::new();
    let mut rest = message;
    while let Some(at) = rest.find(['`', '"']) {
        let quote = if rest[at..].starts_with('`') { '`' } else { '"' };
        let Some(length) = rest[at + 1..].find(quote) else { break };
        let inside = &rest[at + 1..at + 1 + length];
        text += &words(&rest[..at]);
        text += &format!("{quote}{}{quote}", clip(inside));
        rest = &rest[at + length + 2..];
    }
    text += &words(rest);
    clip_to(&text, MOST_OF_MESSAGE)
}

/// `text` with every long word clipped.
fn words(text: &str) -> String {
    text.split(' ').map(clip).collect::<Vec<_>>().join(" ")
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn long_input_is_said_back_in_part() {
        let long = "x".repeat(100_000);
        for text in [
            format!("`{long}` is unknown"),
            format!("{long} is unknown"),
            format!("`{}` is unknown", "a b ".repeat(25_000)),
            format!("{} is unknown", "a b ".repeat(25_000)),
            format!("`{}` is unknown", "`".repeat(100_001)),
        ] {
            let brief = brief(&text);
            assert!(brief.chars().count() <= MOST_OF_MESSAGE, "{}", brief.len());
            assert!(brief.ends_with("is unknown"), "{brief}");
        }
        assert_eq!(brief("two\nlines \u{1b}[31m"), "two\\nlines \\u{1b}[31m");
        assert_eq!(brief("a `b` and \"c\""), "a `b` and \"c\"");
    }
}
