//! Time and size as whole numbers: nanoseconds and bytes, read and printed with their units.

use std::fmt;
use std::iter::Sum;
use std::ops::{Add, AddAssign, Mul, Sub};
use std::str::FromStr;

use thiserror::Error;

/// A length of time, or a point in time counted from the start of the step, in nanoseconds.
#[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash, Default, Debug)]
pub struct Nanos(pub u64);

/// A size in bytes.
#[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash, Default, Debug)]
pub struct Bytes(pub u64);

macro_rules! arithmetic {
    ($unit:ident) => {
        impl Add for $unit {
            type Output = Self;
            #[inline]
            fn add(self, other: Self) -> Self {
                Self(self.0 + other.0)
            }
        }
        impl AddAssign for $unit {
            #[inline]
            fn add_assign(&mut self, other: Self) {
                self.0 += other.0;
            }
        }
        impl Sub for $unit {
            type Output = Self;
            #[inline]
            fn sub(self, other: Self) -> Self {
                Self(self.0 - other.0)
            }
        }
        impl Mul<u64> for $unit {
            type Output = Self;
            #[inline]
            fn mul(self, times: u64) -> Self {
                Self(self.0 * times)
            }
        }
        impl Sum for $unit {
            #[inline]
            fn sum<I: Iterator<Item = Self>>(all: I) -> Self {
                Self(all.map(|one| one.0).sum())
            }
        }
        impl $unit {
            /// Share number `index` of `shares` nearly equal whole shares that add up to `self`.
            ///
            /// The boundaries are the rounded multiples of `self / shares`, so that no share is off
            /// by more than one.
            ///
            /// # Panics
            /// If `shares` is 0.
            #[must_use]
            pub fn share(self, index: u64, shares: u64) -> Self {
                let boundary = |k: u64| {
                    let doubled = 2 * u128::from(self.0) * u128::from(k) + u128::from(shares);
                    u64::try_from(doubled / (2 * u128::from(shares))).unwrap_or(u64::MAX)
                };
                Self(boundary(index + 1) - boundary(index))
            }
        }
    };
}
arithmetic!(Nanos);
arithmetic!(Bytes);

/// Why a text is not a time or a size.
#[derive(Clone, PartialEq, Eq, Debug, Error)]
pub enum UnitError {
    /// No unit behind the number.
    #[error("`{text}` has no unit: write one of {units}, for example `{example}`")]
    Missing {
        /// The text that was read.
        text: String,
        /// The units there are.
        units: &'static str,
        /// The same number with a unit.
        example: String,
    },
    /// A unit that does not exist.
    #[error("`{text}` has the unknown unit `{unit}`: write one of {units}")]
    Unknown {
        /// The text that was read.
        text: String,
        /// The part taken for a unit.
        unit: String,
        /// The units there are.
        units: &'static str,
    },
    /// Less than nothing.
    #[error("`{text}` is negative: it must be zero or more")]
    Negative {
        /// The text that was read.
        text: String,
    },
    /// Not a decimal number such as `12` or `0.5`; NaN and infinity are none.
    #[error("`{text}` is not a number with a unit, such as `{example}`")]
    NotANumber {
        /// The text that was read.
        text: String,
        /// One that would do.
        example: &'static str,
    },
    /// A fraction of a nanosecond.
    #[error("`{text}` is finer than one nanosecond")]
    TooFine {
        /// The text that was read.
        text: String,
    },
    /// More than the type holds.
    #[error("`{text}` is too large: at most {limit}")]
    TooLarge {
        /// The text that was read.
        text: String,
        /// The largest value.
        limit: &'static str,
    },
}

const TIMES: [(&str, u64); 4] = [("ns", 1), ("us", 1_000), ("ms", 1_000_000), ("s", 1_000_000_000)];
/// Units that are read; of these only the decimal ones of [`TIMES`] are written.
const LONG_TIMES: [(&str, u64); 6] =
    [TIMES[0], TIMES[1], TIMES[2], TIMES[3], ("min", 60_000_000_000), ("h", 3_600_000_000_000)];
const SIZES: [(&str, u64); 9] = [
    ("B", 1),
    ("kB", 1_000),
    ("MB", 1_000_000),
    ("GB", 1_000_000_000),
    ("TB", 1_000_000_000_000),
    ("KiB", 1 << 10),
    ("MiB", 1 << 20),
    ("GiB", 1 << 30),
    ("TiB", 1 << 40),
];

/// The longest time an input may name: 1,000,000 s.
const MAX_NANOS: u64 = 1_000_000_000_000_000;
/// The largest size an input may name: 1 EiB.
const MAX_BYTES: u64 = 1 << 60;

