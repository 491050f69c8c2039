//! Sums of whole numbers, as bash reads them.

use super::expand::How;
use super::run::Reader;
use super::scan::{DEEPEST, is_name};
use super::value::{Held, Value};
use super::{END, UNKNOWN, doubt};

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
    /// Whether this part counts, as `&&`, `||` and `?` decide.
    live: bool,
}

impl Reader<'_> {
    /// The value of the sum `text`, or the name of what is unknown in it.
    pub(super) fn sum(&mut self, text: &str) -> Result<Result<i64, String>, String> {
        let text = self.one(text, How { splits: false, quoted: true, pattern: false })?;
        self.work(text.len() + 1)?;
        // A number in place of each part that is not known leaves the form of the sum.
        let known = text.split(UNKNOWN).enumerate().map(|(at, part)| {
            let behind = part.split_once(END).filter(|_| at > 0).map(|(_, behind)| behind);
            behind.map_or(part.to_owned(), |behind| format!("0{behind}"))
        });
        self.value(&known.collect::<String>(), doubt(&text), 0)
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
        let mut sum = Sum { reader: self, rest: text, unknown, depth, live: true };
        let value = sum.parts()?;
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

    /// A sum that bash refuses.
    fn fault(&mut self) -> i64 {
        self.unknown = Some("%sum".to_owned());
        0
    }

    fn deeper(&mut self) -> Result<(), String> {
        self.depth += 1;
        match self.depth > DEEPEST {
            true => Err("a sum is nested too deeply".to_owned()),
            false => Ok(()),
        }
    }

    /// `left` and `right` joined by `sign`; a division by zero is a fault, unless what is not known decides.
    fn join(&mut self, sign: &str, left: i64, right: i64) -> i64 {
        match joined(sign, left, right) {
            Some(value) => value,
            None if self.live && self.unknown.is_none() => self.fault(),
            None => 0,
        }
    }

    /// Sums with commas between; the value is that of the last.
    fn parts(&mut self) -> Result<i64, String> {
        let mut value = self.binary(0)?;
        while self.take(",") {
            value = self.binary(0)?;
        }
        Ok(value)
    }

    /// A value and what is joined to it by signs that bind at least as closely as `least`.
    fn binary(&mut self, least: u32) -> Result<i64, String> {
        self.deeper()?;
        let mut left = self.unary()?;
        let live = self.live;
        while let Some((sign, binds)) =
            SIGNS.iter().copied().find(|(sign, _)| self.rest.trim_start().starts_with(sign))
        {
            if binds < least || !self.take(sign) {
                break;
            }
            if sign == "?" {
                self.live = live && left != 0;
                let yes = self.binary(0)?;
                if !self.take(":") {
                    self.fault();
                }
                self.live = live && left == 0;
                let no = self.binary(0)?;
                left = if left != 0 { yes } else { no };
            } else {
                self.live = live && !(sign == "&&" && left == 0 || sign == "||" && left != 0);
                let right = self.binary(binds + u32::from(sign != "**"))?;
                self.live = live;
                left = self.join(sign, left, right);
            }
            self.live = live;
        }
        self.depth -= 1;
        Ok(left)
    }

    fn unary(&mut self) -> Result<i64, String> {
        for (sign, by) in [("++", 1), ("--", -1)] {
            if self.take(sign) {
                let name = self.name();
                let value = self.read(&name)?.wrapping_add(by);
                return self.write(&name, value);
            }
        }
        if let Some(sign) = ["+", "-", "!", "~"].into_iter().find(|sign| self.take(sign)) {
            self.deeper()?;
            let value = self.unary()?;
            self.depth -= 1;
            return Ok(match sign {
                "-" => value.wrapping_neg(),
                "!" => i64::from(value == 0),
                "~" => !value,
                _ => value,
            });
        }
        if self.take("(") {
            let value = self.parts()?;
            return Ok(if self.take(")") { value } else { self.fault() });
        }
        let word = self.name();
        match is_name(&word) {
            true => self.of_name(&word),
            false => Ok(number(&word).unwrap_or_else(|| self.fault())),
        }
    }

    /// A variable, or what is assigned to it.
    fn of_name(&mut self, name: &str) -> Result<i64, String> {
        let signs = ["<<", ">>", "+", "-", "*", "/", "%", "&", "|", "^", ""];
        let is_equal = self.rest.trim_start().starts_with("==");
        let sign = signs.into_iter().find(|sign| !is_equal && self.take(&format!("{sign}=")));
        if let Some(sign) = sign {
            let left = if sign.is_empty() { 0 } else { self.read(name)? };
            let right = self.binary(0)?;
            let value = if sign.is_empty() { right } else { self.join(sign, left, right) };
            return self.write(name, value);
        }
        let value = self.read(name)?;
        for (sign, by) in [("++", 1), ("--", -1)] {
            if self.take(sign) {
                self.write(name, value.wrapping_add(by))?;
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

    fn read(&mut self, name: &str) -> Result<i64, String> {
        if !self.live {
            return Ok(0);
        }
        let unknown = match self.reader.held(name).at(Some(0)) {
            Held::Unknown(mark, _) => doubt(&mark).unwrap_or_default(),
            Held::Set(all) => {
                let text = all.concat();
                self.reader.work(text.len() + 1)?;
                match doubt(&text) {
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

    fn write(&mut self, name: &str, value: i64) -> Result<i64, String> {
        if !is_name(name) {
            return Ok(self.fault());
        }
        match (self.live, &self.unknown) {
            (true, None) => self.reader.set_text(name, value.to_string())?,
            // A branch on what is not known may assign or not.
            (_, Some(_)) => self.reader.set(name, Value::Unknown(false)),
            (false, None) => {}
        }
        Ok(value)
    }
}

fn joined(sign: &str, left: i64, right: i64) -> Option<i64> {
    let places = u32::try_from(right & 63).unwrap_or(0);
    Some(match sign {
        "||" => i64::from(left != 0 || right != 0),
        "&&" => i64::from(left != 0 && right != 0),
        "==" => i64::from(left == right),
        "!=" => i64::from(left != right),
        "<=" => i64::from(left <= right),
        ">=" => i64::from(left >= right),
        "<" => i64::from(left < right),
        ">" => i64::from(left > right),
        "<<" => left.wrapping_shl(places),
        ">>" => left.wrapping_shr(places),
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
    let (base, digits) = match (hex, text.split_once('#')) {
        (Some(digits), _) => (16, digits),
        (_, Some((base, digits))) => (base.parse().ok()?, digits),
        _ if text.starts_with('0') => (8, text),
        _ => (10, text),
    };
    (2..=36).contains(&base).then(|| i64::from_str_radix(digits, base).ok()).flatten()
}
