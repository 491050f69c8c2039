//! How a figure of ours is held against a published one. A check stands with the published figure: it is a
//! constant of a table, or a line of the file of expected misses, and never sees ours.

use serde::Serialize;

/// The kind of evidence that a checked figure is.
#[derive(Serialize, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Debug)]
#[serde(rename_all = "kebab-case")]
pub enum Evidence {
    /// Published code or a published rule gives the figure: orders, bubbles, packings.
    Computed,
    /// A published formula gives it.
    ClosedForm,
    /// It was measured, and constants of ours were fitted to it.
    Fitted,
    /// It was measured, and no constant was fitted to it.
    HeldOut,
    /// It is a bound, or a range.
    Inequality,
}

impl Evidence {
    /// All kinds, in the order of totals.
    pub const ALL: [Self; 5] =
        [Self::Computed, Self::ClosedForm, Self::Fitted, Self::HeldOut, Self::Inequality];

    /// The kind in words.
    #[must_use]
    pub const fn name(self) -> &'static str {
        match self {
            Self::Computed => "computed: orders and packings",
            Self::ClosedForm => "closed form",
            Self::Fitted => "measured (in the fit)",
            Self::HeldOut => "measured (outside the fit)",
            Self::Inequality => "inequality",
        }
    }

    /// Measured, with constants fitted to it or not.
    pub(super) const fn measured(fitted: bool) -> Self {
        if fitted { Self::Fitted } else { Self::HeldOut }
    }
}

/// The share of a published gain by which a gain of ours may miss it.
const OF_A_GAIN: f64 = 0.15;
/// How far a figure of eight printed digits may be from the same figure of code that was run again.
const REGENERATED: f64 = 1e-8;

/// How ours is held against a published figure.
#[derive(Clone, Copy, PartialEq, Debug)]
pub(super) enum Check {
    /// Ours, rounded to the printed digits, is what was printed, and what the published code gives to
    /// eight digits where it was run again.
    Printed,
    /// Ours differs by at most so much, in the unit of the figure.
    Absolute(f64),
    /// Ours differs by at most this share of the published figure.
    Relative(f64),
    /// The same, beyond what rounding to the printed digits hides.
    BeyondRounding(f64),
    /// A gain differs by at most 15 % of the published gain, or by what rounding to the printed digits hides,
    /// whichever is wider.
    Gain,
    /// The same of a gain that is printed as a ratio, of which it is what exceeds 1.
    GainOfRatio,
    /// Ours is not above the published bound by more than this share of it.
    AtMost(f64),
    /// Ours is below the published bound.
    Below,
    /// Ours is above the published bound.
    Above,
    /// Ours is from `below` less to `above` more than the published figure, which is rounded or a mean.
    Between { below: f64, above: f64 },
    /// The figure is missed for a known reason: ours is `ours`, give or take `width`.
    ExpectedMiss { ours: f64, width: f64 },
    /// Nothing is claimed.
    NotChecked,
}

/// A published figure as checks see it.
#[derive(Clone, Copy, Debug)]
pub(super) struct Printed {
    pub(super) value: f64,
    /// The figures that are printed like it.
    pub(super) rounding: [f64; 2],
    /// The figure of published code that was run again.
    pub(super) regenerated: Option<f64>,
    /// The figure of no gain: 1 if the figure is a ratio.
    pub(super) base: f64,
}

impl Check {
    /// The least and the largest figure of ours that pass; none if nothing is checked.
    pub(super) fn range(self, printed: Printed) -> Option<[f64; 2]> {
        let Printed { value, rounding: [least, most], base, .. } = printed;
        let around = |tolerance: f64| [value - tolerance, value + tolerance];
        Some(match self {
            Self::Printed => {
                let [low, high] =
                    printed.regenerated.map_or([f64::NEG_INFINITY, f64::INFINITY], |one| {
                        [one - REGENERATED, one + REGENERATED]
                    });
                [least.max(low), most.min(high)]
            }
            Self::Absolute(tolerance) => around(tolerance),
            Self::Relative(share) => around(share * value.abs()),
            Self::BeyondRounding(share) => [least * (1.0 - share), most * (1.0 + share)],
            Self::Gain | Self::GainOfRatio => {
                let [low, high] = around(OF_A_GAIN * (value - base).abs());
                [low.min(least), high.max(most)]
            }
            Self::AtMost(share) => [f64::NEG_INFINITY, value + share * value.abs()],
            Self::Below => [f64::NEG_INFINITY, value.next_down()],
            Self::Above => [value.next_up(), f64::INFINITY],
            Self::Between { below, above } => [value - below, value + above],
            Self::ExpectedMiss { ours, width } => [ours - width, ours + width],
            Self::NotChecked => return None,
        })
    }

    pub(super) fn name(self) -> String {
        let percent = |share: f64| format!("{} %", round(100.0 * share));
        match self {
            Self::Printed => "printed digits".to_owned(),
            Self::Absolute(0.0) => "equal".to_owned(),
            Self::Absolute(tolerance) => format!("within {tolerance}"),
            Self::Relative(share) => format!("within {}", percent(share)),
            Self::BeyondRounding(0.0) => "printed digits".to_owned(),
            Self::BeyondRounding(share) => format!("within {} beyond rounding", percent(share)),
            Self::Gain | Self::GainOfRatio => {
                format!("gain within {} of itself or its digits", percent(OF_A_GAIN))
            }
            Self::AtMost(0.0) => "at most".to_owned(),
            Self::AtMost(share) => format!("at most {} above", percent(share)),
            Self::Below => "below".to_owned(),
            Self::Above => "above".to_owned(),
            Self::Between { below, above } => {
                format!("from {} less to {} more", round(below), round(above))
            }
            Self::ExpectedMiss { ours, width } => format!("expected miss, ours {ours} ± {width}"),
            Self::NotChecked => "not checked".to_owned(),
        }
    }
}

/// Without the digits that only binary fractions have.
fn round(figure: f64) -> f64 {
    (figure * 1e6).round() / 1e6
}

/// What came of a check.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum Verdict {
    /// Ours passes.
    Matched,
    /// Ours does not pass.
    Missed,
    /// Ours misses the published figure by as much as is expected.
    ExpectedMiss,
    /// Nothing was checked.
    NotChecked,
}

impl Verdict {
    /// The sign that stands between the published figure and ours in tables.
    pub(super) const fn sign(self) -> char {
        match self {
            Self::Matched => '=',
            Self::Missed => '!',
            Self::ExpectedMiss => '≠',
            Self::NotChecked => '|',
        }
    }

    /// The verdict in a word.
    #[must_use]
    pub const fn name(self) -> &'static str {
        match self {
            Self::Matched => "yes",
            Self::Missed => "no",
            Self::ExpectedMiss => "expected miss",
            Self::NotChecked => "not checked",
        }
    }

    /// Whether ours is the published figure; `None` where that is not claimed.
    #[must_use]
    pub const fn matches(self) -> Option<bool> {
        match self {
            Self::Matched => Some(true),
            Self::Missed => Some(false),
            Self::ExpectedMiss | Self::NotChecked => None,
        }
    }
}