/// A kind of quantity: its units, an example, and the largest value an input may name.
struct Quantity {
    units: &'static [(&'static str, u64)],
    listed: &'static str,
    example: &'static str,
    max: u64,
    max_text: &'static str,
}

const TIME: Quantity = Quantity {
    units: &LONG_TIMES,
    listed: "ns us ms s min h",
    example: "29.718ms",
    max: MAX_NANOS,
    max_text: "1000000s",
};
const SIZE: Quantity = Quantity {
    units: &SIZES,
    listed: "B kB MB GB TB KiB MiB GiB TiB",
    example: "38GiB",
    max: MAX_BYTES,
    max_text: "1048576TiB",
};

impl Quantity {
    /// Reads `text` exactly, in decimal: the whole part of the value in the smallest unit, and
    /// whether a fraction was left over.
    fn read(&self, text: &str) -> Result<(u64, bool), UnitError> {
        let owned = || text.to_owned();
        let not_a_number = || UnitError::NotANumber { text: owned(), example: self.example };
        let unsigned = text.strip_prefix('+').unwrap_or(text);
        if unsigned.starts_with('-') {
            return Err(UnitError::Negative { text: owned() });
        }
        let (number, unit) = Decimal::split(unsigned);
        let decimal = Decimal::read(number).ok_or_else(not_a_number)?;
        if unit.is_empty() {
            let usual = self.example.trim_start_matches(|one: char| !one.is_alphabetic());
            let example = format!("{}{usual}", number.replace('_', ""));
            return Err(UnitError::Missing { text: owned(), units: self.listed, example });
        }
        let Some(scale) = self.scale(unit) else {
            let unit = unit.to_owned();
            return Err(UnitError::Unknown { text: owned(), unit, units: self.listed });
        };
        match decimal.times(scale) {
            None => Err(not_a_number()),
            Some((value, has_rest)) if value <= u128::from(self.max) => {
                Ok((u64::try_from(value).unwrap_or(u64::MAX), has_rest))
            }
            Some(_) => Err(UnitError::TooLarge { text: owned(), limit: self.max_text }),
        }
    }

    /// How many of the smallest unit the unit called `name` has. A name that is all in small or all
    /// in capital letters is found whatever its case; one that mixes them otherwise is not, for
    /// `Gb` and `Ms` are other units elsewhere.
    fn scale(&self, name: &str) -> Option<u64> {
        // The micro sign and the Greek letter.
        let name = name.replace(['\u{b5}', '\u{3bc}'], "u");
        let one_case = !name.contains(|c: char| c.is_ascii_uppercase())
            || !name.contains(|c: char| c.is_ascii_lowercase());
        let is_it = |unit: &str| unit == name || one_case && unit.eq_ignore_ascii_case(&name);
        self.units.iter().find(|(unit, _)| is_it(unit)).map(|(_, scale)| *scale)
    }

    /// Prints `value` in the largest unit of which it is at least one, exactly.
    fn print(units: &[(&str, u64)], value: u64, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let (name, scale) =
            units.iter().rev().find(|(_, scale)| value >= *scale).unwrap_or(&units[0]);
        let (whole, rest) = (value / scale, value % scale);
        if rest == 0 {
            return f.pad(&format!("{whole}{name}"));
        }
        let width = scale.ilog10() as usize;
        let fraction = format!("{rest:0width$}");
        f.pad(&format!("{whole}.{}{name}", fraction.trim_end_matches('0')))
    }
}

/// A decimal number as it is written: digits times a power of ten.
struct Decimal {
    digits: u128,
    power: i32,
}

impl Decimal {
    /// The most digits that are read, without zeros at the ends.
    const MOST_DIGITS: usize = 24;
    /// The power of ten from which every number but 0 is too large or too small for any unit.
    const FAR: i32 = 60;

    /// The number at the beginning of `text`, and what follows it.
    fn split(text: &str) -> (&str, &str) {
        let plain = |c: char| !c.is_ascii_digit() && c != '.' && c != '_';
        let mut end = text.find(plain).unwrap_or(text.len());
        if let Some(exponent) = text[end..].strip_prefix(['e', 'E']).filter(|_| end > 0) {
            let digits = exponent.strip_prefix(['+', '-']).unwrap_or(exponent);
            let length = digits.bytes().take_while(u8::is_ascii_digit).count();
            if length > 0 {
                end = text.len() - digits.len() + length;
            }
        }
        (&text[..end], text[end..].trim())
    }

