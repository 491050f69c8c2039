//! Tests in brackets.

use super::run::Reader;
use super::value::{Truth, Value};
use super::{UNKNOWN, many, unknowns};

const SIGNS: [&str; 9] = ["=", "==", "!=", "-eq", "-ne", "-gt", "-ge", "-lt", "-le"];

impl Reader<'_> {
    /// Whether the test of `words` in `[ ]` holds.
    pub(super) fn brackets(&mut self, words: &[String]) -> Result<Truth, String> {
        self.doubt = words.iter().find_map(|word| super::doubt(word));
        // A variable that nobody sets has no word without quotes.
        let is_gone = |word: &String| many(word).is_some() && self.is_absent(word);
        if words.len() == 2 && ["-n", "-z"].contains(&words[0].as_str()) && is_gone(&words[1]) {
            return Ok(Truth::Yes);
        }
        match words.iter().any(|word| many(word).is_some()) {
            true => Ok(Truth::Unknown),
            false if words.len() > 4 => self.joined_tests(words, &["-o", "-a"], false),
            false => self.one_test(words, false),
        }
    }

    /// Whether the test of `tokens` in `[[ ]]` holds, which are not expanded yet.
    pub(super) fn conditional(&mut self, tokens: &[String]) -> Result<Truth, String> {
        self.doubt = None;
        match tokens.iter().any(|token| token == "(") {
            true => Ok(Truth::Unknown),
            false => self.joined_tests(tokens, &["||", "&&"], true),
        }
    }

    /// Tests with the first of `signs` between, or with the others.
    fn joined_tests(
        &mut self,
        tokens: &[String],
        signs: &[&str],
        is_raw: bool,
    ) -> Result<Truth, String> {
        let Some((sign, others)) = signs.split_first() else {
            return self.one_test(tokens, is_raw);
        };
        let ends = Truth::of(signs.len() == 2);
        let mut truth = ends.not();
        for part in tokens.split(|token| token == sign) {
            match self.joined_tests(part, others, is_raw)? {
                Truth::Unknown => truth = Truth::Unknown,
                own if own == ends => return Ok(ends),
                _ => {}
            }
        }
        Ok(truth)
    }

    fn one_test(&mut self, mut tokens: &[String], is_raw: bool) -> Result<Truth, String> {
        self.work(tokens.len() + 1)?;
        let is_sign = |word: &String| SIGNS.contains(&word.as_str());
        let mut negated = false;
        while tokens.len() > 1 && tokens[0] == "!" && !(tokens.len() == 3 && is_sign(&tokens[1])) {
            tokens = &tokens[1..];
            negated = !negated;
        }
        let truth = match tokens {
            [] => Truth::No,
            [one] => self.is_filled(one, is_raw)?,
            [sign, one] if sign == "-n" => self.is_filled(one, is_raw)?,
            [sign, one] if sign == "-z" => self.is_filled(one, is_raw)?.not(),
            [left, sign, right] if SIGNS[..3].contains(&sign.as_str()) => {
                let truth = if is_raw {
                    let left = self.word(left)?;
                    self.doubt = super::doubt(&left);
                    self.is_like(&left, right)?
                } else if left.contains(UNKNOWN) || right.contains(UNKNOWN) {
                    Truth::Unknown
                } else {
                    Truth::of(left == right)
                };
                if sign == "!=" { truth.not() } else { truth }
            }
            [left, sign, right] if is_sign(sign) => {
                let mut number = |word: &String| match is_raw || word.contains(UNKNOWN) {
                    true => self.sum(word),
                    false => Ok(word.trim().parse().map_err(|_| String::new())),
                };
                match (number(left)?, number(right)?) {
                    (Ok(left), Ok(right)) => Truth::of(match &sign[1..] {
                        "eq" => left == right,
                        "ne" => left != right,
                        "gt" => left > right,
                        "ge" => left >= right,
                        "lt" => left < right,
                        _ => left <= right,
                    }),
                    (Err(name), _) | (_, Err(name)) if name.is_empty() => Truth::No,
                    (Err(name), _) | (_, Err(name)) => {
                        self.doubt = Some(name);
                        Truth::Unknown
                    }
                }
            }
            _ => {
                self.set("BASH_REMATCH", Value::Unknown(true));
                Truth::Unknown
            }
        };
        Ok(if negated { truth.not() } else { truth })
    }

    fn is_filled(&mut self, word: &str, is_raw: bool) -> Result<Truth, String> {
        let word = if is_raw { self.word(word)? } else { word.to_owned() };
        if is_raw {
            self.doubt = super::doubt(&word);
        }
        Ok(match word.contains(UNKNOWN) {
            true if self.is_absent(&word) => Truth::No,
            true if unknowns(&word).1.is_empty() => Truth::Unknown,
            _ => Truth::of(!word.is_empty()),
        })
    }
}
