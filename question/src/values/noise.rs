//! How noise is written: `stage:3=1.5`, `pass=lognormal:0.05`, `0.001:50ms`.

use std::fmt;
use std::path::{Path, PathBuf};
use std::str::FromStr;

use pipeline::{Nanos, UnitError};
use sim::straggler::{Jitter, StragglerError, Target};
use thiserror::Error;

use super::text_form::text_form;

/// A distribution of random factors that a question may name, as in `lognormal:0.05`.
pub struct NamedLaw {
    /// The name.
    pub name: &'static str,
    /// The parameter behind the name, as help and errors call it.
    pub parameter: &'static str,
    /// The meaning of the parameter, in the words of the help.
    pub meaning: &'static str,
    /// Reads the parameter.
    read: fn(&str) -> Result<Law, NoiseSyntaxError>,
}

/// All laws of jitter. The parser, its error, the help of the keys and their schema are drawn from here.
pub const LAWS: &[NamedLaw] = &[
    NamedLaw {
        name: "normal",
        parameter: "SPREAD",
        meaning: "standard deviation",
        read: |text| Ok(Law::Known(Jitter::normal(number(text)?)?)),
    },
    NamedLaw {
        name: "lognormal",
        parameter: "SPREAD",
        meaning: "standard deviation",
        read: |text| Ok(Law::Known(Jitter::log_normal(number(text)?)?)),
    },
    NamedLaw {
        name: "pareto",
        parameter: "TAIL",
        meaning: "tail index",
        read: |text| Ok(Law::Known(Jitter::pareto(number(text)?)?)),
    },
    NamedLaw {
        name: "samples",
        parameter: "FILE",
        meaning: "one per line: factors as they are, or durations over their mean",
        read: |text| Ok(Law::Samples(text.into())),
    },
];

impl NamedLaw {
    /// How the law is written: `pareto:TAIL`.
    fn form(&self) -> String {
        format!("{}:{}", self.name, self.parameter)
    }
}

/// The forms of all laws, as errors list them.
fn law_forms() -> String {
    let forms: Vec<String> = LAWS.iter().map(NamedLaw::form).collect();
    match forms.split_last() {
        Some((last, rest)) if !rest.is_empty() => format!("{} or {last}", rest.join(", ")),
        _ => forms.concat(),
    }
}

/// The help of the key `jitter`. Neighbouring laws whose parameters mean the same share an explanation.
#[must_use]
pub fn jitter_help() -> String {
    let groups = LAWS.chunk_by(|one, other| one.meaning == other.meaning).map(|group| {
        let forms: Vec<String> = group.iter().map(NamedLaw::form).collect();
        format!("{} ({})", forms.join(" or "), group[0].meaning)
    });
    let groups: Vec<String> = groups.collect();
    let laws = match groups.split_last() {
        Some((last, rest)) if !rest.is_empty() => format!("{}, or {last}", rest.join(", ")),
        _ => groups.concat(),
    };
    format!(
        "Random durations, as in pass=lognormal:0.05,hop=pareto:2.5. Each is multiplied by a factor of \
         mean 1: {laws}"
    )
}

/// A text that is not a value about noise.
#[derive(Debug, Error)]
pub enum NoiseSyntaxError {
    /// No slowdown.
    #[error("`{0}` is not a slowdown: write stage:3=1.5, device:0=2 or link:2-3=2")]
    Slowdown(String),
    /// No stage, device or link.
    #[error("`{0}` is not a {1}: write {2}")]
    Target(String, &'static str, &'static str),
    /// No jitter.
    #[error(
        "`{0}` is not a jitter: write pass= or hop= and one of {laws}, as in pass=lognormal:0.05",
        laws = law_forms()
    )]
    Jitter(String),
    /// No stall.
    #[error("`{0}` is not a stall: write PROBABILITY:TIME, as in 0.001:50ms")]
    Stall(String),
    /// No straggler.
    #[error("`{0}` is not a straggler: write PROBABILITY:FACTOR, as in 0.0001:1.5")]
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

/// A slow target and its factor: `stage:3=1.5`.
#[derive(Clone, Copy, PartialEq, Debug)]
pub struct Slowdown {
    /// The target that is slow.
    pub target: Target,
    /// How many times as long its work takes.
    pub factor: f64,
}

impl FromStr for Slowdown {
    type Err = NoiseSyntaxError;

    fn from_str(text: &str) -> Result<Self, NoiseSyntaxError> {
        let wrong = || NoiseSyntaxError::Slowdown(text.to_owned());
        let (place, factor) = text.split_once('=').ok_or_else(wrong)?;
        let (kind, which) = place.split_once(':').ok_or_else(wrong)?;
        let target = target(kind.trim(), which.trim()).ok_or_else(wrong)??;
        Ok(Self { target, factor: number(factor)? })
    }
}

impl fmt::Display for Slowdown {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self.target {
            Target::Stage(stage) => write!(f, "stage:{stage}"),
            Target::Device(device) => write!(f, "device:{device}"),
            Target::Link(from, to) => write!(f, "link:{from}-{to}"),
        }?;
        write!(f, "={}", self.factor)
    }
}

/// The `kind` numbered `which`; `None` if there is no such kind.
pub fn target(kind: &str, which: &str) -> Option<Result<Target, NoiseSyntaxError>> {
    let wrong = |what, example| move |_| NoiseSyntaxError::Target(which.to_owned(), what, example);
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

/// The durations that are random.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum Jittered {
    /// The durations of passes.
    Pass,
    /// The durations of hops.
    Hop,
}