    /// The number that `text` writes, such as `12`, `1_000.5` or `1e-3`.
    fn read(text: &str) -> Option<Self> {
        let text = text.replace('_', "");
        let (plain, exponent) = text.split_once(['e', 'E']).unwrap_or((&text, "0"));
        let (whole, fraction) = plain.split_once('.').unwrap_or((plain, ""));
        if whole.len() + fraction.len() == 0 || fraction.contains('.') {
            return None;
        }
        let all = [whole, fraction].concat();
        let digits = all.trim_start_matches('0').trim_end_matches('0');
        if digits.is_empty() {
            return Some(Self { digits: 0, power: 0 });
        }
        let behind_point = i64::try_from(fraction.len()).ok()?;
        let zeros = i64::try_from(all.len() - all.trim_end_matches('0').len()).ok()?;
        // An exponent of more digits than an i64 has is as far off as any.
        let far = if exponent.starts_with('-') { i64::MIN } else { i64::MAX };
        let exponent: i64 = exponent.parse().unwrap_or(far);
        let power = exponent.saturating_sub(behind_point).saturating_add(zeros);
        let power = power.clamp(i64::from(-Self::FAR), i64::from(Self::FAR));
        let power = i32::try_from(power).ok()?;
        if digits.len() > Self::MOST_DIGITS {
            // Too long to be read exactly, but not too long to be far too large.
            return (power >= 0).then_some(Self { digits: 1, power: Self::FAR });
        }
        let value = digits.bytes().fold(0u128, |n, d| n * 10 + u128::from(d - b'0'));
        Some(Self { digits: value, power })
    }

    /// The whole part of this number times `scale`, and whether a fraction was left over; nothing if
    /// it has too many digits.
    fn times(&self, scale: u64) -> Option<(u128, bool)> {
        // At most 10^24 times 2^40: far from the end of the type.
        let scaled = self.digits.checked_mul(u128::from(scale))?;
        let ten = 10u128.checked_pow(self.power.unsigned_abs());
        Some(match (self.power >= 0, ten) {
            (true, ten) => (ten.map_or(u128::MAX, |ten| scaled.saturating_mul(ten)), false),
            (false, Some(ten)) => (scaled / ten, scaled % ten != 0),
            (false, None) => (0, scaled != 0),
        })
    }
}

impl FromStr for Nanos {
    type Err = UnitError;

    /// Reads a decimal number with a unit, `29.718ms` or `1e-3s`; a fraction of a nanosecond is an
    /// error.
    fn from_str(text: &str) -> Result<Self, UnitError> {
        match TIME.read(text)? {
            (_, true) => Err(UnitError::TooFine { text: text.to_owned() }),
            (nanos, false) => Ok(Self(nanos)),
        }
    }
}

impl FromStr for Bytes {
    type Err = UnitError;

    /// Reads a decimal number with a unit, `1.5GiB`; a fraction of a byte is dropped.
    fn from_str(text: &str) -> Result<Self, UnitError> {
        SIZE.read(text).map(|(bytes, _)| Self(bytes))
    }
}

impl fmt::Display for Nanos {
    /// Prints exactly, in the largest unit of which it is at least one: `29.718ms`.
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        Quantity::print(&TIMES, self.0, f)
    }
}

impl fmt::Display for Bytes {
    /// Prints the shortest text that is read as the same size, so that most sizes look as they were
    /// given: `38GiB`, `40GB`, `74.51GiB`. Of texts that are as short, one without a fraction, then
    /// one in a larger unit.
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        // From the largest to the smallest; of two that are as large, the binary one first.
        let mut units = SIZES;
        units.sort_by_key(|(_, scale)| std::cmp::Reverse(*scale));
        let texts = units.iter().filter_map(|&(name, scale)| shortest(self.0, scale, name));
        let best = texts.min_by_key(|text| (text.len(), text.contains('.')));
        f.pad(&best.unwrap_or_else(|| format!("{}B", self.0)))
    }
}

