//! The order of passes on one stage.

use crate::pass::{Pass, Slot};

/// The slots of one stage, first to last, packed as passes; pairs are kept aside.
#[derive(Clone, PartialEq, Eq, Default, Debug)]
pub struct Order {
    passes: Vec<Pass>,
    /// Ascending positions in `passes` of the first pass of each pair.
    pairs: Vec<usize>,
}

impl Order {
    /// An empty order with room for `passes` passes.
    #[must_use]
    pub fn with_capacity(passes: usize) -> Self {
        Self { passes: Vec::with_capacity(passes), pairs: Vec::new() }
    }

    /// Adds a slot at the end.
    #[inline]
    pub fn push(&mut self, slot: impl Into<Slot>) {
        match slot.into() {
            Slot::One(pass) => self.passes.push(pass),
            Slot::Pair(first, second) => {
                self.pairs.push(self.passes.len());
                self.passes.extend([first, second]);
            }
        }
    }

    /// All passes in order, the two of a pair one after the other.
    #[inline]
    #[must_use]
    pub fn passes(&self) -> &[Pass] {
        &self.passes
    }

    /// Ascending positions in [`Self::passes`] of the first pass of each pair.
    #[inline]
    #[must_use]
    pub fn pairs(&self) -> &[usize] {
        &self.pairs
    }

    /// Whether every slot is a single pass.
    #[must_use]
    pub fn is_unpaired(&self) -> bool {
        self.pairs.is_empty()
    }

    /// The slot that begins at position `at` of [`Self::passes`].
    ///
    /// # Panics
    /// Past the end.
    #[inline]
    #[must_use]
    pub fn slot_at(&self, at: usize) -> Slot {
        match self.is_pair(at) {
            true => Slot::Pair(self.passes[at], self.passes[at + 1]),
            false => Slot::One(self.passes[at]),
        }
    }

    /// Whether the slot that begins at position `at` is a pair.
    #[inline]
    pub(crate) fn is_pair(&self, at: usize) -> bool {
        !self.pairs.is_empty() && self.pairs.binary_search(&at).is_ok()
    }

    /// All slots in order.
    #[inline]
    pub fn slots(&self) -> impl Iterator<Item = Slot> {
        self.slots_from(0)
    }

    /// The slots from the one on that begins at position `at` of [`Self::passes`].
    #[inline]
    pub fn slots_from(&self, mut at: usize) -> impl Iterator<Item = Slot> {
        std::iter::from_fn(move || {
            let slot = (at < self.passes.len()).then(|| self.slot_at(at))?;
            at += slot.passes().count();
            Some(slot)
        })
    }
}

impl<S: Into<Slot>> FromIterator<S> for Order {
    fn from_iter<I: IntoIterator<Item = S>>(slots: I) -> Self {
        let mut order = Self::default();
        slots.into_iter().for_each(|slot| order.push(slot));
        order
    }
}