/// The distribution of random factors.
#[derive(Clone, PartialEq, Debug)]
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

/// `pass=lognormal:0.05`: which durations are random, and how.
#[derive(Clone, PartialEq, Debug)]
pub struct JitterOf {
    /// The durations that are random.
    pub what: Jittered,
    /// The distribution of their factors.
    pub law: Law,
    /// The law as it is written, `lognormal:0.05`.
    written: String,
}

impl FromStr for JitterOf {
    type Err = NoiseSyntaxError;

    fn from_str(text: &str) -> Result<Self, NoiseSyntaxError> {
        let wrong = || NoiseSyntaxError::Jitter(text.to_owned());
        let (what, law) = text.split_once('=').ok_or_else(wrong)?;
        let (name, parameter) = law.split_once(':').ok_or_else(wrong)?;
        let what = match what.trim() {
            "pass" => Jittered::Pass,
            "hop" => Jittered::Hop,
            _ => return Err(wrong()),
        };
        let named = LAWS.iter().find(|law| law.name == name.trim()).ok_or_else(wrong)?;
        let law = (named.read)(parameter)?;
        if law.file().is_some_and(|file| file.as_os_str().is_empty()) {
            return Err(wrong());
        }
        Ok(Self { what, law, written: format!("{}:{parameter}", named.name) })
    }
}

impl fmt::Display for JitterOf {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let what = match self.what {
            Jittered::Pass => "pass",
            Jittered::Hop => "hop",
        };
        write!(f, "{what}={}", self.written)
    }
}

/// `0.001:50ms`: how likely a pass stalls, and for how long.
#[derive(Clone, Copy, PartialEq, Debug)]
pub struct Stall {
    /// The probability of a stall.
    pub probability: f64,
    /// How much longer the pass lasts.
    pub length: Nanos,
}

impl FromStr for Stall {
    type Err = NoiseSyntaxError;

    fn from_str(text: &str) -> Result<Self, NoiseSyntaxError> {
        let (probability, length) = chance_of(text, NoiseSyntaxError::Stall)?;
        Ok(Self { probability, length: length.trim().parse()? })
    }
}

impl fmt::Display for Stall {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{}:{}", self.probability, self.length)
    }
}

/// `0.0001:1.5`: how likely a device is slow for a step, and how slow.
#[derive(Clone, Copy, PartialEq, Debug)]
pub struct Straggler {
    /// The probability that a device is slow in a step.
    pub probability: f64,
    /// How many times as long its work takes.
    pub factor: f64,
}

impl FromStr for Straggler {
    type Err = NoiseSyntaxError;

    fn from_str(text: &str) -> Result<Self, NoiseSyntaxError> {
        let (probability, factor) = chance_of(text, NoiseSyntaxError::Straggler)?;
        Ok(Self { probability, factor: number(factor)? })
    }
}

impl fmt::Display for Straggler {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{}:{}", self.probability, self.factor)
    }
}

text_form! {
    Slowdown: "Slowdown", "A stage, device or link, and how many times as long its work takes.",
        crate::keys::form::pattern(&format!(
            r"^\s*((stage|device)\s*:\s*[0-9]+|link\s*:\s*[0-9]+-[0-9]+)\s*={NUMBER}$",
            NUMBER = crate::keys::form::NUMBER,
        )),
        ["stage:3=1.5", "device:0=2", "link:2-3=2"];
    JitterOf: "Jitter", "Passes or hops, and the law of the random factors of their durations.",
        crate::keys::form::pattern(&jitter_pattern()),
        ["pass=lognormal:0.05", "hop=pareto:2.5"];
    Stall: "Stall", "The probability that a pass lasts longer, and by how much.",
        crate::keys::form::pattern(&format!("^\\s*{NUMBER}\\s*:\\s*{TIME}$", NUMBER = crate::keys::form::NUMBER, TIME = pipeline::schema::TIME)),
        ["0.001:50ms"], SIGNED;
    Straggler: "Straggler", "The probability that a device is slow in a step, and how many times as long its work takes then.",
        crate::keys::form::pattern(&format!("^\\s*{NUMBER}\\s*:\\s*{NUMBER}\\s*$", NUMBER = crate::keys::form::NUMBER)),
        ["0.0001:1.5"];
}

/// The pattern of a jitter, with the names of all laws.
#[cfg(feature = "schema")]
fn jitter_pattern() -> String {
    let names: Vec<&str> = LAWS.iter().map(|law| law.name).collect();
    format!(r"^\s*(pass|hop)\s*=\s*({})\s*:.", names.join("|"))
}

/// `PROBABILITY:WHAT`: the probability, and the text of what has it.
fn chance_of(
    text: &str,
    wrong: fn(String) -> NoiseSyntaxError,
) -> Result<(f64, &str), NoiseSyntaxError> {
    let (probability, what) = text.split_once(':').ok_or_else(|| wrong(text.to_owned()))?;
    Ok((number(probability)?, what))
}

/// A number; callers check its range.
pub fn number(text: &str) -> Result<f64, NoiseSyntaxError> {
    text.trim().parse().map_err(|_| NoiseSyntaxError::Number(text.to_owned()))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn help_and_errors_name_every_law() {
        let error = "pass=cauchy:1".parse::<JitterOf>().unwrap_err().to_string();
        let help = jitter_help();
        for law in LAWS {
            assert!(error.contains(&law.form()) && help.contains(&law.form()), "{}", law.name);
            assert!(help.contains(law.meaning), "{}", law.name);
        }
    }
}
