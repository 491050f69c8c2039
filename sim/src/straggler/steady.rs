//! Noise that does not depend on when work begins.

use super::key::Key;
use super::table::LawTable;
use super::{NOMINAL, Stragglers};

/// The parts of noise without a profile over time.
#[derive(Clone, Copy, Debug)]
pub(crate) struct SteadyNoise<'a> {
    stragglers: &'a Stragglers,
    /// The factors of passes, if they have any.
    pub(crate) passes: Option<&'a LawTable>,
    /// Those of hops.
    pub(crate) hops: Option<&'a LawTable>,
    /// Number of the 2^53 equally likely draws that stall, and for how many nanoseconds.
    pub(crate) stall: Option<(u64, u64)>,
}

impl Stragglers {
    /// This noise, unless it [depends on time](Self::depends_on_time).
    pub(crate) fn steady(&self) -> Option<SteadyNoise<'_>> {
        (!self.depends_on_time()).then(|| SteadyNoise {
            stragglers: self,
            passes: self.pass_jitter.as_ref().map(|factors| &factors.table),
            hops: self.hop_jitter.as_ref().map(|factors| &factors.table),
            stall: self.stall.map(|stall| (stall.threshold(), stall.length.0)),
        })
    }
}

impl SteadyNoise<'_> {
    /// The key of the first iteration of `replica`.
    pub(crate) fn key(&self, replica: u64) -> Key {
        Key::new(self.stragglers.seed, replica, 0)
    }

    /// What a pass of `nominal` nanoseconds takes on `stage` before its random factor.
    pub(crate) fn pass(&self, stage: usize, nominal: f64) -> f64 {
        nominal * self.stragglers.stages.get(stage).unwrap_or(&NOMINAL).factor
    }

    /// The same of a hop.
    pub(crate) fn hop(&self, from: usize, to: usize, nominal: f64) -> f64 {
        let link = self.stragglers.links.get(&(from.min(to), from.max(to)));
        nominal * link.unwrap_or(&NOMINAL).factor
    }
}
