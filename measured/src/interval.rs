//! The interval of a measured step, from the errors of predictions of other steps.
//!
//! A *score* is the logarithm of the measured over the predicted time of a configuration, the mean of its repeats.
//! Where constants were fitted to a source, its scores are those of a fit without it: a run of a user is of a source
//! of its own. Scores of the kind of a step are taken where there are enough, else those of wider pools
//! ([`Level`]). The interval is that of Student's t for one more configuration, with a scale for slower and one for
//! faster runs, since errors are not alike on both sides, and wider by what lies outside of the pool
//! ([`Step::beyond`]).

use plan::Precision;
use serde::Serialize;

use super::set_errors::SetErrors;

/// Configurations that suffice; with fewer a wider pool is taken.
const ENOUGH: usize = 8;
/// Configurations at the scale of both sides that the scale of one side is drawn to.
const DRAWN: f64 = 2.0;
/// Least scale: that of scores of different sources on one type of device, even where those of one
/// source agree better.
const LEAST: f64 = 0.082;
/// Scale that each doubling of sequences beyond those measured adds, in quadrature: an assumption,
/// about the error on the longest sequences measured.
const SEQUENCE: f64 = 0.03;
const DEVICES: f64 = 0.015;
/// Scale for a property that no row of the pool has: the type of device, the precision, the software,
/// dense layers or experts. Rows of a machine that was left out of the fit are 8 % off in the mean.
const UNSEEN: f64 = 0.08;

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

/// Which scores speak for a step, from the narrowest to the widest.
#[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Debug, Serialize)]
#[serde(rename_all = "snake_case")]
pub enum Level {
    /// Of its kind.
    Kind,
    /// Of its generation of devices, dense or with experts, by the same software.
    Generation,
    /// Dense or with experts, by the same software.
    Experts,
    /// By the same software.
    Software,
    /// Of all kinds.
    All,
}

impl Level {
    const ALL: [Self; 5] = [Self::Kind, Self::Generation, Self::Experts, Self::Software, Self::All];

    fn holds(self, own: Words<'_>, other: Words<'_>) -> bool {
        let software = own.software == other.software;
        let experts = own.experts == other.experts;
        // Steps that train all weights are told by such alone.
        if other.frozen && !own.frozen {
            return false;
        }
        match self {
            Self::Kind => own == other,
            Self::Generation => software && experts && own.generation() == other.generation(),
            Self::Experts => software && experts,
            Self::Software => software,
            Self::All => true,
        }
    }

    /// Properties that its rows share with the step, in words.
    pub(super) const fn words(self) -> &'static str {
        match self {
            Self::Kind => "of this kind",
            Self::Generation => "of this generation, model family and software",
            Self::Experts => "of this model family and software",
            Self::Software => "by this software",
            Self::All => "of all kinds",
        }
    }
}

/// Properties of a step beside its kind.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct Step {
    /// Tokens of a sequence.
    pub sequence: u64,
    /// Devices.
    pub devices: u64,
    /// The format of products.
    pub precision: Precision,
}

#[derive(Clone, PartialEq, Debug)]
pub(super) struct Pool<'a> {
    pub(super) level: Level,
    pub(super) sets: Vec<&'a SetErrors>,
}

impl<'a> Pool<'a> {
    /// The narrowest pool of `sets` with enough configurations for a step of `kind`, or all; `None` for devices of a
    /// generation of which nothing was measured.
    pub(super) fn of(kind: &str, sets: &'a [SetErrors]) -> Option<Self> {
        let own = Words::of(kind);
        own.generation()?;
        let at = |level: Level| {
            let is_held =
                |set: &&SetErrors| set.configurations > 0 && level.holds(own, Words::of(&set.kind));
            Self { level, sets: sets.iter().filter(is_held).collect() }
        };
        let pools = Level::ALL.into_iter().map(at);
        let mut known = pools.filter(|pool| !pool.sets.is_empty()).peekable();
        known.peek()?;
        let mut widest = None;
        for pool in known {
            if pool.configurations() >= ENOUGH {
                return Some(pool);
            }
            widest = Some(pool);
        }
        widest
    }

