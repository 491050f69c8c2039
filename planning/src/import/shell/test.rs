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
            false if words.len() > 4 => self.joined_tests(&mut &*words, [false, true, false]),
            false => self.one_test(&mut &*words, false, true),
        }
    }

    /// Whether the test of `tokens` in `[[ ]]` holds, which are not expanded yet.
    pub(super) fn conditional(&mut self, tokens: &[String]) -> Result<Truth, String> {
        self.doubt = None;
        self.joined_tests(&mut &*tokens, [true, true, false])
    }

    /// Tests that are joined by `&&` if `is_and`, or by `||` and `&&`.
    fn joined_tests(
        &mut self,
        rest: &mut &[String],
        [is_raw, live, is_and]: [bool; 3],
    ) -> Result<Truth, String> {
        let next = |own: &mut Self, rest: &mut &[String], live| match is_and {
            true => own.one_test(rest, is_raw, live),
            false => own.joined_tests(rest, [is_raw, live, true]),
        };
        let sign = [["-o", "-a"], ["||", "&&"]][usize::from(is_raw)][usize::from(is_and)];
        let ends = Truth::of(!is_and);
        let mut truth = next(self, rest, live)?;
        while rest.first().is_some_and(|token| token == sign) {
            *rest = &rest[1..];
            let right = next(self, rest, live && truth != ends)?;
            truth = match (truth == ends || right == ends, truth) {
                (true, _) => ends,
                (_, Truth::Unknown) => truth,
                _ => right,
            };
        }
        Ok(truth)
    }

    fn one_test(
        &mut self,
        rest: &mut &[String],
        is_raw: bool,
        live: bool,
    ) -> Result<Truth, String> {
        self.work(1)?;
        let mut negated = false;
        while rest.len() > 1 && rest[0] == "!" && (is_raw || !is_comparison(rest)) {
            *rest = &rest[1..];
            negated = !negated;
        }
        let truth = if is_raw && rest.first().is_some_and(|token| token == "(") {
            *rest = &rest[1..];
            self.deepen()?;
            let truth = self.joined_tests(rest, [is_raw, live, false])?;
            self.depth -= 1;
            *rest = rest.get(1..).unwrap_or_default();
            truth
        } else {
            let ends: &[&str] = if is_raw { &["&&", "||", ")"] } else { &["-a", "-o"] };
            let is_joined = is_raw || rest.len() > 4;
            let end = rest.iter().position(|token| is_joined && ends.contains(&token.as_str()));
            let (own, behind) = rest.split_at(end.unwrap_or(rest.len()));
            *rest = behind;
            if live { self.plain_test(own, is_raw)? } else { Truth::Unknown }
        };
        Ok(if negated { truth.not() } else { truth })
    }

    fn plain_test(&mut self, tokens: &[String], is_raw: bool) -> Result<Truth, String> {
        let mut expanded = |word: &String| {
            let word = if is_raw { self.word(word)? } else { word.clone() };
            if is_raw {
                self.doubt = super::doubt(&word);
            }
            Ok::<_, String>(word)
        };
        Ok(match tokens {
            [] => Truth::No,
            [one] => {
                let word = expanded(one)?;
                self.is_filled(&word)
            }
            [sign, one] => {
                let word = expanded(one)?;
                match sign.as_str() {
                    "-n" => self.is_filled(&word),
                    "-z" => self.is_filled(&word).not(),
                    _ => Truth::Unknown,
                }
            }
            [left, sign, right] if SIGNS[..3].contains(&sign.as_str()) => {
                let left = expanded(left)?;
                let truth = match is_raw {
                    true => self.is_like(&left, right)?,
                    false if left.contains(UNKNOWN) || right.contains(UNKNOWN) => Truth::Unknown,
                    false => Truth::of(left == *right),
                };
                if sign == "!=" { truth.not() } else { truth }
            }
            [left, sign, right] if SIGNS.contains(&sign.as_str()) => {
                let mut number = |word: &String| match is_raw {
                    true => self.sum(word),
                    false if word.contains(UNKNOWN) => Ok(Err(unknowns(word).0.concat())),
                    false => Ok(word.trim().parse().map_err(|_| String::new())),
                };
                match (number(left)?, number(right)?) {
                    (Ok(left), Ok(right)) => compared(sign, left, right),
                    (Err(name), _) | (_, Err(name)) if name.is_empty() => Truth::No,
                    (Err(name), _) | (_, Err(name)) => {
                        self.doubt = Some(name);
                        Truth::Unknown
                    }
                }
            }
            [_, sign, _] if sign == "=~" => {
                self.set("BASH_REMATCH", Value::Unknown(true));
                Truth::Unknown
            }
            _ => Truth::Unknown,
        })
    }

    fn is_filled(&self, word: &str) -> Truth {
        match (word.is_empty(), word.contains(UNKNOWN)) {
            (true, _) => Truth::No,
            (_, true) if self.is_absent(word) => Truth::No,
            (_, true) if unknowns(word).1.is_empty() => Truth::Unknown,
            _ => Truth::Yes,
        }
    }
}

/// Whether `rest` are three words with a sign between.
fn is_comparison(rest: &[String]) -> bool {
    rest.len() == 3 && SIGNS.contains(&rest[1].as_str())
}

fn compared(sign: &str, left: i64, right: i64) -> Truth {
    Truth::of(match sign {
        "-eq" => left == right,
        "-ne" => left != right,
        "-gt" => left > right,
        "-ge" => left >= right,
        "-lt" => left < right,
        _ => left <= right,
    })
}
