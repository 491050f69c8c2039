//! The interval of a measured step, by its distance from the steps that were measured.
//!
//! A *score* is the logarithm of the measured over the predicted time of a configuration, the mean of its repeats.
//! Where constants were fitted to a source, its scores are those of a fit without it: a run of a user is of a source
//! of its own. 95 % of scores lie within [`WIDE`] times [`SCALE`] of zero where a step is like a measured one on its
//! generation of devices, and further by the distances of [`Step::beyond`]. Both constants, and the weights of the
//! distances, are fitted to 277 configurations of 13 sources, each source left out in turn.

use plan::{Precision, Transformer};
use serde::Serialize;

use super::set_errors::SetErrors;
use crate::accuracy;

/// Scale of scores of steps that are like measured ones.
const SCALE: f64 = 0.06;
/// How many scales hold 95 % of scores.
const WIDE: f64 = 2.87;
/// The most that the mean error of a set of rows usually is: beyond it the scale grows with the error of the median
/// set, as where constants of one's own are far off.
const USUAL: f64 = 0.08;
/// The number of devices, as a factor over the most measured, adds a scale for each e to the power of this.
const DEVICES: f64 = 4.0;
/// The most that the width of experts adds.
const WIDTH: f64 = 2.0;

/// The word of a kind of which some weights are frozen.
const FROZEN: &str = "frozen weights";

/// The words of a kind, as they are written.
#[derive(Clone, Copy, PartialEq, Eq)]
pub(super) struct Words<'a> {
    device: &'a str,
    experts: &'a str,
    software: &'a str,
    /// Whether some weights are frozen.
    frozen: bool,
    /// All of them.
    whole: &'a str,
}

impl<'a> Words<'a> {
    pub(super) fn of(kind: &'a str) -> Self {
        let words: Vec<&str> = kind.split(", ").collect();
        let at = |place: usize| words.get(place).copied().unwrap_or_default();
        // Without a word for the software, that for frozen weights stands in its place.
        let frozen = words.contains(&FROZEN);
        let software = Some(at(5)).filter(|word| *word != FROZEN).unwrap_or_default();
        Self { device: at(0), experts: at(3), software, frozen, whole: kind }
    }

    /// The generation of its devices, of those that were measured.
    fn generation(self) -> Option<&'static str> {
        let starts = |names: &[&str]| names.iter().any(|name| self.device.starts_with(name));
        [
            ("Ampere", &["A100"][..]),
            ("Hopper", &["H100", "H200", "H800", "GH200"]),
            ("Blackwell", &["B200", "B300", "GB200", "GB300"]),
        ]
        .into_iter()
        .find_map(|(name, devices)| starts(devices).then_some(name))
    }
}

/// Whether steps were measured on devices of the generation of `device`.
#[must_use]
pub fn is_measured(device: &str) -> bool {
    Words::of(device).generation().is_some()
}

/// Which measured steps tell the distance of a step, from the narrowest to the widest.
#[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Debug, Serialize)]
#[serde(rename_all = "snake_case")]
pub enum Level {
    /// Of its generation of devices, dense or with experts, and of its kind among them.
    Kind,
    /// Of its generation of devices, dense or with experts.
    Generation,
    /// Of its generation of devices.
    Devices,
}

impl Level {
    /// Properties that its rows share with the step, in words.
    pub(super) const fn words(self) -> &'static str {
        match self {
            Self::Kind => "of this kind and its like",
            Self::Generation => "of this generation of devices and model family",
            Self::Devices => "of this generation of devices",
        }
    }
}

/// Properties of a step beside its kind.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct Step {
    /// Tokens of a sequence.
    pub sequence: u64,
    pub devices: u64,
    /// The format of products.
    pub precision: Precision,
    /// The intermediate size of an expert; 0 of a dense model.
    pub expert_width: u64,
}

#[derive(Clone, PartialEq, Debug)]
pub(super) struct Pool<'a> {
    pub(super) level: Level,
    pub(super) sets: Vec<&'a SetErrors>,
}

