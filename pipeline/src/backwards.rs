//! Schedules whose backwards are split, or made whole.

use crate::fault::Fault;
use crate::order::Order;
use crate::pass::{Kind, Pass, Slot};
use crate::schedule::Schedule;

impl Schedule {
    /// The same order with every whole backward as B and, right behind it, W, and the passes of a pair one after
    /// the other; it copies nothing to the host.
    ///
    /// # Errors
    /// None, as long as `self` is valid.
    pub fn split(&self) -> Result<Self, Fault> {
        self.with_passes(|passes| {
            let parts = |pass: &Pass| match pass.kind {
                Kind::BW => {
                    [Some(Pass { kind: Kind::B, ..*pass }), Some(Pass { kind: Kind::W, ..*pass })]
                }
                _ => [Some(*pass), None],
            };
            passes.iter().flat_map(parts).flatten().collect()
        })
    }

    /// The same order with every B whose W follows at once as a whole backward; pairs are put one after the other, and
    /// nothing is copied to the host.
    ///
    /// # Errors
    /// None, as long as `self` is valid.
    pub fn whole(&self) -> Result<Self, Fault> {
        self.with_passes(|passes| {
            let mut whole: Vec<Pass> = Vec::with_capacity(passes.len());
            for &pass in passes {
                let own = Pass { kind: Kind::B, ..pass };
                match whole.last_mut() {
                    Some(last) if pass.kind == Kind::W && *last == own => last.kind = Kind::BW,
                    _ => whole.push(pass),
                }
            }
            whole
        })
    }

    fn with_passes(&self, change: impl Fn(&[Pass]) -> Vec<Pass>) -> Result<Self, Fault> {
        let order = |order: &Order| change(order.passes()).into_iter().map(Slot::One).collect();
        Self::new(self.shape(), self.placement(), self.orders().iter().map(order).collect())
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn backwards_are_split_and_made_whole() {
        let mixed: Schedule = "F0.0 F0.1 BW0.0 B0.1 W0.1".parse().unwrap();
        assert_eq!(mixed.split().unwrap().to_string(), "F0.0 F0.1 B0.0 W0.0 B0.1 W0.1\n");
        assert_eq!(mixed.whole().unwrap().to_string(), "F0.0 F0.1 BW0.0 BW0.1\n");
        let apart: Schedule = "F0.0 F0.1 B0.0 B0.1 W0.0 W0.1".parse().unwrap();
        assert_eq!(apart.whole().unwrap(), apart);
    }
}
