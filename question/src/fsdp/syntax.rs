//! How lengths and costs are written: `longtail:8000-64000:1`, `quadratic:1.98,2.61`.

use std::fmt;
use std::path::{Path, PathBuf};
use std::str::FromStr;

use fsdp::{CostModel, FsdpError, Lengths};
use pipeline::{Nanos, UnitError};
use thiserror::Error;

use crate::diagnostic::Diagnostic;
use crate::host::Context;
use crate::text_form::text_form;

/// A text that says nothing about lengths or costs.
#[derive(Debug, Error)]
pub enum SyntaxError {
    /// No distribution of lengths.
    #[error(
        "`{0}` is no distribution: write uniform:LEAST-MOST, lognormal:MEDIAN:SIGMA:MOST, \
         longtail:LEAST-MOST:INDEX, file:FILE or in-order:FILE"
    )]
    Lengths(String),
    /// No cost model.
    #[error("`{0}` is no cost model: write 1.5b, 7b, linear:TIME or quadratic:A,B")]
    Cost(String),
    /// No number of tokens.
    #[error("`{0}` is not a number of tokens")]
    Tokens(String),
    /// No number.
    #[error("`{0}` is not a number")]
    Number(String),
    /// No time.
    #[error(transparent)]
    Time(#[from] UnitError),
    /// A distribution or a cost model that cannot be.
    #[error(transparent)]
    Fsdp(#[from] FsdpError),
}

/// The largest file of lengths.
const MAX_FILE: u64 = 64 << 20;

/// Where lengths come from.
#[derive(Clone, PartialEq, Debug)]
pub enum LengthsKey {
    /// A distribution, and how it is written.
    Known(Lengths, String),
    /// One of those in a file, each as likely as the others.
    File(PathBuf),
    /// Those in a file, one after the other.
    InOrder(PathBuf),
}

impl LengthsKey {
    /// The lengths; reads their file.
    pub fn read(&self, context: &Context<'_>) -> Result<Lengths, Diagnostic> {
        let made = match self {
            Self::Known(lengths, _) => return Ok(lengths.clone()),
            Self::File(path) => Lengths::drawn_from(read(context, path)?),
            Self::InOrder(path) => Lengths::in_order(read(context, path)?),
        };
        made.map_err(|fault| Diagnostic::new(fault.to_string()))
    }
}

/// Lengths from a file, one to a line or with blanks or commas between; `#` begins a comment.
fn read(context: &Context<'_>, path: &Path) -> Result<Vec<u32>, Diagnostic> {
    let text = context.read_text(path, MAX_FILE)?;
    let mut lengths = Vec::new();
    for (number, line) in text.lines().enumerate() {
        let content = line.split('#').next().unwrap_or("");
        let words = content.split([',', ' ', '\t', '\r']).filter(|word| !word.is_empty());
        for word in words {
            let length = tokens(word).map_err(|error| {
                let cause = format!("line {}: {error}", number + 1);
                Diagnostic::unreadable(path, &cause)
            })?;
            lengths.push(length);
        }
    }
    Ok(lengths)
}

impl FromStr for LengthsKey {
    type Err = SyntaxError;

    fn from_str(text: &str) -> Result<Self, SyntaxError> {
        let wrong = || SyntaxError::Lengths(text.to_owned());
        let (name, rest) = text.split_once(':').ok_or_else(wrong)?;
        let range = |text: &str| {
            let (least, most) = text.split_once('-').ok_or_else(wrong)?;
            Ok::<_, SyntaxError>((tokens(least)?, tokens(most)?))
        };
        let parts: Vec<&str> = rest.split(':').collect();
        Ok(match (name.trim(), parts.as_slice()) {
            ("uniform", [lengths]) => {
                let (least, most) = range(lengths)?;
                Self::Known(Lengths::uniform(least, most)?, text.to_owned())
            }
            ("lognormal", [median, sigma, most]) => {
                let made = Lengths::log_normal(tokens(median)?, number(sigma)?, tokens(most)?);
                Self::Known(made?, text.to_owned())
            }
            ("longtail", [lengths, index]) => {
                let (least, most) = range(lengths)?;
                let made = Lengths::long_tail(least, most, number(index)?);
                Self::Known(made?, text.to_owned())
            }
            ("file", _) if !rest.is_empty() => Self::File(rest.into()),
            ("in-order", _) if !rest.is_empty() => Self::InOrder(rest.into()),
            _ => return Err(wrong()),
        })
    }
}

impl Default for LengthsKey {
    /// Lengths of a data set of long contexts.
    fn default() -> Self {
        Self::Known(Lengths::LONG_CONTEXT, "longtail:8000-64000:1".to_owned())
    }
}

impl fmt::Display for LengthsKey {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Known(_, written) => f.write_str(written),
            Self::File(path) => write!(f, "file:{}", path.display()),
            Self::InOrder(path) => write!(f, "in-order:{}", path.display()),
        }
    }
}

