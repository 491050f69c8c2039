//! Shards: parts of a sweep, made apart and merged into the bytes of the whole.
//!
//! The file of a shard is the header and its rows between two comment lines: the first says which
//! sweep and which part it is, the last holds the checksum of all before it.

use std::fmt;
use std::ops::Range;
use std::str::FromStr;

use super::grid::Grid;

/// One of `of` nearly equal parts of a sweep.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct Shard {
    /// Its number, from 1.
    pub number: u64,
    /// How many there are.
    pub of: u64,
}

impl Shard {
    /// The indices of its questions.
    pub fn range(self, questions: u64) -> Range<u64> {
        let bound = |k: u64| {
            let bound = u128::from(questions) * u128::from(k) / u128::from(self.of);
            u64::try_from(bound).unwrap_or(questions)
        };
        bound(self.number - 1)..bound(self.number)
    }
}

impl fmt::Display for Shard {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{}/{}", self.number, self.of)
    }
}

impl FromStr for Shard {
    type Err = String;

    fn from_str(text: &str) -> Result<Self, String> {
        let parts = text.split_once('/');
        let parts = parts.and_then(|(number, of)| Some((number.parse().ok()?, of.parse().ok()?)));
        match parts {
            Some((number, of)) if number >= 1 && number <= of => Ok(Self { number, of }),
            _ => Err("a shard is NUMBER/COUNT, from 1/4 to 4/4 for example".to_owned()),
        }
    }
}

/// The first line of a shard, or of a journal.
#[derive(Clone, PartialEq, Eq, Debug)]
pub struct Identity {
    /// Version of the program.
    pub version: String,
    /// The fingerprint of the sweep.
    pub sweep: u64,
    /// Questions of the whole sweep.
    pub questions: u64,
    /// Which part it is.
    pub shard: Shard,
}

const FIRST: &str = "# debubble sweep";

impl Identity {
    /// The identity of part `shard` of `grid`.
    pub fn of(grid: &Grid, shard: Shard) -> Self {
        let version = env!("CARGO_PKG_VERSION").to_owned();
        Self { version, sweep: grid.fingerprint, questions: grid.questions, shard }
    }

    /// Whether `other` is a part of the same division of the same sweep.
    pub fn is_sibling(&self, other: &Self) -> bool {
        let same = Self { shard: self.shard, ..other.clone() };
        *self == same && self.shard.of == other.shard.of
    }
}

impl fmt::Display for Identity {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let Self { version, sweep, questions, shard } = self;
        write!(f, "{FIRST} {sweep:016x} shard {shard} questions {questions} version {version}")
    }
}

impl FromStr for Identity {
    type Err = ();

    fn from_str(line: &str) -> Result<Self, ()> {
        let words: Vec<&str> = line.strip_prefix(FIRST).ok_or(())?.split_whitespace().collect();
        let [sweep, "shard", shard, "questions", questions, "version", version] = words[..] else {
            return Err(());
        };
        Ok(Self {
            version: version.to_owned(),
            sweep: u64::from_str_radix(sweep, 16).map_err(drop)?,
            questions: questions.parse().map_err(drop)?,
            shard: shard.parse().map_err(drop)?,
        })
    }
}

/// The last line of a shard whose bytes before it have this checksum.
pub fn last_line(checksum: u64) -> String {
    format!("# end {checksum:016x}\n")
}
