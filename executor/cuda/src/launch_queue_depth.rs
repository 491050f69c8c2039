//! Bounds the depth of a GPU's launch queue: how far the host may run ahead.
//!
//! A stream's queue holds about a thousand launches; the next launch blocks, and with it other
//! threads in the driver. A host that waits earlier, for passes enqueued long before, delays no
//! other: passes end in the order of their launch, and none waits for a later one of its stage.
#![forbid(unsafe_code)]

use std::collections::VecDeque;

/// Most passes in the queue after the last one known to be done.
const PASSES: usize = 4;
/// Most launches in the queue, where passes have many: half of a stream's capacity.
const LAUNCHES: u64 = 512;

/// The enqueued passes of a step that are not known to be done.
#[derive(Debug, Default)]
pub(crate) struct LaunchQueueDepth {
    /// For each, the number of the timestamp at its end, and the launches up to there.
    ends: VecDeque<(usize, u64)>,
    /// Launches up to the last awaited end.
    done: u64,
}

impl LaunchQueueDepth {
    /// Records an enqueued pass that ends at timestamp number `stamp`, after `launches` launches in
    /// all.
    pub(crate) fn begun(&mut self, stamp: usize, launches: u64) {
        self.ends.push_back((stamp, launches));
    }

    /// The timestamp to wait for before the next pass may be enqueued, if any; to be called until
    /// it returns `None`. The last pass is never waited for: the GPU has work while the host
    /// enqueues more.
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

    /// Records that the queue is empty after `launches` launches in all.
    pub(crate) fn drained(&mut self, launches: u64) {
        self.ends.clear();
        self.done = launches;
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// The awaited timestamps while passes of `each` launches are enqueued.
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
