//! Sums of whole numbers, as bash reads them.

use super::expand::How;
use super::run::Reader;
use super::scan::{DEEPEST, is_name};
use super::state::{Held, Value};
use super::{END, UNKNOWN, unknowns};

/// Signs between two values, and how closely they bind; longer ones first.
const SIGNS: [(&str, u32); 20] = [
    ("**", 11),
    ("||", 1),
    ("&&", 2),
    ("==", 6),
    ("!=", 6),
    ("<=", 7),
    (">=", 7),
    ("<<", 8),
    (">>", 8),
    ("|", 3),
    ("^", 4),
    ("&", 5),
    ("<", 7),
    (">", 7),
    ("+", 9),
    ("-", 9),
    ("*", 10),
    ("/", 10),
    ("%", 10),
    ("?", 0),
];

struct Sum<'s, 'r, 'g> {
    reader: &'s mut Reader<'g>,
    rest: &'r str,
    /// What is not known of it.
    unknown: Option<String>,
    depth: u32,
}

impl Reader<'_> {
    /// The value of the sum `text`, or the name of what is unknown in it.
    pub(super) fn sum(&mut self, text: &str) -> Result<Result<i64, String>, String> {
        let text = self.one(text, How { splits: false, quoted: true, pattern: false })?;
        let name = unknowns(&text).0.first().map(|name| (*name).to_owned());
        self.work(text.len() + 1)?;
        // A number in place of each part that is not known leaves the form of the sum.
        let parts = text.split(UNKNOWN).enumerate();
        let known: String = parts
            .map(|(at, part)| match part.split_once(END).filter(|_| at > 0) {
                Some((_, behind)) => format!("0{behind}"),
                None => part.to_owned(),
            })
            .collect();
        self.value(&known, name, 0)
    }

    fn value(
        &mut self,
        text: &str,
        unknown: Option<String>,
        depth: u32,
    ) -> Result<Result<i64, String>, String> {
        if text.trim().is_empty() {
            return Ok(Ok(0));
        }
        let mut sum = Sum { reader: self, rest: text, unknown, depth };
        let mut value = sum.binary(0, true)?;
        while sum.take(",") {
            value = sum.binary(0, true)?;
        }
        let is_whole = sum.rest.trim().is_empty();
        Ok(match sum.unknown {
            _ if !is_whole => Err("%sum".to_owned()),
            Some(name) => Err(name),
            None => Ok(value),
        })
    }
}

