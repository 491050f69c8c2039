//! The set of slots whose times must be recomputed, taken in the order of time.
// Slots are fewer than `MAX_PASSES`.
#![allow(clippy::cast_possible_truncation)]

/// The direction in which the marked slots are taken.
#[derive(Clone, Copy, PartialEq, Eq)]
pub(crate) enum Toward {
    Begin,
    End,
}

/// A set of slots. They are taken in the order in which they were last sorted; changes since then
/// make it less good, not wrong.
pub(crate) struct Marks {
    /// The place of each slot.
    place: Vec<u32>,
    /// The slot at each place.
    slots: Vec<u32>,
    /// A bit for each place.
    words: Vec<u64>,
    /// All marked places are in the words from the first
    from: usize,
    /// to before the second.
    to: usize,
}

impl Marks {
    /// A set of `count` slots, none of them marked.
    pub(crate) fn new(count: usize) -> Self {
        let slots: Vec<u32> = (0..count as u32).collect();
        let words = vec![0; count.div_ceil(64)];
        Self { place: slots.clone(), slots, words, from: usize::MAX, to: 0 }
    }

    /// Sorts the slots, none of them marked.
    pub(crate) fn sort(&mut self, time: impl Fn(usize) -> i64) {
        self.slots.sort_unstable_by_key(|&slot| (time(slot as usize), slot));
        for (place, &slot) in self.slots.iter().enumerate() {
            self.place[slot as usize] = place as u32;
        }
    }

    #[inline]
    pub(crate) fn mark(&mut self, slot: usize) {
        let place = self.place[slot] as usize;
        let word = place / 64;
        self.words[word] |= 1 << (place % 64);
        self.from = self.from.min(word);
        self.to = self.to.max(word + 1);
    }

    /// Takes the first of the marked slots, or the last.
    #[inline]
    pub(crate) fn take(&mut self, toward: Toward) -> Option<usize> {
        while self.from < self.to {
            let word = if toward == Toward::End { self.from } else { self.to - 1 };
            let bits = self.words[word];
            if bits != 0 {
                let bit = match toward {
                    Toward::End => bits.trailing_zeros(),
                    Toward::Begin => 63 - bits.leading_zeros(),
                };
                self.words[word] &= !(1 << bit);
                return Some(self.slots[word * 64 + bit as usize] as usize);
            }
            match toward {
                Toward::End => self.from += 1,
                Toward::Begin => self.to -= 1,
            }
        }
        (self.from, self.to) = (usize::MAX, 0);
        None
    }

    pub(crate) fn clear(&mut self) {
        self.words.fill(0);
        (self.from, self.to) = (usize::MAX, 0);
    }
}
