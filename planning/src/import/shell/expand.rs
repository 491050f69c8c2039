//! Expansion of variables, arithmetic and quotes in words.

use std::collections::BTreeMap;

use super::{END, UNKNOWN};

/// The deepest nesting of expansions in one word.
const DEEPEST: u32 = 16;

/// Expands words by the variables that are known.
pub(super) struct Expander<'a> {
    pub(super) variables: &'a BTreeMap<String, Vec<String>>,
    /// The bytes that words may still have.
    pub(super) room: usize,
}

/// Words that are being made.
#[derive(Default)]
struct Words {
    all: Vec<String>,
    now: String,
    /// Whether a word is begun, be it empty.
    begun: bool,
    bytes: usize,
}

impl Words {
    fn push(&mut self, c: char) {
        self.now.push(c);
        self.begun = true;
        self.bytes += c.len_utf8();
    }

    fn end(&mut self) {
        if std::mem::take(&mut self.begun) {
            self.all.push(std::mem::take(&mut self.now));
        }
    }

    /// Adds `text`, cut into words at blanks.
    fn split(&mut self, text: &str) {
        for c in text.chars() {
            if c.is_whitespace() { self.end() } else { self.push(c) }
        }
    }

    fn add(&mut self, text: &str) {
        self.begun = true;
        self.bytes += text.len();
        self.now.push_str(text);
    }
}

impl Expander<'_> {
    /// The words of `text`.
    pub(super) fn words(&self, text: &str) -> Result<Vec<String>, String> {
        let mut words = Words::default();
        self.expand(text, &mut words, true, 0)?;
        words.end();
        Ok(words.all)
    }

    /// `text` as one word.
    pub(super) fn word(&self, text: &str) -> Result<String, String> {
        let mut words = Words::default();
        self.expand(text, &mut words, false, 0)?;
        Ok(words.now)
    }

    fn expand(
        &self,
        text: &str,
        words: &mut Words,
        splits: bool,
        depth: u32,
    ) -> Result<(), String> {
        if depth > DEEPEST {
            return Err("its values name each other too deeply".to_owned());
        }
        let (mut quote, mut rest) = (None, text);
        while let Some(c) = rest.chars().next() {
            if words.bytes > self.room {
                return Err("its values grow beyond all bounds".to_owned());
            }
            let after = &rest[c.len_utf8()..];
            rest = match (quote, c) {
                (Some('\''), '\'') | (Some('"'), '"') => {
                    quote = None;
                    after
                }
                (Some('\''), c) => {
                    words.push(c);
                    after
                }
                (_, '\\') => {
                    let next = after.chars().next();
                    next.into_iter().for_each(|c| words.push(c));
                    &after[next.map_or(0, char::len_utf8)..]
                }
                (None, '\'' | '"') => {
                    quote = Some(c);
                    words.begun = true;
                    after
                }
                (_, '`') => {
                    words.add(&unknown("the output of a command"));
                    after.split_once('`').map_or("", |(_, rest)| rest)
                }
                (_, '$') => self.dollar(after, words, splits && quote.is_none(), depth)?,
                (None, c) if c.is_whitespace() && splits => {
                    words.end();
                    after
                }
                (_, c) => {
                    words.push(c);
                    after
                }
            };
        }
        Ok(())
    }

    /// Expands what stands behind a `$`; the rest of the text.
    fn dollar<'t>(
        &self,
        text: &'t str,
        words: &mut Words,
        splits: bool,
        depth: u32,
    ) -> Result<&'t str, String> {
        if let Some(sum) = text.strip_prefix("((") {
            let end = closing(sum, '(', ')');
            let (sum, rest) = (sum[..end].strip_suffix(')').unwrap_or(sum), &sum[end..]);
            let rest = rest.strip_prefix(')').unwrap_or(rest);
            let sum = self.arithmetic(sum, depth)?;
            words.add(&sum);
            return Ok(rest);
        }
        if let Some(command) = text.strip_prefix('(') {
            words.add(&unknown("the output of a command"));
            return Ok(&command[closing(command, '(', ')')..]);
        }
        if let Some(braced) = text.strip_prefix('{') {
            let end = closing(braced, '{', '}');
            let inner = braced[..end].strip_suffix('}').unwrap_or(&braced[..end]);
            self.parameter(inner, words, splits, depth)?;
            return Ok(&braced[end..]);
        }
        let is_name = |c: char| c.is_ascii_alphanumeric() || c == '_';
        let end = match text.chars().next() {
            Some(c) if c.is_ascii_digit() || "@*#?$!".contains(c) => 1,
            _ => text.find(|c| !is_name(c)).unwrap_or(text.len()),
        };
        match end {
            0 => words.push('$'),
            _ => self.parameter(&text[..end], words, splits, depth)?,
        }
        Ok(&text[end..])
    }

    /// Adds the value of a parameter such as `NAME`, `NAME[@]` or `NAME:-default`.
    fn parameter(
        &self,
        text: &str,
        words: &mut Words,
        splits: bool,
        depth: u32,
    ) -> Result<(), String> {
        let is_name = |c: char| c.is_ascii_alphanumeric() || c == '_' || "@*#?".contains(c);
        let end = text.find(|c| !is_name(c)).unwrap_or(text.len());
        let (name, operator) = text.split_at(end);
        let operator = operator
            .strip_prefix("[@]")
            .or_else(|| operator.strip_prefix("[*]"))
            .unwrap_or(operator);
        let value = self.variables.get(name).filter(|words| !words.is_empty());
        let is_empty = value.is_none_or(|words| words.iter().all(String::is_empty));
        let default = ["-", "="].iter().find_map(|sign| {
            let colon = operator.strip_prefix(':').unwrap_or(operator);
            colon.strip_prefix(sign)
        });
        match (value, default) {
            (_, Some(default)) if is_empty => self.expand(default, words, splits, depth + 1)?,
            (Some(value), _) => {
                for (at, word) in value.iter().enumerate() {
                    if at > 0 {
                        if splits { words.end() } else { words.push(' ') }
                    }
                    if splits { words.split(word) } else { words.add(word) }
                }
            }
            (None, _) if text.starts_with(|c: char| c.is_ascii_alphanumeric() || c == '_') => {
                // An array that is empty has no words.
                if !self.variables.contains_key(name) {
                    words.add(&unknown(name));
                }
            }
            (None, _) => words.add(&unknown(text)),
        }
        Ok(())
    }

    /// The value of a sum of whole numbers, or the name of what is unknown in it.
    fn arithmetic(&self, text: &str, depth: u32) -> Result<String, String> {
        let mut words = Words::default();
        // Names count as values without a `$`, too.
        let mut named = String::new();
        let mut rest = text;
        while let Some(at) = rest.find(|c: char| c.is_ascii_alphabetic() || c == '_') {
            let before = &rest[..at];
            named.push_str(before);
            let end = rest[at..].find(|c: char| !c.is_ascii_alphanumeric() && c != '_');
            let end = end.map_or(rest.len(), |end| at + end);
            let is_bare = !before.ends_with('$') && !before.ends_with('{');
            if is_bare {
                named.push('$');
            }
            named.push_str(&rest[at..end]);
            rest = &rest[end..];
        }
        named.push_str(rest);
        self.expand(&named, &mut words, false, depth + 1)?;
        if let Some(at) = words.now.find(UNKNOWN) {
            let name = words.now[at + 1..].split(END).next().unwrap_or_default();
            return Ok(unknown(name));
        }
        Ok(sum(&words.now).map_or_else(|| unknown("arithmetic"), |value| value.to_string()))
    }
}

