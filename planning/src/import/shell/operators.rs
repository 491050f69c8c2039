//! Parameters such as `${NAME:-default}` and `${NAME%.sh}`, and patterns.

use super::expand::{How, Words};
use super::run::Reader;
use super::scan::is_name;
use super::state::{Held, Truth};
use super::{UNKNOWN, counted, many, mark, unknowns};

const PLAIN: How = How { splits: false, quoted: false, pattern: false };
const PATTERN: How = How { pattern: true, ..PLAIN };

impl Reader<'_> {
    /// Adds the value of the parameter `text`, such as `NAME`, `NAME[@]` or `NAME:-default`.
    pub(super) fn parameter(
        &mut self,
        text: &str,
        words: &mut Words,
        how: How,
    ) -> Result<(), String> {
        let is_part = |c: char| c.is_ascii_alphanumeric() || c == '_';
        let bare = text.trim_start_matches(['#', '!']);
        let counts = text.starts_with('#') && bare.starts_with(is_part);
        if text.starts_with('!') && text.len() > 1 {
            return self.indirect(bare, words, how);
        }
        let text = if counts { bare } else { text };
        let first = text.chars().next().filter(|c| !is_part(*c)).map_or(0, char::len_utf8);
        let end = text[first..].find(|c| !is_part(c)).unwrap_or(text.len() - first);
        let (name, mut rest) = text.split_at(if first > 0 { first } else { end });
        let mut is_list = name == "@";
        let mut held = self.held(name);
        if let Some((index, behind)) = rest.strip_prefix('[').and_then(|rest| rest.split_once(']'))
        {
            rest = behind;
            is_list |= index == "@";
            if !matches!(index, "@" | "*") {
                let index = self.sum(index)?;
                held = held.at(index.ok());
            }
        } else if !matches!(name, "@" | "*") {
            held = held.at(Some(0));
        }
        if counts && rest.is_empty() {
            let length = match held {
                Held::Set(all) if all.iter().any(|word| many(word).is_some()) => counted(name),
                Held::Set(all) if is_list || text.contains("[*]") => all.len().to_string(),
                Held::Set(all) if !all.concat().contains(UNKNOWN) => {
                    all.concat().chars().count().to_string()
                }
                Held::Unset => "0".to_owned(),
                _ => counted(name),
            };
            words.value(&length, how);
            return Ok(());
        }
        self.operator(name, held, rest, (words, how, is_list))
    }

    fn indirect(&mut self, text: &str, words: &mut Words, how: How) -> Result<(), String> {
        let end = text.find(|c: char| !c.is_ascii_alphanumeric() && c != '_').unwrap_or(text.len());
        let (name, rest) = text.split_at(end);
        match self.held(name).at(Some(0)) {
            Held::Set(all) if is_name(&all.concat()) && !rest.starts_with(['*', '@', '[']) => {
                self.parameter(&(all.concat() + rest), words, how)
            }
            _ => {
                words.value(&mark("%indirect"), how);
                Ok(())
            }
        }
    }

    /// Whether the value is empty or, without `colon`, not set.
    fn is_empty(&self, held: &Held, colon: bool) -> Truth {
        match held {
            Held::Set(all) if !colon || all.iter().any(|word| !self.may_be_empty(word)) => {
                Truth::No
            }
            Held::Set(all) if all.iter().all(|word| self.is_absent(word)) => Truth::Yes,
            Held::Unset | Held::Absent(_) => Truth::Yes,
            Held::Set(_) | Held::Unknown(_) => Truth::Unknown,
        }
    }

    /// Whether `word` has nothing but parts that are not known.
    fn may_be_empty(&self, word: &str) -> bool {
        unknowns(word).1.is_empty()
    }

    /// Whether `word` is empty, or has nothing but variables that only the environment sets: those are taken as not set.
    pub(super) fn is_absent(&self, word: &str) -> bool {
        let (names, rest) = unknowns(word);
        let is_unset = |name: &&str| match name.strip_prefix('%') {
            Some(at) => at.parse::<usize>().is_ok() && self.state.arguments.is_none(),
            None => {
                !self.state.variables.contains_key(*name)
                    && !self.state.forgotten
                    && !super::is_of_bash(name)
                    && is_name(name)
            }
        };
        let is_absent = rest.is_empty() && names.iter().all(is_unset);
        if is_absent && !names.is_empty() {
            self.assumed.set(true);
        }
        is_absent
    }

    fn operator(
        &mut self,
        name: &str,
        held: Held,
        rest: &str,
        (words, how, is_list): (&mut Words, How, bool),
    ) -> Result<(), String> {
        let colon = rest.starts_with(':');
        let sign = rest.trim_start_matches(':').chars().next();
        let default = rest.get(usize::from(colon) + 1..).unwrap_or_default();
        let is_default = matches!(sign, Some('-' | '=' | '+' | '?')) && !rest.starts_with("::");
        // An array that is not known may have any number of words.
        let loose = How { quoted: how.quoted && !is_list, ..how };
        let is_joined = !how.splits || !is_list && how.quoted;
        let own = |held: &Held, words: &mut Words| match held {
            Held::Set(all)
                if is_joined && all.len() > 1 && all.iter().any(|word| many(word).is_some()) =>
            {
                words.value(&mark(name), how);
            }
            Held::Set(all) => words.values(all, how, is_list),
            Held::Unset => {}
            Held::Absent(mark) | Held::Unknown(mark) => words.value(mark, loose),
        };
        let empty = self.is_empty(&held, colon);
        match (sign.filter(|_| is_default), empty) {
            (None, _) if rest.is_empty() => own(&held, words),
            (None, _) => match held {
                Held::Set(all) if !all.iter().any(|word| word.contains(UNKNOWN)) => {
                    let mut out = Vec::new();
                    for word in &all {
                        out.push(self.altered(word, rest)?.unwrap_or_else(|| mark(name)));
                    }
                    let is_slice = colon && (all.len() > 1 || is_list || name == "*");
                    match is_slice {
                        true => words.value(&mark(name), loose),
                        false => words.values(&out, how, is_list),
                    }
                }
                Held::Unset => {}
                Held::Absent(mark) | Held::Unknown(mark) => words.value(&mark, loose),
                Held::Set(_) => words.value(&mark(name), loose),
            },
            (Some(_), Truth::Unknown) => words.value(&mark(name), loose),
            (Some('+'), Truth::Yes) => {}
            (Some('+'), Truth::No) | (Some('-'), Truth::Yes) => self.expand(default, words, how)?,
            (Some('='), Truth::Yes) => {
                let text = self.one(default, How { splits: false, ..how })?;
                words.value(&text, how);
                self.set_text(name, text)?;
            }
            (Some(_), Truth::Yes) => words.value(&mark(name), loose),
            (Some(_), Truth::No) => own(&held, words),
        }
        Ok(())
    }

    /// `text` changed by an operator such as `%.sh`; `None` where that is not known.
    fn altered(&mut self, text: &str, operator: &str) -> Result<Option<String>, String> {
        let chars: Vec<char> = text.chars().collect();
        let all = chars.len();
        let sign: String = operator.chars().take(2).collect();
        let doubled = ["##", "%%", "//", "^^", ",,"].contains(&sign.as_str());
        let rest = &operator
            [if doubled { 2 } else { operator.chars().next().map_or(0, char::len_utf8) }..];
        let part = |from: usize, to: usize| chars[from..to].iter().collect::<String>();
        if sign.starts_with(':') {
            let (from, length) = rest.split_once(':').map_or((rest, None), |(a, b)| (a, Some(b)));
            let from = self.sum(from)?.ok();
            let length = length.map(|length| self.sum(length)).transpose()?;
            let whole = i64::try_from(all).unwrap_or(i64::MAX);
            let from = from
                .map(|from| if from < 0 { from.saturating_add(whole) } else { from.min(whole) });
            let to = match (from, length) {
                (Some(_), None) => Some(whole),
                (Some(_), Some(Ok(length))) if length < 0 => Some(whole.saturating_add(length)),
                (Some(from), Some(Ok(length))) => Some(from.saturating_add(length).min(whole)),
                _ => None,
            };
            let [from, to] = [from, to].map(|at| at.and_then(|at| usize::try_from(at).ok()));
            return Ok(from
                .zip(to)
                .filter(|(from, to)| from <= to)
                .map(|(from, to)| part(from, to)));
        }
        if rest.is_empty() && sign.starts_with(['^', ',']) {
            let change = |c: char| {
                if sign.starts_with('^') { c.to_ascii_uppercase() } else { c.to_ascii_lowercase() }
            };
            let is_changed = |at: usize| doubled || at == 0;
            let changed = |(at, c): (usize, &char)| if is_changed(at) { change(*c) } else { *c };
            return Ok(text.is_ascii().then(|| chars.iter().enumerate().map(changed).collect()));
        }
        let is_prefix = sign.starts_with('#');
        if !is_prefix && !sign.starts_with('%') {
            return if sign.starts_with('/') { self.replaced(&chars, operator) } else { Ok(None) };
        }
        let Some(pattern) = self.pattern(rest)? else { return Ok(None) };
        self.work(all * (all + pattern.len()))?;
        let mut cuts: Vec<usize> = (0..=all).collect();
        if doubled == is_prefix {
            cuts.reverse();
        }
        let cut = cuts.into_iter().find(|cut| match is_prefix {
            true => matches(&pattern, &chars[..*cut]),
            false => matches(&pattern, &chars[*cut..]),
        });
        Ok(Some(match (cut, is_prefix) {
            (None, _) => text.to_owned(),
            (Some(cut), true) => part(cut, all),
            (Some(cut), false) => part(0, cut),
        }))
    }

    /// `chars` with the longest parts that match a pattern replaced.
    fn replaced(&mut self, chars: &[char], operator: &str) -> Result<Option<String>, String> {
        let is_all = operator.starts_with("//");
        let rest = operator.trim_start_matches('/');
        let (pattern, by) = rest.split_once('/').unwrap_or((rest, ""));
        let is_odd = rest.starts_with(['#', '%']) || pattern.contains(['\\', '\'', '"', '$', '`']);
        if is_odd || by.contains('&') || pattern.is_empty() || operator.starts_with("///") {
            return Ok(None);
        }
        let (Some(pattern), by) = (self.pattern(pattern)?, self.word(by)?) else { return Ok(None) };
        self.work(chars.len() * chars.len() * pattern.len())?;
        let mut out = String::new();
        let mut at = 0;
        while at < chars.len() {
            let ends = (at + 1..=chars.len()).rev();
            let end = ends.into_iter().find(|end| matches(&pattern, &chars[at..*end]));
            match end {
                Some(end) => {
                    out += &by;
                    at = end;
                    if !is_all {
                        break;
                    }
                }
                None => {
                    out.push(chars[at]);
                    at += 1;
                }
            }
        }
        self.work(out.len())?;
        Ok((!by.contains(['&', UNKNOWN])).then(|| out + &chars[at..].iter().collect::<String>()))
    }

    /// The pattern `raw`, expanded; `None` where it is not known or has forms that are not matched.
    pub(super) fn pattern(&mut self, raw: &str) -> Result<Option<Vec<char>>, String> {
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
