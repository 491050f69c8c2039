//! What is seen of one rank.

use pipeline::Kind;

use super::chain::Ends;
use super::passes::{self, Pass};
use super::{Observed, Span, device, sends};
use crate::error::NotInferred;

/// A rank with its passes by start.
pub(super) struct Rank {
    pub(super) number: u32,
    /// Its steps by start.
    pub(super) steps: Vec<(u64, Span)>,
    /// Its passes, and when each ran.
    pub(super) passes: Vec<(Pass, Span)>,
    /// Whether passes ran on a device, which does not wait for what the host does between them.
    pub(super) on_device: bool,
    pub(super) next: Option<u32>,
    pub(super) previous: Option<u32>,
    pub(super) base: u64,
}

impl Rank {
    pub(super) fn of(observed: Observed, at: u32) -> Result<Self, NotInferred> {
        let mut observed = observed;
        let number = observed.origin.number.unwrap_or(at);
        let found = sends::resolve(passes::of(&mut observed, number)?, number)?;
        if found.passes.is_empty() {
            return Err(NotInferred::NoAutograd { rank: number });
        }
        let times = device::times(&observed, &found.passes, number)?;
        let on_device = !observed.kernels.is_empty();
        let mut steps = observed.steps;
        steps.sort_unstable_by_key(|(number, span)| (*span, *number));
        let passes = found.passes.into_iter().zip(times).collect();
        let (next, previous) = (found.next, found.previous);
        Ok(Self { number, steps, passes, on_device, next, previous, base: observed.origin.base })
    }

    /// Whether values of `kind` do not leave it.
    pub(super) fn ends(&self, is_forward: bool) -> bool {
        let kind = |pass: &Pass| match is_forward {
            true => pass.kind == Kind::F,
            false => matches!(pass.kind, Kind::B | Kind::BW),
        };
        self.passes.iter().any(|(pass, _)| kind(pass) && !pass.sends)
    }

    /// Where the value of each forward pass comes from and goes to.
    pub(super) fn forwards(&self) -> Vec<Ends> {
        let forwards = self.passes.iter().filter(|(pass, _)| pass.kind == Kind::F);
        let mut all: Vec<Ends> =
            forwards.map(|(pass, _)| Ends { receives: false, sends: pass.sends }).collect();
        for (pass, _) in &self.passes {
            if matches!(pass.kind, Kind::B | Kind::BW) {
                all[pass.forward].receives = pass.sends;
            }
        }
        all
    }
}