    pub(super) fn configurations(&self) -> usize {
        self.sets.iter().map(|set| set.configurations).sum()
    }

    /// The scale of scores below and above zero.
    fn scales(&self) -> [f64; 2] {
        let sum = |of: fn(&SetErrors) -> f64| self.sets.iter().map(|set| of(set)).sum::<f64>();
        let count = |rows: usize| plan::number(rows as u64);
        let above = sum(|set| plan::number(set.slower as u64) * set.above * set.above);
        let below = sum(|set| {
            plan::number((set.configurations - set.slower) as u64) * set.below * set.below
        });
        let slower = count(self.sets.iter().map(|set| set.slower).sum());
        let all = count(self.configurations());
        let both = (above + below) / all;
        let side =
            |squares: f64, rows: f64| ((squares + DRAWN * both) / (rows + DRAWN)).sqrt().max(LEAST);
        [side(below, all - slower), side(above, slower)]
    }

    /// Relative errors of a step of `kind` towards shorter and longer.
    pub(super) fn shares(&self, kind: &str, step: Step) -> [f64; 2] {
        let [below, above] = self.interval(kind, step);
        [1.0 - libm::exp(below), libm::exp(above) - 1.0]
    }

    /// How much longer than predicted a step of `kind` takes, as logarithms of its least and its longest time.
    pub(super) fn interval(&self, kind: &str, step: Step) -> [f64; 2] {
        let count = plan::number(self.configurations() as u64);
        let beyond = step.beyond(kind, self);
        let wide = quantile(count - 1.0) * (1.0 + 1.0 / count).sqrt();
        let [below, above] = self.scales().map(|scale| wide * libm::hypot(scale, beyond));
        [-below, above]
    }
}

impl Step {
    /// Scale for the properties of a step of `kind` that `pool` does not have.
    fn beyond(self, kind: &str, pool: &Pool<'_>) -> f64 {
        let most =
            |of: fn(&SetErrors) -> u64| pool.sets.iter().map(|set| of(set)).max().unwrap_or(1);
        let doublings = |own: u64, most: u64| {
            libm::log2(plan::number(own) / plan::number(most.max(1))).max(0.0)
        };
        let own = Words::of(kind);
        let lacks = |has: &dyn Fn(&SetErrors) -> bool| !pool.sets.iter().any(|set| has(set));
        let unseen = [
            lacks(&|set| Words::of(&set.kind).device == own.device),
            lacks(&|set| Words::of(&set.kind).experts == own.experts),
            lacks(&|set| Words::of(&set.kind).software == own.software),
            lacks(&|set| set.precisions.split(' ').any(|one| one == self.precision.name())),
        ];
        let unseen = unseen.into_iter().filter(|lacks| *lacks).map(|_| UNSEEN);
        let far = [
            SEQUENCE * doublings(self.sequence, most(|set| set.sequence_most)),
            DEVICES * doublings(self.devices, most(|set| set.devices_most)),
        ];
        far.into_iter().chain(unseen).fold(0.0, libm::hypot)
    }
}

/// 97.5th percentile of the standard normal distribution.
const NORMAL: f64 = 1.959_964;

/// 97.5th percentile of Student's t with `freedom` degrees of freedom: Cornish and Fisher's expansion
/// (Abramowitz and Stegun 26.7.5), from the quantile of the normal distribution. Fewer than three
/// degrees count as three.
fn quantile(freedom: f64) -> f64 {
    let (z, n) = (NORMAL, freedom.max(3.0));
    let [z3, z5, z7] = [z.powi(3), z.powi(5), z.powi(7)];
    z + (z3 + z) / (4.0 * n)
        + (5.0 * z5 + 16.0 * z3 + 3.0 * z) / (96.0 * n * n)
        + (3.0 * z7 + 19.0 * z5 + 17.0 * z3 - 15.0 * z) / (384.0 * n * n * n)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn quantiles_are_those_of_tables() {
        for (freedom, expected) in [(3.0, 3.182), (5.0, 2.571), (10.0, 2.228), (30.0, 2.042)] {
            let found = quantile(freedom);
            assert!((found / expected - 1.0).abs() < 0.01, "{freedom}: {found}");
        }
    }
}