/// A word for a part that only a run knows.
fn unknown(name: &str) -> String {
    format!("{UNKNOWN}{name}{END}")
}

/// How many bytes of `text` there are up to the bracket that closes one opened before it, with that.
fn closing(text: &str, open: char, close: char) -> usize {
    let mut depth = 1;
    for (at, c) in text.char_indices() {
        if c == open {
            depth += 1;
        } else if c == close {
            depth -= 1;
            if depth == 0 {
                return at + c.len_utf8();
            }
        }
    }
    text.len()
}

/// A sum of products of whole numbers, left to right, with brackets.
fn sum(text: &str) -> Option<i128> {
    let text: Vec<char> = text.chars().filter(|c| !c.is_whitespace()).collect();
    let mut at = 0;
    let value = terms(&text, &mut at, 0)?;
    (at == text.len()).then_some(value)
}

fn terms(text: &[char], at: &mut usize, depth: u32) -> Option<i128> {
    let mut value = factors(text, at, depth)?;
    while let Some(sign @ ('+' | '-')) = text.get(*at).copied() {
        *at += 1;
        let next = factors(text, at, depth)?;
        value = if sign == '+' { value.checked_add(next)? } else { value.checked_sub(next)? };
    }
    Some(value)
}

fn factors(text: &[char], at: &mut usize, depth: u32) -> Option<i128> {
    let mut value = number(text, at, depth)?;
    while let Some(sign @ ('*' | '/' | '%')) = text.get(*at).copied() {
        *at += 1;
        let next = number(text, at, depth)?;
        value = match sign {
            '*' => value.checked_mul(next)?,
            '/' => value.checked_div(next)?,
            _ => value.checked_rem(next)?,
        };
    }
    Some(value)
}

fn number(text: &[char], at: &mut usize, depth: u32) -> Option<i128> {
    if depth > DEEPEST {
        return None;
    }
    match text.get(*at)? {
        '(' => {
            *at += 1;
            let value = terms(text, at, depth + 1)?;
            (text.get(*at) == Some(&')')).then(|| *at += 1)?;
            Some(value)
        }
        '-' => {
            *at += 1;
            number(text, at, depth + 1)?.checked_neg()
        }
        _ => {
            let digits: String = text[*at..].iter().take_while(|c| c.is_ascii_digit()).collect();
            *at += digits.len();
            digits.parse().ok()
        }
    }
}
