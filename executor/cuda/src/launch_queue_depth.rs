//! How far the host may run ahead of a GPU.
//!
//! A stream holds about a thousand launches; the next one blocks, and with it whoever waits for the
//! driver. A host that waits before, for passes it began long ago, holds up nobody: passes end in
//! the order they were begun, and none waits for one that its stage begins later.
#![forbid(unsafe_code)]

use std::collections::VecDeque;

/// Passes begun behind the last one that is known to be done.
const PASSES: usize = 4;
/// Launches begun behind it, where passes are of many: half of what a stream holds.
const LAUNCHES: u64 = 512;

/// The passes of a step that are not known to be done.
#[derive(Debug, Default)]
pub(crate) struct LaunchQueueDepth {
    /// For each, the number of the stamp at its end, and the launches up to there.
    ends: VecDeque<(usize, u64)>,
    /// Launches up to the end that was waited for last.
    done: u64,
}

impl LaunchQueueDepth {
    /// A pass has been begun whose end is stamp number `stamp`, behind `launches` in all.
    pub(crate) fn begun(&mut self, stamp: usize, launches: u64) {
        self.ends.push_back((stamp, launches));
    }

    /// The stamp to wait for before the next pass may begin, if there is one; to be asked until there
    /// is none. The last pass is never waited for: the GPU has work while the host begins more.
    pub(crate) fn next(&mut self) -> Option<usize> {
        let &(_, launches) = self.ends.back()?;
        let too_far = self.ends.len() > PASSES || launches - self.done > LAUNCHES;
        if self.ends.len() < 2 || !too_far {
            return None;
        }
        let (stamp, launches) = self.ends.pop_front()?;
        self.done = launches;
        Some(stamp)
    }

    /// All is done, `launches` in all.
    pub(crate) fn drained(&mut self, launches: u64) {
        self.ends.clear();
        self.done = launches;
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// The stamps waited for while passes of so many launches are begun.
    fn waits(each: u64, passes: usize) -> Vec<Vec<usize>> {
        let mut depth = LaunchQueueDepth::default();
        let pass = |i: usize| {
            depth.begun(2 * i + 1, each * (i as u64 + 1));
            std::iter::from_fn(|| depth.next()).collect()
        };
        (0..passes).map(pass).collect()
    }

    #[test]
    fn four_short_passes_are_begun_before_the_first_must_be_done() {
        let none = Vec::new();
        assert_eq!(waits(10, 6), [&none[..], &none, &none, &none, &[1], &[3]]);
    }

    #[test]
    fn of_long_passes_fewer_are_begun_but_always_one_more() {
        assert_eq!(waits(200, 4), [vec![], vec![], vec![1], vec![3]]);
        assert_eq!(waits(5_000, 3), [vec![], vec![1], vec![3]]);
    }

    #[test]
    fn a_new_step_begins_with_nothing_ahead() {
        let mut depth = LaunchQueueDepth::default();
        (0..4).for_each(|i| depth.begun(2 * i + 1, 400));
        depth.drained(400);
        depth.begun(1, 700);
        depth.begun(3, 800);
        assert_eq!(depth.next(), None);
    }
}
