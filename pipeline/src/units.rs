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
            fn add(self, other: Self) -> Self {
                Self(self.0 + other.0)
            }
        }
        impl AddAssign for $unit {
            fn add_assign(&mut self, other: Self) {
                self.0 += other.0;
            }
        }
        impl Sub for $unit {
            type Output = Self;
            fn sub(self, other: Self) -> Self {
                Self(self.0 - other.0)
            }
        }
        impl Mul<u64> for $unit {
            type Output = Self;
            fn mul(self, times: u64) -> Self {
                Self(self.0 * times)
            }
        }
        impl Sum for $unit {
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
        /// What was read.
        text: String,
        /// The units there are.
        units: &'static str,
        /// The same number with a unit.
        example: String,
    },
    /// A unit that does not exist.
    #[error("`{text}` has the unknown unit `{unit}`: write one of {units}")]
    Unknown {
        /// What was read.
        text: String,
        /// The part taken for a unit.
        unit: String,
        /// The units there are.
        units: &'static str,
    },
    /// Less than nothing.
    #[error("`{text}` is negative: it must be zero or more")]
    Negative {
        /// What was read.
        text: String,
    },
    /// Not a decimal number such as `12` or `0.5`; NaN and infinity are none.
    #[error("`{text}` is not a number with a unit, such as `{example}`")]
    NotANumber {
        /// What was read.
        text: String,
        /// One that would do.
        example: &'static str,
    },
    /// A fraction of a nanosecond.
    #[error("`{text}` is finer than one nanosecond")]
    TooFine {
        /// What was read.
        text: String,
    },
    /// More than the type holds.
    #[error("`{text}` is too large: at most {limit}")]
    TooLarge {
        /// What was read.
        text: String,
        /// The largest value.
        limit: &'static str,
    },
}

const TIMES: [(&str, u64); 4] = [("ns", 1), ("us", 1_000), ("ms", 1_000_000), ("s", 1_000_000_000)];
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
    units: &TIMES,
    listed: "ns us ms s",
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
        let unit_at = unsigned
            .find(|c: char| !c.is_ascii_digit() && c != '.' && c != '_')
            .unwrap_or(unsigned.len());
        let (number, unit) = (unsigned[..unit_at].replace('_', ""), unsigned[unit_at..].trim());
        let (whole, fraction) = number.split_once('.').unwrap_or((&number, ""));
        if whole.len() + fraction.len() == 0 || fraction.contains('.') {
            return Err(not_a_number());
        }
        if unit.is_empty() {
            let example = format!("{number}{}", self.units[2].0);
            return Err(UnitError::Missing { text: owned(), units: self.listed, example });
        }
        let Some(&(_, scale)) = self.units.iter().find(|(name, _)| *name == unit) else {
            let unit = unit.to_owned();
            return Err(UnitError::Unknown { text: owned(), unit, units: self.listed });
        };
        let too_large = || UnitError::TooLarge { text: owned(), limit: self.max_text };
        if whole.trim_start_matches('0').len() > 19 {
            return Err(too_large());
        }
        let fraction = fraction.trim_end_matches('0');
        if fraction.len() > 18 {
            return Err(not_a_number());
        }
        let digits = |part: &str| part.bytes().fold(0u128, |n, d| n * 10 + u128::from(d - b'0'));
        let denominator = 10u128.pow(u32::try_from(fraction.len()).unwrap_or(18));
        let scaled = (digits(whole) * denominator + digits(fraction)) * u128::from(scale);
        match u64::try_from(scaled / denominator) {
            Ok(value) if value <= self.max => Ok((value, scaled % denominator != 0)),
            _ => Err(too_large()),
        }
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

impl FromStr for Nanos {
    type Err = UnitError;

    /// Reads a decimal number with a unit, `29.718ms`; a fraction of a nanosecond is an error.
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
    /// Prints exactly where a binary unit divides the size, else in bytes: `38GiB`, `1500B`.
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let binary = SIZES[5..].iter().rev();
        let exact =
            binary.into_iter().find(|(_, scale)| self.0 > 0 && self.0.is_multiple_of(*scale));
        let (name, scale) = exact.copied().unwrap_or(("B", 1));
        f.pad(&format!("{}{name}", self.0 / scale))
    }
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
    fn a_bad_quantity_says_what_is_wrong() {
        let message = |text: &str| text.parse::<Nanos>().unwrap_err().to_string();
        assert!(message("12").contains("no unit") && message("12").contains("12ms"));
        assert!(message("12h").contains("unknown unit `h`"));
        assert!(message("-1ms").contains("negative"));
        assert!(message("0.5ns").contains("finer than one nanosecond"));
        assert!(message("99999999s").contains("too large"));
        for junk in ["", "ms", "NaN", "inf", "NaNms", "1.2.3ms", "1e3ms", ".ms"] {
            let text = message(junk);
            assert!(text.contains("not a number") || text.contains("unknown unit"), "{text}");
        }
    }
}
