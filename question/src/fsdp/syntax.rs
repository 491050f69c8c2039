//! How lengths and costs are written: `longtail:8000-64000:1`, `quadratic:1.98,2.61`.

use std::path::{Path, PathBuf};
use std::str::FromStr;

use fsdp::{CostModel, FsdpError, Lengths};
use pipeline::{Nanos, UnitError};
use thiserror::Error;

use crate::diagnostic::Diagnostic;
use crate::host::Context;

/// A text that says nothing about lengths or costs.
#[derive(Debug, Error)]
pub enum SyntaxError {
    #[error(
        "`{0}` is no distribution: write uniform:LEAST-MOST, lognormal:MEDIAN:SIGMA:MOST, \
         longtail:LEAST-MOST:INDEX, file:FILE or in-order:FILE"
    )]
    Lengths(String),
    #[error("`{0}` is no cost model: write 1.5b, 7b, linear:TIME or quadratic:A,B")]
    Cost(String),
    #[error("`{0}` is not a number of tokens")]
    Tokens(String),
    #[error("`{0}` is not a number")]
    Number(String),
    #[error(transparent)]
    Time(#[from] UnitError),
    #[error(transparent)]
    Fsdp(#[from] FsdpError),
}

/// The largest file of lengths.
const MAX_FILE: u64 = 64 << 20;

/// Where lengths come from.
#[derive(Clone, Debug)]
pub enum LengthsKey {
    Known(Lengths),
    /// One of those in a file, each as likely as the others.
    File(PathBuf),
    /// Those in a file, one after the other.
    InOrder(PathBuf),
}

impl LengthsKey {
    /// The lengths; reads their file.
    pub fn read(&self, context: &Context<'_>) -> Result<Lengths, Diagnostic> {
        let made = match self {
            Self::Known(lengths) => return Ok(lengths.clone()),
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
                Self::Known(Lengths::uniform(least, most)?)
            }
            ("lognormal", [median, sigma, most]) => {
                let made = Lengths::log_normal(tokens(median)?, number(sigma)?, tokens(most)?);
                Self::Known(made?)
            }
            ("longtail", [lengths, index]) => {
                let (least, most) = range(lengths)?;
                Self::Known(Lengths::long_tail(least, most, number(index)?)?)
            }
            ("file", _) if !rest.is_empty() => Self::File(rest.into()),
            ("in-order", _) if !rest.is_empty() => Self::InOrder(rest.into()),
            _ => return Err(wrong()),
        })
    }
}

/// What samples cost.
#[derive(Clone, Copy, Debug)]
pub(super) struct CostKey(pub(super) CostModel);

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
        Ok(Self(model))
    }
}

/// A packing ratio: the most tokens of a microbatch over those of the longest sample.
#[derive(Clone, Copy, Debug)]
pub(super) struct Ratio(pub(super) f64);

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

fn tokens(text: &str) -> Result<u32, SyntaxError> {
    text.trim().parse().map_err(|_| SyntaxError::Tokens(text.to_owned()))
}

fn number(text: &str) -> Result<f64, SyntaxError> {
    text.trim().parse().map_err(|_| SyntaxError::Number(text.to_owned()))
}
