//! Values of keys about packing: lengths and costs, such as `longtail:8000-64000:1`, `quadratic:1.98,2.61`;
//! methods, communication and sharding.

use std::fmt;
use std::path::{Path, PathBuf};
use std::str::FromStr;

use fsdp::{Communication, CostModel, FsdpError, Lengths, Method, Sharding};
use pipeline::{Family, Nanos, UnitError};
use thiserror::Error;

use super::text_form::text_form;
use super::words::words;

/// A text that is not a value about lengths or costs.
#[derive(Debug, Error)]
pub enum PackingSyntaxError {
    /// No distribution of lengths.
    #[error(
        "`{0}` is not a distribution: write a number of tokens, uniform:LEAST-MOST, lognormal:MEDIAN:SIGMA:MOST, \
         longtail:LEAST-MOST:INDEX, file:FILE or in-order:FILE"
    )]
    Lengths(String),
    /// No cost model.
    #[error("`{0}` is not a cost model: write 1.5b, 7b, linear:TIME or quadratic:A,B")]
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

/// Where lengths come from.
#[derive(Clone, PartialEq, Debug)]
pub enum LengthsKey {
    /// A distribution, and how it is written.
    Known(Lengths, String),
    /// Lengths drawn uniformly from a file.
    File(PathBuf),
    /// The lengths of a file, in order.
    InOrder(PathBuf),
}

impl FromStr for LengthsKey {
    type Err = PackingSyntaxError;