/// The cost of samples, and how it is written.
#[derive(Clone, PartialEq, Debug)]
pub struct CostKey {
    model: CostModel,
    written: String,
}

impl CostKey {
    /// The cost model.
    #[must_use]
    pub const fn model(&self) -> CostModel {
        self.model
    }
}

impl Default for CostKey {
    /// The fit for a model of 1.5B parameters.
    fn default() -> Self {
        Self { model: CostModel::FIT_1_5B, written: "1.5b".to_owned() }
    }
}

impl fmt::Display for CostKey {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(&self.written)
    }
}

impl FromStr for CostKey {
    type Err = SyntaxError;

    fn from_str(text: &str) -> Result<Self, SyntaxError> {
        let wrong = || SyntaxError::Cost(text.to_owned());
        let model = match text.trim().split_once(':') {
            None if text.trim().eq_ignore_ascii_case("1.5b") => CostModel::FIT_1_5B,
            None if text.trim().eq_ignore_ascii_case("7b") => CostModel::FIT_7B,
            Some(("linear", time)) => CostModel::linear(time.parse::<Nanos>()?)?,
            Some(("quadratic", constants)) => {
                let (a, b) = constants.split_once(',').ok_or_else(wrong)?;
                CostModel::quadratic(number(a)?, number(b)?)?
            }
            _ => return Err(wrong()),
        };
        Ok(Self { model, written: text.to_owned() })
    }
}

/// A packing ratio: the most tokens of a microbatch over those of the longest sample.
#[derive(Clone, Copy, PartialEq, Debug)]
pub struct Ratio(pub(super) f64);

impl FromStr for Ratio {
    type Err = SyntaxError;

    fn from_str(text: &str) -> Result<Self, SyntaxError> {
        let (given, range) = (number(text)?, "from 1 to 10000, for the longest sample must fit");
        if (1.0..=10_000.0).contains(&given) {
            return Ok(Self(given));
        }
        Err(FsdpError::Number { what: "a packing ratio", given, range }.into())
    }
}

impl fmt::Display for Ratio {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        self.0.fmt(f)
    }
}

text_form! {
    LengthsKey: "Lengths", "The distribution of the lengths of samples in tokens, or a file of lengths.",
        crate::schema::pattern(
            r"^\s*(uniform\s*:[^:]+-[^:]+|lognormal\s*:[^:]+:[^:]+:[^:]+|longtail\s*:[^:]+-[^:]+:[^:]+|(file|in-order)\s*:.+)$",
        ),
        ["longtail:8000-64000:1", "uniform:1000-8000", "file:lengths.txt"];
    CostKey: "CostModel", "The forward and backward time of a sample by its tokens.",
        crate::schema::pattern(r"^\s*(1\.5[bB]|7[bB]|linear:.+|quadratic:.+,.+)\s*$"),
        ["1.5b", "7b", "linear:20us", "quadratic:1.98,2.61"];
    Ratio: "PackingRatio", "The most tokens of a microbatch over those of the longest sample, from 1 to 10000.",
        crate::schema::number(1.0, 10_000.0),
        [1.5];
}

fn tokens(text: &str) -> Result<u32, SyntaxError> {
    text.trim().parse().map_err(|_| SyntaxError::Tokens(text.to_owned()))
}

fn number(text: &str) -> Result<f64, SyntaxError> {
    text.trim().parse().map_err(|_| SyntaxError::Number(text.to_owned()))
}
