//! Jackson's preemptive schedule: the least by which jobs of one machine are late.
//!
//! Each job has a time before which it does not start, a time by which it is due, and a length. At any time
//! the machine works on the job that is due first of those that may start, and leaves it when one comes that is due
//! sooner. No schedule, interrupted or not, has a smaller greatest lateness: the latest job ends a
//! stretch of work on jobs due no later than it, before the first of which may start none of them could be
//! done. So passes fit their windows only if nothing is late here.

use std::cmp::Reverse;
use std::collections::BinaryHeap;

/// The greatest lateness in Jackson's schedule of jobs (start, due, length); below zero where all end sooner.
pub(super) fn lateness(mut jobs: Vec<(i64, i64, i64)>) -> i64 {
    jobs.sort_unstable();
    let mut open: BinaryHeap<Reverse<(i64, i64)>> = BinaryHeap::new();
    let (mut now, mut worst) = (i64::MIN, i64::MIN);
    let mut coming = jobs.into_iter().peekable();
    loop {
        if open.is_empty() {
            let Some((start, _, _)) = coming.peek() else { return worst };
            now = now.max(*start);
        }
        while let Some((_, due, length)) = coming.next_if(|(start, _, _)| *start <= now) {
            open.push(Reverse((due, length)));
        }
        let Some(Reverse((due, length))) = open.pop() else { continue };
        let until = coming.peek().map_or(i64::MAX, |(start, _, _)| *start);
        if length > until - now {
            open.push(Reverse((due, length - (until - now))));
            now = until;
        } else {
            now += length;
            worst = worst.max(now - due);
        }
    }
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;

    /// The greatest of soonest start, work and shortest time behind its due date over all sets of jobs.
    fn of_all_sets(jobs: &[(i64, i64, i64)]) -> i64 {
        let of_set = |set: u32| {
            let of = || jobs.iter().enumerate().filter(move |(at, _)| set >> at & 1 == 1);
            let start = of().map(|(_, job)| job.0).min().unwrap();
            let due = of().map(|(_, job)| job.1).max().unwrap();
            start + of().map(|(_, job)| job.2).sum::<i64>() - due
        };
        (1..1u32 << jobs.len()).map(of_set).max().unwrap()
    }

    proptest! {
        #[test]
        fn nothing_is_later_than_the_worst_set(
            jobs in prop::collection::vec((0..20i64, 0..30i64, 0..7i64), 1..8),
        ) {
            prop_assert_eq!(lateness(jobs.clone()), of_all_sets(&jobs));
        }
    }
}
