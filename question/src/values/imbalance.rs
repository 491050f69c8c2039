//! How unevenly experts are chosen, as questions write it.

use std::fmt;
use std::path::PathBuf;
use std::str::FromStr;

use thiserror::Error;

use crate::values::text_form::text_form;

/// How unevenly experts are chosen, as it is written.
#[derive(Clone, PartialEq, Debug)]
pub enum ImbalanceKey {
    /// The fullest device over the mean.
    Factor(f64),
    /// A law of popularity by Zipf, and its exponent.
    Zipf(f64),
    /// A log-normal popularity, and the standard deviation of its logarithm.
    LogNormal(f64),
    /// The counts of a file.
    File(PathBuf),
}

/// A text that does not say how unevenly experts are chosen.
#[derive(Debug, Error)]
#[error(
    "`{0}` is not an imbalance: write a number from 1, zipf:EXPONENT, lognormal:SIGMA or file:FILE"
)]
pub struct ImbalanceError(String);

impl FromStr for ImbalanceKey {
    type Err = ImbalanceError;

    fn from_str(text: &str) -> Result<Self, ImbalanceError> {
        let wrong = || ImbalanceError(text.chars().take(60).collect());
        let number = |text: &str| text.trim().parse().map_err(|_| wrong());
        let Some((name, rest)) = text.split_once(':') else {
            return number(text).map(Self::Factor);
        };
        match name.trim() {
            "zipf" => number(rest).map(Self::Zipf),
            "lognormal" => number(rest).map(Self::LogNormal),
            "file" if !rest.trim().is_empty() => Ok(Self::File(rest.into())),
            _ => Err(wrong()),
        }
    }
}

impl fmt::Display for ImbalanceKey {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Factor(factor) => write!(f, "{factor}"),
            Self::Zipf(exponent) => write!(f, "zipf:{exponent}"),
            Self::LogNormal(sigma) => write!(f, "lognormal:{sigma}"),
            Self::File(path) => write!(f, "file:{}", path.display()),
        }
    }
}

text_form! {
    ImbalanceKey: "Imbalance",
        "How many times as much the fullest device of an expert group has to do as the mean; or how popular \
         experts are: the r-th r^-EXPONENT, log-normally with SIGMA, or as the tokens that a file counted at \
         each, a list of all experts of a layer to a line, or a number to a line.",
        schemars::json_schema!({
            "type": ["number", "string"],
            "minimum": 1,
            "pattern": format!(r"^({0}|\s*(zipf|lognormal)\s*:{0}|\s*file\s*:.+)$", crate::keys::form::NUMBER),
        }),
        ["zipf:0.5", "lognormal:0.3", "file:counts.csv", 1.08];
}