impl Sum<'_, '_, '_> {
    fn take(&mut self, sign: &str) -> bool {
        self.rest = self.rest.trim_start();
        let rest = self.rest.strip_prefix(sign);
        self.rest = rest.unwrap_or(self.rest);
        rest.is_some()
    }

    /// A sum that bash refuses.
    fn fault(&mut self) -> i64 {
        self.unknown = Some("%sum".to_owned());
        0
    }

    /// A division by zero, unless what is not known is more.
    fn undefined(&mut self) -> i64 {
        if self.unknown.is_none() { self.fault() } else { 0 }
    }

    /// A value and what is joined to it by signs that bind at least as closely as `least`.
    fn binary(&mut self, least: u32, live: bool) -> Result<i64, String> {
        self.depth += 1;
        if self.depth > DEEPEST {
            return Err("a sum is nested too deeply".to_owned());
        }
        let mut left = self.unary(live)?;
        while let Some((sign, binds)) =
            SIGNS.iter().copied().find(|(sign, _)| self.rest.trim_start().starts_with(sign))
        {
            if binds < least || !self.take(sign) {
                break;
            }
            if sign == "?" {
                let yes = self.binary(0, live && left != 0)?;
                if !self.take(":") {
                    self.fault();
                }
                let no = self.binary(0, live && left == 0)?;
                left = if left != 0 { yes } else { no };
                continue;
            }
            let goes_on = live && !(sign == "&&" && left == 0 || sign == "||" && left != 0);
            let right = self.binary(if sign == "**" { binds } else { binds + 1 }, goes_on)?;
            left = match joined(sign, left, right) {
                Some(value) => value,
                None if live => self.undefined(),
                None => 0,
            };
        }
        self.depth -= 1;
        Ok(left)
    }

    fn unary(&mut self, live: bool) -> Result<i64, String> {
        for sign in ["++", "--"] {
            if self.take(sign) {
                let name = self.name();
                let by = if sign == "++" { 1 } else { -1 };
                let value = self.read(&name, live)?.wrapping_add(by);
                return self.write(&name, value, live);
            }
        }
        let sign = ["+", "-", "!", "~"].into_iter().find(|sign| self.take(sign));
        if let Some(sign) = sign {
            self.depth += 1;
            if self.depth > DEEPEST {
                return Err("a sum is nested too deeply".to_owned());
            }
            let value = self.unary(live)?;
            self.depth -= 1;
            return Ok(match sign {
                "-" => value.wrapping_neg(),
                "!" => i64::from(value == 0),
                "~" => !value,
                _ => value,
            });
        }
        if self.take("(") {
            let mut value = self.binary(0, live)?;
            while self.take(",") {
                value = self.binary(0, live)?;
            }
            return Ok(if self.take(")") { value } else { self.fault() });
        }
        let word = self.name();
        if word.starts_with(|c: char| c.is_ascii_digit()) {
            return Ok(number(&word).unwrap_or_else(|| self.fault()));
        }
        if !is_name(&word) {
            return Ok(self.fault());
        }
        self.of_name(&word, live)
    }

    /// A variable, or what is assigned to it.
    fn of_name(&mut self, name: &str, live: bool) -> Result<i64, String> {
        let old = |own: &mut Self| own.read(name, live);
        for sign in ["<<", ">>", "+", "-", "*", "/", "%", "&", "|", "^", ""] {
            let assigns = format!("{sign}=");
            if self.rest.trim_start().starts_with("==") || !self.take(&assigns) {
                continue;
            }
            let left = if sign.is_empty() { 0 } else { old(self)? };
            let right = self.binary(0, live)?;
            let value = match sign {
                "" => Some(right),
                sign => joined(sign, left, right),
            };
            let value = value.unwrap_or_else(|| self.undefined());
            return self.write(name, value, live);
        }
        let value = old(self)?;
        for (sign, by) in [("++", 1), ("--", -1)] {
            if self.take(sign) {
                self.write(name, value.wrapping_add(by), live)?;
            }
        }
        Ok(value)
    }

    fn name(&mut self) -> String {
        let text = self.rest.trim_start();
        let is_part = |c: char| c.is_ascii_alphanumeric() || "_#@".contains(c);
        let (name, rest) = text.split_at(text.find(|c| !is_part(c)).unwrap_or(text.len()));
        self.rest = rest;
        name.to_owned()
    }

    fn read(&mut self, name: &str, live: bool) -> Result<i64, String> {
        if !live {
            return Ok(0);
        }
        let unknown = match self.reader.held(name).at(Some(0)) {
            Held::Unset => return Ok(0),
            Held::Absent(mark) | Held::Unknown(mark) => unknowns(&mark).0.concat(),
            Held::Set(all) => {
                let text = all.concat();
                self.reader.work(text.len() + 1)?;
                let name = unknowns(&text).0.first().map(|name| (*name).to_owned());
                match name {
                    Some(name) => name,
                    None => match self.reader.value(&text, None, self.depth + 4)? {
                        Ok(value) => return Ok(value),
                        Err(name) => name,
                    },
                }
            }
        };
        match unknown == "%sum" {
            true => self.unknown = Some(unknown),
            false => drop(self.unknown.get_or_insert(unknown)),
        }
        Ok(0)
    }

    fn write(&mut self, name: &str, value: i64, live: bool) -> Result<i64, String> {
        if !is_name(name) {
            return Ok(self.fault());
        }
        match (live, &self.unknown) {
            (true, None) => self.reader.set_text(name, value.to_string())?,
            // A branch on what is not known may assign or not.
            (_, Some(_)) => self.reader.set(name, Value::Unknown(false)),
            (false, None) => {}
        }
        Ok(value)
    }
}

fn joined(sign: &str, left: i64, right: i64) -> Option<i64> {
    let places = || u32::try_from(right & 63).unwrap_or(0);
    Some(match sign {
        "||" => i64::from(left != 0 || right != 0),
        "&&" => i64::from(left != 0 && right != 0),
        "==" => i64::from(left == right),
        "!=" => i64::from(left != right),
        "<=" => i64::from(left <= right),
        ">=" => i64::from(left >= right),
        "<" => i64::from(left < right),
        ">" => i64::from(left > right),
        "<<" => left.wrapping_shl(places()),
        ">>" => left.wrapping_shr(places()),
        "|" => left | right,
        "^" => left ^ right,
        "&" => left & right,
        "+" => left.wrapping_add(right),
        "-" => left.wrapping_sub(right),
        "*" => left.wrapping_mul(right),
        "/" => left.checked_div(right)?,
        "%" => left.checked_rem(right)?,
        _ => left.wrapping_pow(u32::try_from(right).ok()?),
    })
}

/// A number as it is written: with zeros in front to base 8, or with its base.
fn number(text: &str) -> Option<i64> {
    let hex = text.strip_prefix("0x").or_else(|| text.strip_prefix("0X"));
    match (hex, text.split_once('#'), text.strip_prefix('0')) {
        (Some(digits), _, _) => i64::from_str_radix(digits, 16).ok(),
        (_, Some((base, digits)), _) => {
            let base = base.parse().ok().filter(|base| (2..=36).contains(base))?;
            i64::from_str_radix(digits, base).ok()
        }
        (_, _, Some(digits)) if !digits.is_empty() => i64::from_str_radix(digits, 8).ok(),
        _ => text.parse().ok(),
    }
}