/// `value` in units of `scale` with the fewest decimals of which it is the whole part; nothing where
/// that takes more than three or is less than one of the unit.
fn shortest(value: u64, scale: u64, name: &str) -> Option<String> {
    if value < scale {
        return None;
    }
    let (value, scale) = (u128::from(value), u128::from(scale));
    (0..=3u32).find_map(|decimals| {
        let ten = 10u128.pow(decimals);
        let rounded_up = (value * ten).div_ceil(scale);
        let is_read_back = rounded_up * scale / ten == value;
        let (whole, rest) = (rounded_up / ten, rounded_up % ten);
        is_read_back.then(|| match decimals {
            0 => format!("{whole}{name}"),
            _ => format!("{whole}.{rest:0width$}{name}", width = decimals as usize),
        })
    })
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    proptest! {
        #[test]
        fn a_time_printed_is_read_back(nanos in 0..MAX_NANOS) {
            prop_assert_eq!(Nanos(nanos).to_string().parse(), Ok(Nanos(nanos)));
        }

        #[test]
        fn a_size_printed_is_read_back(bytes in 0..MAX_BYTES) {
            prop_assert_eq!(Bytes(bytes).to_string().parse(), Ok(Bytes(bytes)));
        }

        #[test]
        fn shares_add_up_and_differ_by_at_most_one(total: u64, shares in 1..100u64) {
            let all: Vec<u64> = (0..shares).map(|k| Nanos(total).share(k, shares).0).collect();
            prop_assert_eq!(all.iter().sum::<u64>(), total);
            prop_assert!(all.iter().all(|one| one.abs_diff(total / shares) <= 1));
        }
    }

    #[test]
    fn units_are_read_exactly() {
        assert_eq!("29.718ms".parse(), Ok(Nanos(29_718_000)));
        assert_eq!("0.000000001s".parse(), Ok(Nanos(1)));
        assert_eq!("1_000 us".parse(), Ok(Nanos(1_000_000)));
        assert_eq!("1.5GiB".parse(), Ok(Bytes(3 << 29)));
        assert_eq!("38GB".parse(), Ok(Bytes(38_000_000_000)));
    }

    #[test]
    fn units_are_read_as_people_write_them() {
        for text in ["500us", "500\u{b5}s", "500\u{3bc}s", "500 US", "5e2us", "0.5MS", "5E-4s"] {
            assert_eq!(text.parse(), Ok(Nanos(500_000)), "{text}");
        }
        for text in ["1.5h", "90min", "90 MIN", "5400s", "1.5H"] {
            assert_eq!(text.parse(), Ok(Nanos(5_400_000_000_000)), "{text}");
        }
        assert_eq!(Nanos(7_200_000_000_000).to_string(), "7200s");
        for text in ["40gb", "40GB", "4e1GB", "+40 gb", "0.04tb", "40000000kb", "40_000MB"] {
            assert_eq!(text.parse(), Ok(Bytes(40_000_000_000)), "{text}");
        }
        assert_eq!("2gib".parse(), Ok(Bytes(2 << 30)));
        assert_eq!("2GIB".parse(), Ok(Bytes(2 << 30)));
        assert_eq!("0e99999999999999999999s".parse(), Ok(Nanos(0)));
        assert_eq!("1e-30GB".parse(), Ok(Bytes(0)));
        // Gigabits and megaseconds are other units.
        for text in ["40Gb", "40gB", "40Gib", "1mb/s"] {
            assert!(matches!(text.parse::<Bytes>(), Err(UnitError::Unknown { .. })), "{text}");
        }
        for text in ["5Ms", "5mS", "5m"] {
            assert!(matches!(text.parse::<Nanos>(), Err(UnitError::Unknown { .. })), "{text}");
        }
    }

    #[test]
    fn a_size_is_printed_as_it_is_given() {
        let given = [
            "0B", "1B", "1500B", "40GB", "38.5GB", "74.51GiB", "1.5GiB", "32GiB", "512MiB", "80GB",
            "1TiB", "1250GB", "700MB", "1KiB", "1MB",
        ];
        for text in given {
            assert_eq!(text.parse::<Bytes>().unwrap().to_string(), text);
        }
    }

    #[test]
    fn a_bad_quantity_says_what_is_wrong() {
        let message = |text: &str| text.parse::<Nanos>().unwrap_err().to_string();
        assert!(message("12").contains("no unit") && message("12").contains("12ms"));
        assert!(message("1e3").contains("no unit") && message("1e3").contains("1e3ms"));
        assert!(message("12d").contains("unknown unit `d`"));
        assert!(message("-1ms").contains("negative"));
        for text in ["0.5ns", "1e-10s", "1e-99999999999999999999s"] {
            assert!(message(text).contains("finer than one nanosecond"), "{text}");
        }
        let many = format!("{}s", "12".repeat(99));
        for text in ["99999999s", "1e30s", "1e99999999999999999999s", &many] {
            assert!(message(text).contains("too large"), "{text}");
        }
        for junk in ["", "ms", "NaN", "inf", "NaNms", "1.2.3ms", "e3ms", ".ms", "1e3e3ms", "_ms"] {
            let text = message(junk);
            assert!(text.contains("not a number") || text.contains("unknown unit"), "{text}");
        }
    }
}
