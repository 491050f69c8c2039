//! Tests in brackets.

use super::run::Reader;
use super::scan::DEEPEST;
use super::state::Truth;
use super::{UNKNOWN, many};

const SIGNS: [&str; 9] = ["=", "==", "!=", "-eq", "-ne", "-gt", "-ge", "-lt", "-le"];

impl Reader<'_> {
    /// Whether the test of `words` in `[ ]` holds.
    pub(super) fn brackets(&mut self, words: &[String]) -> Result<Truth, String> {
        self.doubt = words.iter().find_map(|word| self.doubt_of(word));
        // A variable that nobody sets has no word without quotes.
        let is_gone = |word: &String| many(word).is_some() && self.is_absent(word);
        if words.len() == 2 && ["-n", "-z"].contains(&words[0].as_str()) && is_gone(&words[1]) {
            return Ok(Truth::Yes);
        }
        if words.iter().any(|word| many(word).is_some()) {
            return Ok(Truth::Unknown);
        }
        for (sign, ends) in [("-o", Truth::Yes), ("-a", Truth::No)] {
            if words.len() > 4
                && let Some(at) = words.iter().position(|word| word == sign)
            {
                let left = self.few(&words[..at])?;
                if left == ends {
                    return Ok(ends);
                }
                self.work(words.len())?;
                let is_nested = words[at + 1..].iter().any(|word| word == "-o");
                let right = if sign == "-a" && is_nested {
                    Truth::Unknown
                } else {
                    self.brackets_behind(&words[at + 1..])?
                };
                return Ok(if right == ends {
                    ends
                } else if left == Truth::Unknown {
                    left
                } else {
                    right
                });
            }
        }
        self.few(words)
    }

    fn brackets_behind(&mut self, words: &[String]) -> Result<Truth, String> {
        self.depth += 1;
        if self.depth > DEEPEST {
            return Err("a test is nested too deeply".to_owned());
        }
        let truth = self.brackets(words)?;
        self.depth -= 1;
        Ok(truth)
    }

    /// A test of few words.
    fn few(&mut self, words: &[String]) -> Result<Truth, String> {
        let mut words = words;
        let mut negated = false;
        while words.len() > 1
            && words[0] == "!"
            && !(words.len() == 3 && SIGNS.contains(&words[1].as_str()))
        {
            negated = !negated;
            words = &words[1..];
        }
        let truth = match words {
            [] => Truth::No,
            [one] => self.is_filled(one),
            [sign, one] => self.unary(sign, one),
            [left, sign, right] if sign == "=" || sign == "==" || sign == "!=" => {
                let known = !left.contains(UNKNOWN) && !right.contains(UNKNOWN);
                let equal = if known { Truth::of(left == right) } else { Truth::Unknown };
                if sign == "!=" { equal.not() } else { equal }
            }
            [left, sign, right] if SIGNS.contains(&sign.as_str()) => {
                let number = |word: &String| word.trim().parse::<i64>();
                match (number(left), number(right)) {
                    _ if left.contains(UNKNOWN) || right.contains(UNKNOWN) => Truth::Unknown,
                    (Ok(left), Ok(right)) => compared(sign, left, right),
                    _ => Truth::No,
                }
            }
            _ => Truth::Unknown,
        };
        Ok(if negated { truth.not() } else { truth })
    }

    fn is_filled(&self, word: &str) -> Truth {
        match (word.is_empty(), word.contains(UNKNOWN)) {
            (true, _) => Truth::No,
            (_, true) if self.is_absent(word) => Truth::No,
            (_, true) if super::unknowns(word).1.is_empty() => Truth::Unknown,
            _ => Truth::Yes,
        }
    }

    fn unary(&self, sign: &str, word: &str) -> Truth {
        match sign {
            "-n" => self.is_filled(word),
            "-z" => self.is_filled(word).not(),
            _ => Truth::Unknown,
        }
    }

    /// Whether the test of `tokens` in `[[ ]]` holds.
    pub(super) fn conditional(&mut self, tokens: &[String]) -> Result<Truth, String> {
        let mut rest = tokens;
        let truth = self.any(&mut rest, true)?;
        Ok(if rest.is_empty() { truth } else { Truth::Unknown })
    }

    fn any(&mut self, rest: &mut &[String], live: bool) -> Result<Truth, String> {
        let mut truth = self.every(rest, live)?;
        while rest.first().is_some_and(|token| token == "||") {
            *rest = &rest[1..];
            let next = self.every(rest, live && truth != Truth::Yes)?;
            truth = either(truth, next);
        }
        Ok(truth)
    }

    fn every(&mut self, rest: &mut &[String], live: bool) -> Result<Truth, String> {
        let mut truth = self.one_test(rest, live)?;
        while rest.first().is_some_and(|token| token == "&&") {
            *rest = &rest[1..];
            let next = self.one_test(rest, live && truth != Truth::No)?;
            truth = either(truth.not(), next.not()).not();
        }
        Ok(truth)
    }

    fn one_test(&mut self, rest: &mut &[String], live: bool) -> Result<Truth, String> {
        self.work(1)?;
        let mut negated = false;
        while rest.first().is_some_and(|token| token == "!") {
            *rest = &rest[1..];
            negated = !negated;
        }
        let truth = if rest.first().is_some_and(|token| token == "(") {
            *rest = &rest[1..];
            self.depth += 1;
            if self.depth > DEEPEST {
                return Err("a test is nested too deeply".to_owned());
            }
            let truth = self.any(rest, live)?;
            self.depth -= 1;
            *rest = rest.get(1..).unwrap_or_default();
            truth
        } else {
            let end = rest.iter().position(|token| ["&&", "||", ")"].contains(&token.as_str()));
            let (own, behind) = rest.split_at(end.unwrap_or(rest.len()));
            *rest = behind;
            if live { self.of_tokens(own)? } else { Truth::Unknown }
        };
        Ok(if negated { truth.not() } else { truth })
    }

    fn of_tokens(&mut self, tokens: &[String]) -> Result<Truth, String> {
        match tokens {
            [one] => {
                let word = self.word(one)?;
                self.doubt = self.doubt_of(&word);
                Ok(self.is_filled(&word))
            }
            [sign, one] => {
                let word = self.word(one)?;
                self.doubt = self.doubt_of(&word);
                Ok(self.unary(sign, &word))
            }
            [left, sign, right] if sign == "=" || sign == "==" || sign == "!=" => {
                let left = self.word(left)?;
                self.doubt = self.doubt_of(&left);
                let truth = self.is_like(&left, right)?;
                Ok(if sign == "!=" { truth.not() } else { truth })
            }
            [left, sign, right] if SIGNS.contains(&sign.as_str()) => {
                Ok(match (self.sum(left)?, self.sum(right)?) {
                    (Ok(left), Ok(right)) => compared(sign, left, right),
                    (Err(name), _) | (_, Err(name)) => {
                        self.doubt = Some(name);
                        Truth::Unknown
                    }
                })
            }
            [_, sign, _] if sign == "=~" => {
                self.set("BASH_REMATCH", super::state::Value::Unknown(true));
                Ok(Truth::Unknown)
            }
            _ => Ok(Truth::Unknown),
        }
    }
}

const fn either(a: Truth, b: Truth) -> Truth {
    match (a, b) {
        (Truth::Yes, _) | (_, Truth::Yes) => Truth::Yes,
        (Truth::No, Truth::No) => Truth::No,
        _ => Truth::Unknown,
    }
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
