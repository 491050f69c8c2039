//! Patterns, and operators such as `${NAME%.sh}`.

use super::UNKNOWN;
use super::expand::{How, WORD};
use super::run::Reader;
use super::value::Truth;

/// The longest text in which a pattern is replaced.
const MOST_REPLACED: usize = 256;

const PATTERN: How = How { pattern: true, ..WORD };

impl Reader<'_> {
    /// `text` changed by an operator such as `%.sh`; `None` where that is not known.
    pub(super) fn altered(&mut self, text: &str, operator: &str) -> Result<Option<String>, String> {
        let chars: Vec<char> = text.chars().collect();
        let all = chars.len();
        let sign = operator.chars().next().unwrap_or(' ');
        let rest = operator.get(sign.len_utf8()..).unwrap_or_default();
        let (doubled, rest) = rest.strip_prefix(sign).map_or((false, rest), |rest| (true, rest));
        let part = |from: usize, to: usize| chars[from..to].iter().collect::<String>();
        match sign {
            ':' if !doubled => {
                let (from, length) =
                    rest.split_once(':').map_or((rest, None), |(a, b)| (a, Some(b)));
                let whole = i64::try_from(all).unwrap_or(i64::MAX);
                let inside = |at: i64| if at < 0 { at.saturating_add(whole) } else { at };
                let Ok(from) = self.sum(from)?.map(inside) else { return Ok(None) };
                let to = match length.map(|length| self.sum(length)).transpose()? {
                    None => whole,
                    Some(Err(_)) => return Ok(None),
                    Some(Ok(length)) if length < 0 => inside(length),
                    Some(Ok(length)) => from.saturating_add(length),
                };
                let ends = [from, to].map(|at| usize::try_from(at.min(whole)).ok());
                let [Some(from), Some(to)] = ends else { return Ok(None) };
                Ok((from <= to).then(|| part(from, to)))
            }
            '^' | ',' if rest.is_empty() && text.is_ascii() => {
                let end = if doubled { all } else { all.min(1) };
                let (head, tail) = text.split_at(end);
                let head =
                    if sign == '^' { head.to_ascii_uppercase() } else { head.to_ascii_lowercase() };
                Ok(Some(head + tail))
            }
            '/' => self.replaced(&chars, rest, doubled),
            '#' | '%' => {
                let Some(pattern) = self.pattern(rest)? else { return Ok(None) };
                self.work((all + 1) * all * pattern.len())?;
                let is_prefix = sign == '#';
                let mut cuts: Vec<usize> = (0..=all).collect();
                if doubled == is_prefix {
                    cuts.reverse();
                }
                let cut = cuts.into_iter().find(|cut| match is_prefix {
                    true => matches(&pattern, &chars[..*cut]),
                    false => matches(&pattern, &chars[*cut..]),
                });
                Ok(Some(match cut {
                    None => text.to_owned(),
                    Some(cut) if is_prefix => part(cut, all),
                    Some(cut) => part(0, cut),
                }))
            }
            _ => Ok(None),
        }
    }

    /// `chars` with the longest part, or all, that match a pattern replaced.
    fn replaced(
        &mut self,
        chars: &[char],
        rest: &str,
        is_all: bool,
    ) -> Result<Option<String>, String> {
        let (pattern, by) = rest.split_once('/').unwrap_or((rest, ""));
        let is_odd = pattern.is_empty() || pattern.contains(['#', '%', '\\', '\'', '"', '$', '`']);
        if is_odd || chars.len() > MOST_REPLACED {
            return Ok(None);
        }
        let (Some(pattern), by) = (self.pattern(pattern)?, self.word(by)?) else { return Ok(None) };
        self.work(chars.len().pow(3) / 4 + pattern.len())?;
        let mut out = String::new();
        let mut at = 0;
        let mut goes_on = true;
        while at < chars.len() {
            let mut ends = (at + 1..=chars.len()).rev();
            match ends.find(|end| goes_on && matches(&pattern, &chars[at..*end])) {
                Some(end) => {
                    out += &by;
                    at = end;
                    goes_on = is_all;
                }
                None => {
                    out.push(chars[at]);
                    at += 1;
                }
            }
        }
        self.work(out.len())?;
        Ok((!by.contains(['&', UNKNOWN])).then_some(out))
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
