//! The axes of a sweep: a key with the values it takes.
//!
//! An axis is a list of what the key may be, or a range `{ from, to, step }` or
//! `{ from, to, factor }`. Ranges are exact: decimal numbers with a unit, never rounded.

use std::borrow::Cow;
use std::collections::BTreeSet;
use std::ops::Range;
use std::path::Path;

use toml::Spanned;
use toml::de::DeValue;

use crate::diagnostic::Diagnostic;
use crate::host::Context;
use crate::keys::HardwareKeys;
use crate::keys::Keys;
use crate::keys::field::Plain;
use crate::keys::table::Set as _;
use crate::read;

/// The most values of a list or of a range by factor; a range by step needs no memory.
const MAX_LISTED: u64 = 100_000;

/// A key that takes several values.
#[derive(Clone, Debug)]
pub struct Axis {
    /// The key.
    pub key: String,
    /// Where its values stand in the file.
    pub place: Range<usize>,
    values: Values,
}

#[derive(Clone, Debug)]
enum Values {
    List(Vec<(String, Keys)>),
    Steps { from: u128, step: u128, count: u64, form: Form },
    Powers { values: Vec<u128>, form: Form },
}

/// How the numbers of a range are written.
#[derive(Clone, Debug)]
struct Form {
    /// Digits behind the point.
    digits: usize,
    unit: String,
    /// As a text, not a number, of TOML.
    quoted: bool,
}

impl Axis {
    /// How many values it has.
    pub fn count(&self) -> u64 {
        match &self.values {
            Values::List(values) => values.len() as u64,
            Values::Powers { values, .. } => values.len() as u64,
            Values::Steps { count, .. } => *count,
        }
    }

    /// Whether its values are listed; else they grow.
    pub const fn is_listed(&self) -> bool {
        matches!(self.values, Values::List(_))
    }

    /// Value number `index` as it is written; empty beyond the last.
    pub fn label(&self, index: u64) -> Cow<'_, str> {
        let at = usize::try_from(index).unwrap_or(usize::MAX);
        match &self.values {
            Values::List(values) => values.get(at).map_or("", |(label, _)| label).into(),
            Values::Powers { values, form } => {
                values.get(at).map_or_else(String::new, |value| form.write(*value)).into()
            }
            Values::Steps { from, step, form, .. } => {
                form.write(from + step * u128::from(index)).into()
            }
        }
    }

    /// The key at value number `index`.
    pub fn keys(&self, index: u64) -> Result<Keys, String> {
        let at = usize::try_from(index).unwrap_or(usize::MAX);
        match &self.values {
            Values::List(values) => Ok(values.get(at).map_or_else(Keys::default, |v| v.1.clone())),
            Values::Steps { form, .. } | Values::Powers { form, .. } => {
                read::number(&self.key, &self.label(index), form.quoted)
            }
        }
    }

    /// The values of the key, field number `field` of all, at value number `index`.
    pub(super) fn plain(&self, index: u64, field: usize) -> Vec<Plain> {
        let at = usize::try_from(index).unwrap_or(usize::MAX);
        match &self.values {
            Values::List(values) => {
                values.get(at).map_or_else(Vec::new, |(_, keys)| keys.fields()[field].values())
            }
            Values::Steps { form, .. } | Values::Powers { form, .. } => {
                vec![read::plain(&self.label(index), form.quoted)]
            }
        }
    }
}

/// The axes of the table `[sweep]`, in the order written.
pub fn all(
    context: &Context<'_>,
    file: &Path,
    text: &str,
    table: Spanned<DeValue<'_>>,
) -> Result<Vec<Axis>, Diagnostic> {
    let fail = |place, message: &str| Diagnostic::at(file, text, Some(place), message.to_owned());
    let place = table.span();
    let DeValue::Table(table) = table.into_inner() else {
        return Err(fail(place, "sweep is a table: begin it with [sweep]"));
    };
    let mut entries: Vec<_> = table.into_iter().collect();
    entries.sort_by_key(|(key, _)| key.span().start);
    let reader = Reader { context, file, text };
    let axes = entries.into_iter().map(|(key, value)| match value.get_ref() {
        DeValue::Array(_) => reader.list(&key, value),
        DeValue::Table(_) => reader.range(&key, value),
        _ => Err(fail(value.span(), "an axis is a list of values, or { from, to, step }")),
    });
    let axes = axes.collect::<Result<Vec<_>, _>>()?;
    match axes.is_empty() {
        true => Err(fail(place, "[sweep] has no axis: give it a key with a list of values")),
        false => Ok(axes),
    }
}

