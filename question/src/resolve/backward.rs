//! `backward`: B and W together, as profilers measure them. Alone it is split into the two; beside both it is the
//! time of a whole backward, which a trainer runs in less than B and W take one after the other.

use pipeline::Nanos;
use profile::AnyProfile;
use serde::Serialize;

use super::profiles;
use crate::diagnostic::Diagnostic;
use crate::format;
use crate::host::Context;
use crate::keys::Keys;
use crate::scenario::{Scenario, Setting};

/// How a backward pass is split into B and W.
#[derive(Clone, Copy, PartialEq, Debug)]
pub enum Split {
    /// B and W take the same: so they do where matrix products alone count, each of which has as many
    /// FLOPs in B as in W.
    Halves,
    /// By the FLOPs of a layer: b s h (24h + 8s) in B, where attention has all of its backward, and
    /// 24 b s h^2 in W (Zero Bubble, arXiv 2401.10241, section 2).
    Flops {
        /// Hidden size h.
        hidden: u64,
        /// Sequence length s.
        seq: u64,
    },
}

/// The split for programs.
#[derive(Serialize)]
pub struct SplitJson {
    /// The share of B in the backward pass.
    backward_input: f64,
    /// `flops` or `halves`.
    rule: &'static str,
}

impl Split {
    /// The split that `keys` ask for, if they give B and W only together.
    pub fn of(context: &Context<'_>, keys: &Keys) -> Result<Option<Self>, Diagnostic> {
        if keys.backward.is_none() || is_own(keys) {
            return Ok(None);
        }
        let profile = profiles::of(context, keys)?;
        let measured = profile.as_deref().and_then(AnyProfile::machine).map(|profile| {
            let model = profile.model.one_layer();
            (model.hidden() as u64, model.sequence() as u64)
        });
        let sizes = keys.hidden.zip(keys.seq).or(measured);
        let sizes = sizes.filter(|&(hidden, _)| hidden > 0);
        Ok(Some(sizes.map_or(Self::Halves, |(hidden, seq)| Self::Flops { hidden, seq })))
    }

    /// Numerator and denominator of the share of B.
    fn fraction(self) -> (u128, u128) {
        match self {
            Self::Halves => (1, 2),
            // (24h + 8s) / (48h + 8s)
            Self::Flops { hidden, seq } => {
                let (h, s) = (u128::from(hidden), u128::from(seq));
                (3 * h + s, 6 * h + s)
            }
        }
    }

    /// The share of B.
    #[allow(clippy::cast_precision_loss)]
    pub fn share(self) -> f64 {
        let (part, whole) = self.fraction();
        part as f64 / whole as f64
    }

    /// B and W of `backward`, to the nearest nanosecond: they add up to it.
    fn parts(self, backward: Nanos) -> [Nanos; 2] {
        let (part, whole) = self.fraction();
        // Times are at most 10^15 ns, and shares below 2^68.
        let input = (2 * u128::from(backward.0) * part + whole) / (2 * whole);
        let input = Nanos(u64::try_from(input).unwrap_or(u64::MAX)).min(backward);
        [input, backward - input]
    }

    /// The split for programs.
    pub fn json(self) -> SplitJson {
        let rule = match self {
            Self::Halves => "halves",
            Self::Flops { .. } => "flops",
        };
        SplitJson { backward_input: self.share(), rule }
    }

    /// How the split is made, in words.
    pub fn note(self) -> String {
        let share = format::percent(self.share());
        match self {
            Self::Halves => "backward is split into halves, B and W: give --hidden and --seq to \
                             split it by FLOPs, or --backward-input and --backward-weight as measured"
                .to_owned(),
            Self::Flops { hidden, seq } => format!(
                "backward is split by the FLOPs of a layer of hidden {hidden} and seq {seq}: {share} \
                 is B, the rest W; --backward-input and --backward-weight give them as measured"
            ),
        }
    }
}

/// Whether `keys` give a whole backward a time of its own, beside those of B and W.
pub fn is_own(keys: &Keys) -> bool {
    let (Some(both), Some(input), Some(weight)) =
        (&keys.backward, &keys.backward_input, &keys.backward_weight)
    else {
        return false;
    };
    let sums = input.iter().zip(weight).map(|(&input, &weight)| input + weight);
    both.len() != input.len() || input.len() != weight.len() || !sums.eq(both.iter().copied())
}

/// Gives `setting` B and W where it has only both together.
pub(super) fn resolve(
    context: &Context<'_>,
    scenario: &Scenario,
    setting: &mut Setting,
) -> Result<(), Diagnostic> {
    let keys = &setting.keys;
    let Some(backward) = &keys.backward else { return Ok(()) };
    let lacks = match (keys.backward_input.is_some(), keys.backward_weight.is_some()) {
        (true, true) => return Ok(()),
        (false, false) => None,
        (true, false) => Some("backward-weight"),
        (false, true) => Some("backward-input"),
    };
    if let Some(lacks) = lacks {
        let message = format!(
            "{lacks} is missing: with backward-input and backward-weight, backward is the time of a whole \
             backward"
        );
        let cure = format!("give {lacks} too, or backward alone");
        return Err(scenario.error(setting, Some("backward"), message).with_help(cure));
    }
    let Some(split) = Split::of(context, keys)? else { return Ok(()) };
    let parts = backward.iter().map(|&time| split.parts(time));
    let (input, weight) = parts.map(|[input, weight]| (input, weight)).unzip();
    (setting.keys.backward_input, setting.keys.backward_weight) = (Some(input), Some(weight));
    Ok(())
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    #[test]
    fn shares_are_those_of_the_flops() {
        assert!((Split::Halves.share() - 0.5).abs() < 1e-12);
        let (h, s) = (4096.0, 1024.0);
        let flops = Split::Flops { hidden: 4096, seq: 1024 };
        let expected = (24.0 * h + 8.0 * s) / (48.0 * h + 8.0 * s);
        assert!((flops.share() - expected).abs() < 1e-12);
        assert_eq!(Split::Halves.parts(Nanos(5)), [Nanos(3), Nanos(2)]);
    }

    proptest! {
        #[test]
        fn parts_add_up(time in 0..=1_000_000_000_000_000u64, hidden in 1u64.., seq: u64) {
            for split in [Split::Halves, Split::Flops { hidden, seq }] {
                let [input, weight] = split.parts(Nanos(time));
                prop_assert_eq!(input + weight, Nanos(time));
                prop_assert!(input >= weight);
            }
        }
    }
}
