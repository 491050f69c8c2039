//! Costs of published schedules, each with the best of the choices that a joint search tries.

use pipeline::{Bytes, Family, Nanos};

use super::Choice;
use crate::start::Published;

/// A published schedule with the best of the choices with which it was timed.
#[derive(Clone, PartialEq, Eq, Debug)]
pub struct BestPublished {
    /// The family.
    pub family: Family,
    /// Its layers and chunks; all its chunks recompute the same part.
    pub choice: Choice,
    /// Its cost with that choice.
    pub cost: Nanos,
    /// The most that any stage holds of activations.
    pub peak: Bytes,
}

/// Updates `best`, which has one entry per family, with the better ones of `published`, timed with `choice`.
pub(super) fn keep(best: &mut Vec<BestPublished>, published: &[Published], choice: &Choice) {
    for &Published { family, cost, peak } in published {
        let one = || BestPublished { family, choice: choice.clone(), cost, peak };
        match best.iter_mut().find(|known| known.family == family) {
            Some(known) if (cost, peak) < (known.cost, known.peak) => *known = one(),
            Some(_) => {}
            None => best.push(one()),
        }
    }
}