/// Reads axes out of a file, to which its errors point.
#[derive(Clone, Copy)]
struct Reader<'a> {
    context: &'a Context<'a>,
    file: &'a Path,
    text: &'a str,
}

type Key<'i> = Spanned<Cow<'i, str>>;

impl Reader<'_> {
    fn fail(self, place: Range<usize>, message: impl Into<String>) -> Diagnostic {
        Diagnostic::at(self.file, self.text, Some(place), message.into())
    }

    fn list(self, key: &Key<'_>, value: Spanned<DeValue<'_>>) -> Result<Axis, Diagnostic> {
        let place = value.span();
        let DeValue::Array(items) = value.into_inner() else {
            return Err(self.fail(place, "an axis is a list of values"));
        };
        if items.is_empty() || items.len() as u64 > MAX_LISTED {
            return Err(self.fail(place, format!("an axis has 1 to {MAX_LISTED} listed values")));
        }
        let (mut values, mut seen) = (Vec::new(), BTreeSet::new());
        for item in items {
            let (place, label) = (item.span(), label(item.get_ref()));
            if !seen.insert(label.clone()) {
                return Err(self.fail(place, format!("{} is {label} twice", key.get_ref())));
            }
            let keys = read::single(key.clone(), item);
            let mut keys = keys.map_err(|error| {
                Diagnostic::toml(self.file, self.text, &error, HardwareKeys::NAMES)
            })?;
            keys.files_in(self.context, self.file.parent().unwrap_or(Path::new("")));
            values.push((label, keys));
        }
        Ok(Axis { key: key.get_ref().to_string(), place, values: Values::List(values) })
    }

    fn range(self, key: &Key<'_>, value: Spanned<DeValue<'_>>) -> Result<Axis, Diagnostic> {
        let place = value.span();
        let fail =
            |message: &str| self.fail(place.clone(), format!("{}: {message}", key.get_ref()));
        let DeValue::Table(table) = value.into_inner() else {
            return Err(fail("a range is { from, to, step } or { from, to, factor }"));
        };
        let known = |name: &Spanned<Cow<'_, str>>| {
            ["from", "to", "step", "factor"].contains(&name.get_ref().as_ref())
        };
        if let Some(stranger) = table.keys().find(|name| !known(name)) {
            let message = "a range has from, to, and step or factor, and nothing else";
            return Err(self.fail(stranger.span(), message));
        }
        let part = |name: &str| -> Result<Option<Part>, Diagnostic> {
            let Some(value) = table.get(name) else { return Ok(None) };
            let label = label(value.get_ref());
            let decimal = Decimal::read(&label).ok_or_else(|| {
                self.fail(value.span(), format!("`{label}` is not a decimal number of 0 or more"))
            })?;
            Ok(Some((decimal, matches!(value.get_ref(), DeValue::String(_)))))
        };
        let values = match (part("from")?, part("to")?, part("step")?, part("factor")?) {
            (Some(from), Some(to), Some(step), None) => steps(from, to, &step.0),
            (Some(from), Some(to), None, Some(factor)) => powers(from, to, &factor.0),
            _ => Err("a range has from, to, and either step or factor"),
        };
        let values = values.map_err(fail)?;
        let axis = Axis { key: key.get_ref().to_string(), place: place.clone(), values };
        // What is too fine is so at the first or the second value, what is too large at the last.
        for index in [0, 1.min(axis.count() - 1), axis.count() - 1] {
            axis.keys(index).map_err(|message| fail(&message))?;
        }
        Ok(axis)
    }
}

/// A value as a person wrote it.
fn label(value: &DeValue<'_>) -> String {
    match value {
        DeValue::String(text) => text.to_string(),
        DeValue::Integer(number) => number.to_string(),
        DeValue::Float(number) => number.to_string(),
        DeValue::Boolean(truth) => truth.to_string(),
        DeValue::Array(items) => {
            items.iter().map(|item| label(item.get_ref())).collect::<Vec<_>>().join(",")
        }
        DeValue::Datetime(time) => time.to_string(),
        DeValue::Table(_) => "a table".to_owned(),
    }
}

