//! Patterns, and operators such as `${NAME%.sh}`.

use super::UNKNOWN;
use super::expand::{How, WORD};
use super::run::Reader;
use super::value::Truth;

const PATTERN: How = How { pattern: true, ..WORD };

impl Reader<'_> {
    /// `text` without the start or the end that an operator such as `%.sh` takes off; `None` where that is not known.
    pub(super) fn cut(&mut self, text: &str, operator: &str) -> Result<Option<String>, String> {
        let chars: Vec<char> = text.chars().collect();
        let all = chars.len();
        let is_prefix = operator.starts_with('#');
        let Some(rest) = operator.strip_prefix(['#', '%']) else { return Ok(None) };
        let longest = rest.strip_prefix(if is_prefix { '#' } else { '%' });
        let Some(pattern) = self.pattern(longest.unwrap_or(rest))? else { return Ok(None) };
        self.work((all + 1) * all * pattern.len())?;
        let parts = |cut: usize| match is_prefix {
            true => (&chars[..cut], &chars[cut..]),
            false => (&chars[all - cut..], &chars[..all - cut]),
        };
        let is_it = |cut: &usize| matches(&pattern, parts(*cut).0);
        let cut = match longest {
            Some(_) => (0..=all).rev().find(is_it),
            None => (0..=all).find(is_it),
        };
        Ok(Some(parts(cut.unwrap_or(0)).1.iter().collect()))
    }

    /// The pattern `raw`, expanded; `None` where it is not known or has forms that are not matched.
    fn pattern(&mut self, raw: &str) -> Result<Option<Vec<char>>, String> {
        let text = self.one(raw, PATTERN)?;
        let is_odd =
            ["[:", "[.", "[=", "?(", "*(", "+(", "@(", "!("].iter().any(|odd| text.contains(odd));
        Ok((!is_odd && !text.contains(UNKNOWN)).then(|| text.chars().collect()))
    }

    /// Whether `text` matches the pattern `raw`.
    pub(super) fn is_like(&mut self, text: &str, raw: &str) -> Result<Truth, String> {
        let Some(pattern) = self.pattern(raw)?.filter(|_| !text.contains(UNKNOWN)) else {
            return Ok(Truth::Unknown);
        };
        self.work(pattern.len() * text.len())?;
        Ok(Truth::of(matches(&pattern, &text.chars().collect::<Vec<_>>())))
    }
}
/// Whether the whole `text` matches `pattern`.
fn matches(pattern: &[char], text: &[char]) -> bool {
    let (mut at, mut read) = (0, 0);
    // The last star, and where the text behind it begins.
    let mut star = None;
    loop {
        if pattern.get(at) == Some(&'*') {
            star = Some((at + 1, read));
            at += 1;
            continue;
        }
        let length = text.get(read).and_then(|c| one(&pattern[at..], *c));
        match (length, star) {
            (Some(length), _) => (at, read) = (at + length, read + 1),
            (None, _) if at == pattern.len() && read == text.len() => return true,
            (None, Some((behind, from))) if from < text.len() => {
                star = Some((behind, from + 1));
                (at, read) = (behind, from + 1);
            }
            _ => return false,
        }
    }
}

/// The length of the first sign of `pattern`, if it matches `c`.
fn one(pattern: &[char], c: char) -> Option<usize> {
    match *pattern.first()? {
        '?' => Some(1),
        '\\' if pattern.len() > 1 => (pattern[1] == c).then_some(2),
        '[' => {
            let negated = matches!(pattern.get(1), Some('!' | '^'));
            let start = 1 + usize::from(negated);
            // A bracket that is never closed stands for itself.
            let length = pattern.iter().skip(start + 1).position(|c| *c == ']');
            let Some(end) = length.map(|length| start + 1 + length) else {
                return (c == '[').then_some(1);
            };
            let mut set = pattern[start..end].to_vec();
            set.retain(|c| *c != '\\');
            let is_range = |at: usize| set.get(at + 1) == Some(&'-') && at + 2 < set.len();
            let mut at = 0;
            let mut found = false;
            while at < set.len() {
                let last = if is_range(at) { set[at + 2] } else { set[at] };
                found |= (set[at]..=last).contains(&c);
                at += if is_range(at) { 3 } else { 1 };
            }
            (found != negated).then_some(end + 1)
        }
        own => (own == c).then_some(1),
    }
}
