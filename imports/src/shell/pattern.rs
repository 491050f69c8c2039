//! Patterns, and operators such as `${NAME%.sh}`.

use super::UNKNOWN;
use super::run::Reader;
use super::value::Truth;

impl Reader<'_> {
    /// `text` without the start or the end that an operator such as `%.sh` takes off; `None` where that is not known.
    pub(super) fn cut(&mut self, text: &str, operator: &str) -> Result<Option<String>, String> {
        let chars: Vec<char> = text.chars().collect();
        let all = chars.len();
        let is_prefix = operator.starts_with('#');
        let rest = operator.strip_prefix(['#', '%']).filter(|_| !text.contains(UNKNOWN));
        let Some(rest) = rest else { return Ok(None) };
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
        let text = self.word(raw)?;
        let is_quoted = raw.contains(['\'', '"', '\\', '$', '`']);
        let is_odd =
            text.contains(['[', '\\', UNKNOWN]) || text.contains(['?', '*', '(']) && is_quoted;
        Ok((!is_odd && !text.contains('(')).then(|| text.chars().collect()))
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
    // The parts of the text, by their lengths, that match the pattern so far.
    let mut reached = vec![false; text.len() + 1];
    reached[0] = true;
    for own in pattern {
        if *own == '*' {
            let first = reached.iter().position(|is_it| *is_it).unwrap_or(reached.len());
            reached[first..].fill(true);
        } else {
            let next =
                text.iter().zip(&reached).map(|(c, is_it)| *is_it && (own == c || *own == '?'));
            reached = std::iter::once(false).chain(next.collect::<Vec<_>>()).collect();
        }
    }
    reached[text.len()]
}