/// A decimal number of 0 or more, and its unit.
struct Decimal {
    number: u128,
    digits: usize,
    unit: String,
}

impl Decimal {
    fn read(text: &str) -> Option<Self> {
        let is_number = |c: char| c.is_ascii_digit() || c == '.' || c == '_';
        let (number, unit) = text.split_at(text.find(|c| !is_number(c)).unwrap_or(text.len()));
        let (whole, part) = number.split_once('.').unwrap_or((number, ""));
        let digits: String = [whole, part].concat().chars().filter(|c| *c != '_').collect();
        let unit = unit.trim();
        if whole.is_empty() || digits.len() > 24 || !unit.chars().all(char::is_alphanumeric) {
            return None;
        }
        let number = digits.parse().ok()?;
        Some(Self { number, digits: part.len(), unit: unit.to_owned() })
    }

    /// The number with `digits` behind the point.
    fn scaled(&self, digits: usize) -> Option<u128> {
        let power = u32::try_from(digits.checked_sub(self.digits)?).ok()?;
        self.number.checked_mul(10u128.checked_pow(power)?)
    }
}

impl Form {
    fn write(&self, number: u128) -> String {
        let digits = self.digits;
        let text = format!("{number:0>width$}", width = digits + 1);
        let (whole, part) = text.split_at(text.len() - digits);
        let part = part.trim_end_matches('0');
        let point = if part.is_empty() { "" } else { "." };
        format!("{whole}{point}{part}{}", self.unit)
    }
}

const TOO_LARGE: &str = "the range has numbers of too many digits";

type Part = (Decimal, bool);

fn steps((from, quoted): Part, (to, _): Part, step: &Decimal) -> Result<Values, &'static str> {
    if from.unit != to.unit || from.unit != step.unit {
        return Err("from, to and step must have the same unit");
    }
    let digits = from.digits.max(to.digits).max(step.digits);
    let scaled = [&from, &to, step].map(|part| part.scaled(digits));
    let [Some(first), Some(last), Some(step)] = scaled else { return Err(TOO_LARGE) };
    if step == 0 || last < first {
        return Err("to must not be less than from, and step more than 0");
    }
    let count = u64::try_from((last - first) / step + 1).map_err(|_| TOO_LARGE)?;
    let form = Form { digits, unit: from.unit, quoted };
    Ok(Values::Steps { from: first, step, count, form })
}

fn powers((from, quoted): Part, (to, _): Part, factor: &Decimal) -> Result<Values, &'static str> {
    if from.unit != to.unit || !factor.unit.is_empty() {
        return Err("from and to must have the same unit, and factor none");
    }
    let power = u32::try_from(factor.digits).ok().and_then(|digits| 10u128.checked_pow(digits));
    let power = power.ok_or(TOO_LARGE)?;
    let digits = from.digits.max(to.digits);
    let (Some(first), Some(last)) = (from.scaled(digits), to.scaled(digits)) else {
        return Err(TOO_LARGE);
    };
    if first == 0 || last < first || factor.number <= power {
        return Err("from must be more than 0, to not less than from, and factor more than 1");
    }
    let (mut values, mut value) = (Vec::new(), first);
    while value <= last {
        values.push(value);
        let product = value.checked_mul(factor.number).ok_or(TOO_LARGE)?;
        if values.len() as u64 > MAX_LISTED || product % power != 0 {
            return Err("the factor leads to more digits than from and to have: list the values");
        }
        value = product / power;
    }
    Ok(Values::Powers { values, form: Form { digits, unit: from.unit, quoted } })
}

/// The number in a value as it is written, and its unit; `None` if it is not a number.
#[allow(clippy::cast_precision_loss)]
pub fn number(label: &str) -> Option<(f64, String)> {
    let decimal = Decimal::read(label)?;
    let power = i32::try_from(decimal.digits).ok()?;
    Some((decimal.number as f64 / 10f64.powi(power), decimal.unit))
}
