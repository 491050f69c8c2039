//! Data rates.

use std::fmt;
use std::str::FromStr;

use thiserror::Error;

use crate::units::Bytes;

/// A data rate in bytes per second, at least 1.
#[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash, Debug)]
pub struct Bandwidth(u64);

impl Bandwidth {
    /// `bytes_per_second`, which must be from 1 to 10^15.
    ///
    /// # Errors
    /// [`BandwidthError::OutOfRange`] otherwise.
    pub const fn new(bytes_per_second: u64) -> Result<Self, BandwidthError> {
        match bytes_per_second {
            1..=1_000_000_000_000_000 => Ok(Self(bytes_per_second)),
            _ => Err(BandwidthError::OutOfRange { bytes_per_second }),
        }
    }

    /// Bytes per second.
    #[must_use]
    pub const fn bytes_per_second(self) -> u64 {
        self.0
    }

    /// The rate of `count` such wires together that are oversubscribed by `percent`, where 100 leaves
    /// them all; rounded down, but at least 1 byte per second.
    ///
    /// # Panics
    /// If `percent` is 0.
    #[must_use]
    pub fn times(self, count: u64, percent: u64) -> Self {
        let all = u128::from(self.0) * u128::from(count) * 100 / u128::from(percent);
        Self(u64::try_from(all).unwrap_or(u64::MAX).max(1))
    }
}

impl FromStr for Bandwidth {
    type Err = BandwidthError;

    /// Reads a size per second, `300GB/s`, or bits per second, `200Gbit/s` or `200Gbps`. A small `b`
    /// alone, as in `300gb/s`, may mean either and is refused.
    fn from_str(text: &str) -> Result<Self, BandwidthError> {
        let malformed = || BandwidthError::Malformed { text: text.to_owned() };
        let text = text.trim();
        let bits = ["bit/s", "bps"].into_iter().find_map(|unit| text.strip_suffix(unit));
        let bytes = ["/s", "ps"].into_iter().find_map(|unit| text.strip_suffix(unit));
        let (size, per_byte) = match (bits, bytes) {
            (Some(number), _) => (number, 8),
            (None, Some(size)) => (size.strip_suffix('B').ok_or_else(malformed)?, 1),
            (None, None) => return Err(malformed()),
        };
        // The prefix in either case.
        let size = ["B", "b"].into_iter().find_map(|b| format!("{size}{b}").parse().ok());
        let size: Bytes = size.ok_or_else(malformed)?;
        Self::new(size.0 / per_byte)
    }
}

impl fmt::Display for Bandwidth {
    /// Prints the size that crosses in a second: `300GB/s`.
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.pad(&format!("{}/s", Bytes(self.0)))
    }
}

/// Why a text or a number is not a bandwidth.
#[derive(Clone, PartialEq, Eq, Debug, Error)]
pub enum BandwidthError {
    /// Not a number with a unit.
    #[error("`{text}` is not a bandwidth, such as 300GB/s or 200Gbit/s")]
    Malformed {
        /// The text that was read.
        text: String,
    },
    /// None, or more than any wire carries.
    #[error("a bandwidth of {bytes_per_second} B/s: it must be from 1 B/s to 1000 TB/s")]
    OutOfRange {
        /// The value given.
        bytes_per_second: u64,
    },
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    #[test]
    fn bandwidths_are_read() {
        let read = |text: &str| text.parse::<Bandwidth>().map(Bandwidth::bytes_per_second);
        assert_eq!(read("300GB/s"), Ok(300_000_000_000));
        assert_eq!(read("200Gbit/s"), Ok(25_000_000_000));
        let message = |text: &str| read(text).unwrap_err().to_string();
        assert!(message("0GB/s").contains("from 1 B/s"));
        for text in ["", "300", "300GB", "-1GB/s", "NaNGB/s", "3 bananas/s"] {
            assert!(message(text).contains("is not a bandwidth"), "{text}");
        }
    }

    #[test]
    fn wires_together() {
        let wire = Bandwidth::new(100).unwrap();
        assert_eq!(wire.times(2, 400).bytes_per_second(), 50);
        assert_eq!(wire.times(8, 100).bytes_per_second(), 800);
        assert_eq!(wire.times(0, 100).bytes_per_second(), 1);
        assert_eq!(wire.times(u64::MAX, 1).bytes_per_second(), u64::MAX);
    }

    proptest! {
        #[test]
        fn a_bandwidth_printed_is_read_back(rate in 1..=1_000_000_000_000_000u64) {
            let rate = Bandwidth::new(rate).unwrap();
            prop_assert_eq!(rate.to_string().parse(), Ok(rate));
        }
    }
}
