//! Sums of whole numbers, as bash reads them.

use super::expand::{How, WORD};
use super::run::Reader;
use super::scan::{DEEPEST, is_name, is_part};
use super::value::{Held, Value};
use super::{END, UNKNOWN, doubt};

/// Signs between two values; later ones bind more closely.
const SIGNS: [&str; 8] = ["?", "||", "&&", "== !=", "<= >= < >", "+ -", "* / %", "**"];

/// The sign at the start of `text`, and how closely it binds.
fn sign(text: &str) -> Option<(&'static str, usize)> {
    let of = |(binds, all): (usize, &&'static str)| all.split(' ').map(move |sign| (sign, binds));
    let all = SIGNS.iter().enumerate().flat_map(of).filter(|(sign, _)| text.starts_with(sign));
    all.max_by_key(|(sign, _)| sign.len())
}

/// The names in `text` to which it may assign, as a sum.
pub(super) fn assigned(text: &str) -> Vec<&str> {
    let plain = text.replace("<<=", "=").replace(">>=", "=");
    let compared = ["==", "!=", "<=", ">="];
    let plain = compared.iter().fold(plain, |text, sign| text.replace(sign, " "));
    let assigns = ["=", "++", "--"].iter().any(|sign| plain.contains(sign));
    let names = text.split(|c| !is_part(c)).filter(|name| assigns && is_name(name));
    names.collect()
}

struct Sum<'s, 'r, 'g> {
    reader: &'s mut Reader<'g>,
    rest: &'r str,
    /// What is not known of it.
    unknown: Option<String>,
    depth: u32,
}

impl Reader<'_> {
    /// The value of the sum `text`, or the name of what is unknown in it. What it assigns is not known then.
    pub(super) fn sum(&mut self, text: &str) -> Result<Result<i64, String>, String> {
        let text = self.one(text, How { quoted: true, ..WORD })?;
        self.work(text.len() + 1)?;
        // Alone, an assignment is followed.
        if let Some((name, value)) = text.split_once('=')
            && is_name(name.trim())
            && !value.starts_with('=')
            && assigned(value).is_empty()
        {
            let sum = self.value(value, 0)?;
            let set = sum.as_ref().map_or(Value::Unknown(false), |sum| Value::of(sum.to_string()));
            self.set(name.trim(), set);
            return Ok(sum);
        }
        let names = assigned(&text);
        for name in &names {
            self.set(name, Value::Unknown(false));
        }
        match names.first() {
            Some(name) => Ok(Err((*name).to_owned())),
            None => self.value(&text, 0),
        }
    }

    fn value(&mut self, text: &str, depth: u32) -> Result<Result<i64, String>, String> {
        // A number in place of each part that is not known leaves the form of the sum.
        let known = text.split(UNKNOWN).enumerate().map(|(at, part)| {
            let behind = part.split_once(END).filter(|_| at > 0).map(|(_, behind)| behind);
            behind.map_or(part.to_owned(), |behind| format!("0{behind}"))
        });
        let known: String = known.collect();
        if known.trim().is_empty() {
            return Ok(Ok(0));
        }
        let mut sum = Sum { reader: self, rest: &known, unknown: doubt(text), depth };
        let value = sum.binary(0)?;
        if !sum.rest.trim().is_empty() {
            sum.fault();
        }
        Ok(sum.unknown.map_or(Ok(value), Err))
    }
}

impl Sum<'_, '_, '_> {
    fn take(&mut self, sign: &str) -> bool {
        self.rest = self.rest.trim_start();
        let rest = self.rest.strip_prefix(sign);
        self.rest = rest.unwrap_or(self.rest);
        rest.is_some()
    }

    /// A sum that is not followed, or that bash refuses.
    fn fault(&mut self) -> i64 {
        self.unknown = Some("%sum".to_owned());
        0
    }

    /// A value and what is joined to it by signs that bind at least as closely as `least`.
    fn binary(&mut self, least: usize) -> Result<i64, String> {
        self.depth += 1;
        if self.depth > DEEPEST {
            return Err("a sum is nested too deeply".to_owned());
        }
        let mut left = self.unary()?;
        while let Some((sign, binds)) = sign(self.rest.trim_start()) {
            if binds < least || !self.take(sign) {
                break;
            }
            if sign == "?" {
                let yes = self.binary(0)?;
                let no = if self.take(":") { self.binary(0)? } else { self.fault() };
                left = if left != 0 { yes } else { no };
            } else {
                let right = self.binary(binds + usize::from(sign != "**"))?;
                // What is not known may be no zero.
                let zero = |own: &mut Self| if own.unknown.is_none() { own.fault() } else { 0 };
                left = joined(sign, left, right).unwrap_or_else(|| zero(self));
            }
        }
        self.depth -= 1;
        Ok(left)
    }

    fn unary(&mut self) -> Result<i64, String> {
        if let Some(sign) = ["+", "-", "!"].into_iter().find(|sign| self.take(sign)) {
            let value = self.binary(usize::MAX)?;
            return Ok(match sign {
                "-" => value.wrapping_neg(),
                "!" => i64::from(value == 0),
                _ => value,
            });
        }
        if self.take("(") {
            let value = self.binary(0)?;
            return Ok(if self.take(")") { value } else { self.fault() });
        }
        let text = self.rest.trim_start();
        let end = text.find(|c| !is_part(c) && c != '#').unwrap_or(text.len());
        let (word, rest) = text.split_at(end);
        self.rest = rest;
        match is_name(word) {
            true => self.read(word),
            false => Ok(number(word).unwrap_or_else(|| self.fault())),
        }
    }

    fn read(&mut self, name: &str) -> Result<i64, String> {
        let sum = match self.reader.held(name).at(Some(0)) {
            Held::Unknown(mark, _) => Err(doubt(&mark).unwrap_or_default()),
            Held::Set(all) => {
                let text = all.concat();
                self.reader.work(text.len() + 1)?;
                match assigned(&text).is_empty() {
                    true => self.reader.value(&text, self.depth + 4)?,
                    false => Err("%sum".to_owned()),
                }
            }
        };
        Ok(sum.unwrap_or_else(|name| {
            self.unknown.get_or_insert(name);
            0
        }))
    }
}

fn joined(sign: &str, left: i64, right: i64) -> Option<i64> {
    Some(match sign {
        "||" => i64::from(left != 0 || right != 0),
        "&&" => i64::from(left != 0 && right != 0),
        "==" => i64::from(left == right),
        "!=" => i64::from(left != right),
        "<=" => i64::from(left <= right),
        ">=" => i64::from(left >= right),
        "<" => i64::from(left < right),
        ">" => i64::from(left > right),
        "+" => left.wrapping_add(right),
        "-" => left.wrapping_sub(right),
        "*" => left.wrapping_mul(right),
        "/" => left.checked_div(right)?,
        "%" => left.checked_rem(right)?,
        _ => left.wrapping_pow(u32::try_from(right).ok()?),
    })
}

/// A number as it is written: with zeros in front to base 8, or to base 16.
fn number(text: &str) -> Option<i64> {
    match text.strip_prefix("0x") {
        Some(digits) => i64::from_str_radix(digits, 16).ok(),
        None => i64::from_str_radix(text, if text.starts_with('0') { 8 } else { 10 }).ok(),
    }
}
