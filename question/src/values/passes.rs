//! Values of keys about passes: recomputation, copies to the host, the output layer in shards, and
//! collectives of parameters.

use std::fmt;
use std::str::FromStr;

use pipeline::sharding::Reshard;
use pipeline::{Nanos, UnitError, Work};
use thiserror::Error;

use super::text_form::text_form;
use crate::quote;

/// The part of a chunk that is recomputed.
#[derive(Clone, Copy, PartialEq, Eq, Default, Debug)]
pub enum Recomputed {
    /// Nothing: all activations are kept.
    #[default]
    Nothing,
    /// The core of attention in every layer (Korthikanti et al., arXiv 2205.05198, section 5): its 5as
    /// bytes per token, by 4bs²h FLOPs.
    Selective,
    /// The first layers of the chunk, by their number.
    Layers(u64),
    /// All of it, from its input.
    Everything,
}

/// A text that names no such part.
#[derive(Clone, PartialEq, Eq, Debug, Error)]
#[error(
    "`{0}` is nothing to recompute; write none, full, selective, or a number of layers per chunk"
)]
pub struct RecomputedError(String);

impl FromStr for Recomputed {
    type Err = RecomputedError;

    fn from_str(text: &str) -> Result<Self, RecomputedError> {
        let error = || RecomputedError(quote::clip(text));
        match text.trim() {
            "none" => Ok(Self::Nothing),
            "selective" => Ok(Self::Selective),
            "full" => Ok(Self::Everything),
            digits if !digits.is_empty() && digits.bytes().all(|byte| byte.is_ascii_digit()) => {
                match digits.parse() {
                    Ok(0) => Ok(Self::Nothing),
                    Ok(layers) => Ok(Self::Layers(layers)),
                    Err(_) => Err(error()),
                }
            }
            _ => Err(error()),
        }
    }
}

impl fmt::Display for Recomputed {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Nothing => f.write_str("none"),
            Self::Selective => f.write_str("selective"),
            Self::Layers(layers) => layers.fmt(f),
            Self::Everything => f.write_str("full"),
        }
    }
}

/// k: how long an activation takes to the host and back, over F+B+W of its chunk; in millionths.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct OffloadRatio(u64);

impl OffloadRatio {
    /// One way of the round trip of what is computed in `work`, to the next nanosecond.
    pub(crate) fn one_way(self, work: Nanos) -> Nanos {
        let nanos = (u128::from(work.0) * u128::from(self.0)).div_ceil(2_000_000);
        Nanos(u64::try_from(nanos).unwrap_or(u64::MAX))
    }
}

impl FromStr for OffloadRatio {
    type Err = String;

    #[allow(clippy::cast_possible_truncation, clippy::cast_sign_loss)] // From 0 to 10^9.
    fn from_str(text: &str) -> Result<Self, String> {
        match text.parse::<f64>() {
            Ok(k) if (0.0..=1000.0).contains(&k) => Ok(Self((k * 1e6).round() as u64)),
            _ => Err(format!("`{text}`: write a number from 0 to 1000, such as 1.4")),
        }
    }
}

impl fmt::Display for OffloadRatio {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let (whole, rest) = (self.0 / 1_000_000, self.0 % 1_000_000);
        let decimals = format!("{whole}.{rest:06}");
        f.write_str(decimals.trim_end_matches('0').trim_end_matches('.'))
    }
}

/// The work of a microbatch over that of the one whose times are given.
#[derive(Clone, Copy, PartialEq, Debug)]
pub struct WorkFactor(f64);

impl WorkFactor {
    /// The work of all passes of the microbatch.
    #[must_use]
    pub fn work(self) -> Option<Work> {
        Work::alike(self.0)
    }
}

impl FromStr for WorkFactor {
    type Err = String;

    fn from_str(text: &str) -> Result<Self, String> {
        match text.trim().parse::<f64>() {
            Ok(factor) if Work::alike(factor).is_some() => Ok(Self(factor)),
            _ => Err(format!("`{text}`: write a number from 0 to {}, such as 1.5", Work::MOST)),
        }
    }
}

