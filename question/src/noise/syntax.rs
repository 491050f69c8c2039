//! How noise is written: `stage:3=1.5`, `pass=lognormal:0.05`, `0.001:50ms`.

use std::path::{Path, PathBuf};
use std::str::FromStr;

use pipeline::{Nanos, UnitError};
use sim::straggler::{Jitter, StragglerError, Target};
use thiserror::Error;

/// A text that says nothing about noise.
#[derive(Debug, Error)]
pub enum SyntaxError {
    /// No slowdown.
    #[error("`{0}` is no slowdown: write stage:3=1.5, device:0=2 or link:2-3=2")]
    Slowdown(String),
    /// No stage, device or link.
    #[error("`{0}` is no {1}: write {2}")]
    Target(String, &'static str, &'static str),
    /// No jitter.
    #[error(
        "`{0}` is no jitter: write pass= or hop= and one of normal:SPREAD, lognormal:SPREAD, \
         pareto:TAIL or samples:FILE, as in pass=lognormal:0.05"
    )]
    Jitter(String),
    /// No stall.
    #[error("`{0}` is no stall: write PROBABILITY:TIME, as in 0.001:50ms")]
    Stall(String),
    /// No straggler.
    #[error("`{0}` is no straggler: write PROBABILITY:FACTOR, as in 0.0001:1.5")]
    Straggler(String),
    /// No number.
    #[error("`{0}` is not a number")]
    Number(String),
    /// A number that does not describe noise.
    #[error(transparent)]
    Noise(#[from] StragglerError),
    /// No time.
    #[error(transparent)]
    Time(#[from] UnitError),
}

/// `stage:3=1.5`: what is slow, and by which factor.
#[derive(Clone, Copy, Debug)]
pub struct Slowdown {
    /// The target that is slow.
    pub target: Target,
    /// How many times as long its work takes.
    pub factor: f64,
}

impl FromStr for Slowdown {
    type Err = SyntaxError;

    fn from_str(text: &str) -> Result<Self, SyntaxError> {
        let wrong = || SyntaxError::Slowdown(text.to_owned());
        let (place, factor) = text.split_once('=').ok_or_else(wrong)?;
        let (kind, which) = place.split_once(':').ok_or_else(wrong)?;
        let target = target(kind.trim(), which.trim()).ok_or_else(wrong)??;
        Ok(Self { target, factor: number(factor)? })
    }
}

/// The `kind` numbered `which`; `None` if there is no such kind.
pub fn target(kind: &str, which: &str) -> Option<Result<Target, SyntaxError>> {
    let wrong = |what, example| move |_| SyntaxError::Target(which.to_owned(), what, example);
    let one = |what| which.parse().map_err(wrong(what, "its number, from 0"));
    match kind {
        "stage" => Some(one("stage").map(Target::Stage)),
        "device" => Some(one("device").map(Target::Device)),
        "link" => {
            let (from, to) = which.split_once('-').unwrap_or((which, ""));
            let ends = from.parse().and_then(|from| Ok(Target::Link(from, to.parse()?)));
            Some(ends.map_err(wrong("link", "its two stages, as in 2-3")))
        }
        _ => None,
    }
}

/// The quantity that is random.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum Jittered {
    /// The durations of passes.
    Pass,
    /// The durations of hops.
    Hop,
}

/// How it is random.
#[derive(Clone, Debug)]
pub enum Law {
    /// By a distribution.
    Known(Jitter),
    /// By the samples in a file.
    Samples(PathBuf),
}

impl Law {
    /// The file of its samples, if it has one.
    pub fn file(&self) -> Option<&Path> {
        match self {
            Self::Known(_) => None,
            Self::Samples(path) => Some(path),
        }
    }
}

/// `pass=lognormal:0.05`: what is random, and how.
#[derive(Clone, Debug)]
pub struct JitterOf {
    /// The quantity that is random.
    pub what: Jittered,
    /// How.
    pub law: Law,
}

impl FromStr for JitterOf {
    type Err = SyntaxError;

    fn from_str(text: &str) -> Result<Self, SyntaxError> {
        let wrong = || SyntaxError::Jitter(text.to_owned());
        let (what, law) = text.split_once('=').ok_or_else(wrong)?;
        let (name, parameter) = law.split_once(':').ok_or_else(wrong)?;
        let what = match what.trim() {
            "pass" => Jittered::Pass,
            "hop" => Jittered::Hop,
            _ => return Err(wrong()),
        };
        let law = match name.trim() {
            "normal" => Law::Known(Jitter::normal(number(parameter)?)?),
            "lognormal" => Law::Known(Jitter::log_normal(number(parameter)?)?),
            "pareto" => Law::Known(Jitter::pareto(number(parameter)?)?),
            "samples" if !parameter.is_empty() => Law::Samples(parameter.into()),
            _ => return Err(wrong()),
        };
        Ok(Self { what, law })
    }
}

/// `0.001:50ms`: how likely a pass stalls, and for how long.
#[derive(Clone, Copy, Debug)]
pub struct Stall {
    /// How likely.
    pub probability: f64,
    /// How long.
    pub length: Nanos,
}

impl FromStr for Stall {
    type Err = SyntaxError;

    fn from_str(text: &str) -> Result<Self, SyntaxError> {
        let (probability, length) = chance_of(text, SyntaxError::Stall)?;
        Ok(Self { probability, length: length.trim().parse()? })
    }
}

/// `0.0001:1.5`: how likely a device is slow for a step, and how slow.
#[derive(Clone, Copy, Debug)]
pub struct Straggler {
    /// How likely.
    pub probability: f64,
    /// How many times as long its work takes.
    pub factor: f64,
}

impl FromStr for Straggler {
    type Err = SyntaxError;

    fn from_str(text: &str) -> Result<Self, SyntaxError> {
        let (probability, factor) = chance_of(text, SyntaxError::Straggler)?;
        Ok(Self { probability, factor: number(factor)? })
    }
}

/// `PROBABILITY:WHAT`: the probability, and the text of what has it.
fn chance_of(text: &str, wrong: fn(String) -> SyntaxError) -> Result<(f64, &str), SyntaxError> {
    let (probability, what) = text.split_once(':').ok_or_else(|| wrong(text.to_owned()))?;
    Ok((number(probability)?, what))
}

/// A number; whether it makes sense is for others to say.
pub fn number(text: &str) -> Result<f64, SyntaxError> {
    text.trim().parse().map_err(|_| SyntaxError::Number(text.to_owned()))
}