impl<'a> Pool<'a> {
    /// The sets that tell the distance of a step of `kind`; `None` for devices of a generation of which nothing was
    /// measured.
    pub(super) fn of(kind: &str, sets: &'a [SetErrors]) -> Option<Self> {
        let own = Words::of(kind);
        let generation = own.generation()?;
        // Steps that train all weights are judged by such alone.
        let is_like = |other: Words<'_>| {
            other.generation() == Some(generation) && (own.frozen || !other.frozen)
        };
        let all: Vec<&SetErrors> = sets
            .iter()
            .filter(|set| set.configurations > 0 && is_like(Words::of(&set.kind)))
            .collect();
        let experts = |set: &&&SetErrors| Words::of(&set.kind).experts == own.experts;
        let alike: Vec<&SetErrors> = all.iter().filter(experts).copied().collect();
        let is_own = |set: &&SetErrors| Words::of(&set.kind) == own;
        let (level, sets) = match (alike.is_empty(), alike.iter().any(is_own)) {
            (true, _) => (Level::Devices, all),
            (false, true) => (Level::Kind, alike),
            (false, false) => (Level::Generation, alike),
        };
        (!sets.is_empty()).then_some(Self { level, sets })
    }

    pub(super) fn configurations(&self) -> usize {
        self.sets.iter().map(|set| set.configurations).sum()
    }

    /// Relative errors of a step of `kind` towards shorter and longer.
    pub(super) fn shares(&self, kind: &str, step: Step) -> [f64; 2] {
        let [below, above] = self.interval(kind, step);
        [1.0 - libm::exp(below), libm::exp(above) - 1.0]
    }

    /// How much longer than predicted a step of `kind` takes, as logarithms of its least and its longest time.
    pub(super) fn interval(&self, kind: &str, step: Step) -> [f64; 2] {
        let means: Vec<f64> = self.sets.iter().map(|set| set.mean).collect();
        let scale = SCALE * (accuracy::median(&means) / USUAL).max(1.0);
        let wide = WIDE * scale * libm::hypot(1.0, step.beyond(kind, self));
        [-wide, wide]
    }
}

impl Step {
    /// The step of `model` on so many devices.
    #[must_use]
    pub fn of(model: &Transformer, devices: u64, precision: Precision) -> Self {
        let expert_width = if model.experts.is_some() { model.ffn } else { 0 };
        Self { sequence: model.sequence, devices, precision, expert_width }
    }

    /// The distance of a step of `kind` from those of `pool`, in scales: software, a format, a model family or
    /// frozen weights that were not measured, a longer sequence, more devices, experts of another width.
    fn beyond(self, kind: &str, pool: &Pool<'_>) -> f64 {
        let own = Words::of(kind);
        let most =
            |of: fn(&SetErrors) -> u64| pool.sets.iter().map(|set| of(set)).max().unwrap_or(1);
        let times =
            |own: u64, other: u64| libm::log(plan::number(own) / plan::number(other.max(1)));
        let lacks = |has: &dyn Fn(&SetErrors) -> bool| !pool.sets.iter().any(|set| has(set));
        let has_software = |set: &SetErrors| Words::of(&set.kind).software == own.software;
        let has_format =
            |set: &SetErrors| set.precisions.split(' ').any(|one| one == self.precision.name());
        let unseen = [
            lacks(&has_software) || lacks(&has_format),
            lacks(&|set| Words::of(&set.kind).experts == own.experts),
            lacks(&|set| Words::of(&set.kind).frozen == own.frozen),
        ];
        let widths = pool.sets.iter().flat_map(|set| set.widths.split_whitespace());
        let nearest = widths.filter_map(|width| width.parse().ok());
        let nearest = nearest.map(|width| times(self.expert_width.max(1), width).abs());
        let width = match self.expert_width {
            0 => 0.0,
            _ => nearest.fold(f64::INFINITY, f64::min) - core::f64::consts::LN_2,
        };
        let far = [
            times(self.sequence, most(|set| set.sequence_most)).max(0.0),
            times(self.devices, most(|set| set.devices_most)).max(0.0) / DEVICES,
            width.clamp(0.0, WIDTH),
        ];
        let unseen = unseen.into_iter().filter(|lacks| *lacks).map(|_| 1.0);
        far.into_iter().chain(unseen).fold(0.0, libm::hypot)
    }
}