impl fmt::Display for WorkFactor {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        self.0.fmt(f)
    }
}

/// The times of the barriers behind S and behind T: `90us` for both, or `90us,400us`.
#[derive(Clone, Copy, PartialEq, Eq, Default, Debug)]
pub struct Barriers(pub [Nanos; 2]);

impl FromStr for Barriers {
    type Err = UnitError;

    fn from_str(text: &str) -> Result<Self, UnitError> {
        let (behind_s, behind_t) = text.split_once(',').unwrap_or((text, text));
        Ok(Self([behind_s.trim().parse()?, behind_t.trim().parse()?]))
    }
}

impl fmt::Display for Barriers {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{},{}", self.0[0], self.0[1])
    }
}

/// The states that replicas divide: none, optimizer, gradients or fsdp.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum ReplicaShardingKey {
    /// Nothing.
    None,
    /// The state of the optimizer.
    Optimizer,
    /// The state of the optimizer and the gradients.
    Gradients,
    /// The state of the optimizer, the gradients and the parameters.
    Fsdp,
}

impl ReplicaShardingKey {
    const ALL: [Self; 4] = [Self::None, Self::Optimizer, Self::Gradients, Self::Fsdp];

    const fn name(self) -> &'static str {
        match self {
            Self::None => "none",
            Self::Optimizer => "optimizer",
            Self::Gradients => "gradients",
            Self::Fsdp => "fsdp",
        }
    }
}

impl FromStr for ReplicaShardingKey {
    type Err = String;

    fn from_str(text: &str) -> Result<Self, String> {
        Self::ALL.into_iter().find(|one| one.name() == text.trim()).ok_or_else(|| {
            let text = quote::clip(text);
            format!(
                "`{text}` is nothing that replicas divide: write none, optimizer, gradients or fsdp"
            )
        })
    }
}

impl fmt::Display for ReplicaShardingKey {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(self.name())
    }
}

/// When gathered parameters are dropped: never, or after-use.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct ReshardKey(pub Reshard);

impl FromStr for ReshardKey {
    type Err = String;

    fn from_str(text: &str) -> Result<Self, String> {
        let known = Reshard::ALL.into_iter().find(|one| one.name() == text.trim());
        known.map(Self).ok_or_else(|| {
            let text = quote::clip(text);
            format!("`{text}` says not when parameters are dropped: write never or after-use")
        })
    }
}

impl fmt::Display for ReshardKey {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(self.0.name())
    }
}

text_form! {
    Recomputed: "Recomputed", "The part of a chunk that is recomputed: none, full, selective (the core of attention), or a number of layers.",
        crate::keys::form::pattern(r"^\s*(none|full|selective|[0-9]+)\s*$"), ["full", "selective", "4"];
    OffloadRatio: "OffloadRatio", "The time of a copy to the host and back over F+B+W of its chunk, from 0 to 1000.",
        crate::keys::form::number(0.0, 1000.0),
        [1.4], SIGNED;
    WorkFactor: "WorkFactor", "The work of a microbatch over that of the one whose times are given, from 0 to 1000.",
        crate::keys::form::number(0.0, 1000.0),
        [1.5], SIGNED;
    Barriers: "Barriers", "The time of both barriers, or of the one behind S and the one behind T.",
        crate::keys::form::pattern(&format!("^{TIME}(,{TIME})?$", TIME = pipeline::schema::TIME)),
        ["90us", "90us,400us"], SIGNED;
    ReplicaShardingKey: "Sharding", "State that data-parallel replicas divide: none, optimizer (ZeRO-1), gradients (ZeRO-2) or fsdp (ZeRO-3).",
        crate::keys::form::pattern(r"^\s*(none|optimizer|gradients|fsdp)\s*$"), ["optimizer", "fsdp"];
    ReshardKey: "Reshard", "When gathered parameters are dropped: never, or after-use.",
        crate::keys::form::pattern(r"^\s*(never|after-use)\s*$"), ["never", "after-use"];
}