    fn from_str(text: &str) -> Result<Self, PackingSyntaxError> {
        let wrong = || PackingSyntaxError::Lengths(text.to_owned());
        if let Ok(length) = tokens(text) {
            return Ok(Self::Known(Lengths::uniform(length, length)?, text.to_owned()));
        }
        let (name, rest) = text.split_once(':').ok_or_else(wrong)?;
        let range = |text: &str| {
            let (least, most) = text.split_once('-').ok_or_else(wrong)?;
            Ok::<_, PackingSyntaxError>((tokens(least)?, tokens(most)?))
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

impl LengthsKey {
    /// The file that the lengths are in, if they are in one.
    #[must_use]
    pub fn file(&self) -> Option<&Path> {
        match self {
            Self::Known(..) => None,
            Self::File(path) | Self::InOrder(path) => Some(path),
        }
    }

    /// Takes a relative path of its file as one in `folder`.
    pub(crate) fn file_in(&mut self, folder: &Path) {
        if let Self::File(path) | Self::InOrder(path) = self {
            *path = folder.join(&*path);
        }
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
    /// Quadratic costs of `a` and `b` seconds, as a formula gives them.
    pub fn quadratic(a: f64, b: f64) -> Result<Self, FsdpError> {
        let model = CostModel::quadratic(a, b)?;
        Ok(Self { model, written: format!("quadratic:{a:.6},{b:.6}") })
    }

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
    type Err = PackingSyntaxError;

    fn from_str(text: &str) -> Result<Self, PackingSyntaxError> {
        let wrong = || PackingSyntaxError::Cost(text.to_owned());
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
pub struct PackingRatio(pub(crate) f64);

impl FromStr for PackingRatio {
    type Err = PackingSyntaxError;

    fn from_str(text: &str) -> Result<Self, PackingSyntaxError> {
        let (given, range) = (number(text)?, "from 1 to 10000, for the longest sample must fit");
        if (1.0..=10_000.0).contains(&given) {
            return Ok(Self(given));
        }
        Err(FsdpError::Number { what: "a packing ratio", given, range }.into())
    }
}

impl fmt::Display for PackingRatio {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        self.0.fmt(f)
    }
}

text_form! {
    LengthsKey: "Lengths", "The distribution of the lengths of samples in tokens, or a file of lengths.",
        crate::keys::form::pattern(
            r"^\s*(uniform\s*:[^:]+-[^:]+|lognormal\s*:[^:]+:[^:]+:[^:]+|longtail\s*:[^:]+-[^:]+:[^:]+|(file|in-order)\s*:.+)$",
        ),
        ["longtail:8000-64000:1", "uniform:1000-8000", "file:lengths.txt"];
    CostKey: "CostModel", "The forward and backward time of a sample by its tokens.",
        crate::keys::form::pattern(r"^\s*(1\.5[bB]|7[bB]|linear:.+|quadratic:.+,.+)\s*$"),
        ["1.5b", "7b", "linear:20us", "quadratic:1.98,2.61"];
    PackingRatio: "PackingRatio", "The most tokens of a microbatch over those of the longest sample, from 1 to 10000.",
        crate::keys::form::number(1.0, 10_000.0),
        [1.5], SIGNED;
}

/// A number of tokens.
pub(crate) fn tokens(text: &str) -> Result<u32, PackingSyntaxError> {
    text.trim().parse().map_err(|_| PackingSyntaxError::Tokens(text.to_owned()))
}

fn number(text: &str) -> Result<f64, PackingSyntaxError> {
    text.trim().parse().map_err(|_| PackingSyntaxError::Number(text.to_owned()))
}

words! {
    /// A packing method, as questions name it.
    derive(Default), pub enum MethodKey {
        /// Sample i to device i mod N, one to a microbatch, the shortest first.
        LocalSort = "local-sort";
        /// Balanced over devices, with equally many microbatches.
        LbMicro = "lb-micro", default;
        /// Balanced over devices, each with its own number of microbatches.
        LbMini = "lb-mini";
    }
}

words! {
    /// How the documents of a step are packed into its microbatches.
    derive(Default), pub enum PackingKey {
        /// As they come, about as many tokens in each microbatch.
        InOrder = "in-order", default;
        /// As equal numbers of tokens as can be.
        Tokens = "tokens";
        /// As equal work as can be, with that of attention.
        Work = "work";
    }
}

words! {
    /// How devices communicate, as questions name it.
    derive(Default), pub enum CommunicationKey {
        /// Devices meet at every layer.
        Collectives = "collectives", default;
        /// Devices meet at the end of the minibatch.
        OnDemand = "on-demand";
    }
}

words! {
    /// Over which devices parameters are divided, as questions name it.
    derive(Default), pub enum ShardingKey {
        /// Over all devices.
        Full = "full", default;
        /// Over the devices of a node; every node has all parameters.
        Hybrid = "hybrid";
    }
}

words! {
    /// Activations that the backward computes again, as questions about samples name it.
    derive(Default), pub enum RecomputeKey {
        /// Those of whole layers (activation or gradient checkpointing).
        Full = "full", default;
        /// None.
        None = "none";
    }
}

words! {
    /// Where rollout and training run, as questions name it.
    derive(Default), pub enum PlacementKey {
        /// On the same devices, in turn.
        Colocated = "colocated", default;
        /// On separate devices, in parallel: one step off-policy.
        Separate = "separate";
    }
}

words! {
    /// What trains, as questions about a step of reinforcement learning name it.
    derive(Default), pub enum StrategyKey {
        /// Fully sharded data parallelism.
        Fsdp = "fsdp", default;
        /// Pipelines with tensor, context and expert parallelism, as Megatron-LM has them.
        Megatron = "megatron";
    }
}

words! {
    /// The order of passes in the pipelines of such a step, by the names of schedules.
    derive(Default), pub enum OrderKey {
        /// 1F1B.
        OneFOneB = "1f1b", default;
        /// Interleaved 1F1B: several chunks of layers on a stage.
        Interleaved = "1f1b-i";
        /// ZB-H1: 1F1B with the backward in two passes, in the same memory.
        ZbH1 = "zb-h1";
    }
}

impl OrderKey {
    /// The schedule.
    #[must_use]
    pub const fn family(self) -> Family {
        match self {
            Self::OneFOneB => Family::OneFOneB,
            Self::Interleaved => Family::Interleaved,
            Self::ZbH1 => Family::ZbH1,
        }
    }
}

impl MethodKey {
    /// The method.
    #[must_use]
    pub const fn method(self) -> Method {
        match self {
            Self::LocalSort => Method::LocalSort,
            Self::LbMicro => Method::LbMicro,
            Self::LbMini => Method::LbMini,
        }
    }
}

impl CommunicationKey {
    /// The kind of communication.
    #[must_use]
    pub const fn communication(self) -> Communication {
        match self {
            Self::Collectives => Communication::Collectives,
            Self::OnDemand => Communication::OnDemand,
        }
    }
}

impl ShardingKey {
    pub(crate) const fn sharding(self) -> Sharding {
        match self {
            Self::Full => Sharding::Full,
            Self::Hybrid => Sharding::Hybrid,
        }
    }
}
