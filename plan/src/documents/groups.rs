//! Assignment of the documents of a step to devices, in context groups as large as their documents
//! need.
//!
//! As in Megatron-LM (`--hybrid-context-parallel`, later `--dynamic-context-parallel`), a document goes
//! to the fewest devices that hold it at a given number of tokens each, in powers of two. The longest
//! documents come first; each goes to the group with most capacity left, and where it fits into none a
//! new group begins. Groups of similar work form a microbatch, longest first, until all devices of the
//! data x context group have one; devices that are left join the group with most work.

use std::cmp::Reverse;
use std::collections::BinaryHeap;

use crate::model::number;

/// Devices that share documents in one microbatch.
#[derive(Clone, Copy, PartialEq, Debug)]
pub(super) struct Group {
    /// How many devices.
    pub(super) devices: u64,
    /// The tokens of all its documents.
    pub(super) tokens: u64,
    /// The pairs of a token and one up to it, within documents.
    pub(super) pairs: f64,
}

/// Pairs of a token and one up to it, of a document of `tokens` tokens.
pub(super) fn pairs(tokens: u64) -> f64 {
    number(tokens) * (number(tokens) + 1.0) / 2.0
}

/// The sizes that groups of `devices` devices may have: powers of two that divide them, and all.
pub(super) fn group_sizes(devices: u64) -> Vec<u64> {
    let powers = (0..64).map(|power| 1 << power).take_while(|size| *size < devices);
    powers.filter(|size| devices.is_multiple_of(*size)).chain([devices]).collect()
}

/// Assigns `documents`, the longest first, to groups of one of `sizes`, with `capacity` tokens per
/// device.
pub(super) fn groups(documents: &[u64], sizes: &[u64], capacity: u64) -> Vec<Group> {
    let mut all: Vec<Group> = Vec::new();
    let mut by_capacity_left: BinaryHeap<(u64, Reverse<usize>)> = BinaryHeap::new();
    let largest = sizes.last().copied().unwrap_or(1);
    for &tokens in documents {
        let fits = by_capacity_left.peek().is_some_and(|(left, _)| *left >= tokens);
        let (left, at) = match if fits { by_capacity_left.pop() } else { None } {
            Some((left, Reverse(at))) => (left, at),
            None => {
                let holds = |size: &u64| size.saturating_mul(capacity) >= tokens;
                let devices = sizes.iter().copied().find(holds).unwrap_or(largest);
                all.push(Group { devices, tokens: 0, pairs: 0.0 });
                (devices.saturating_mul(capacity), all.len() - 1)
            }
        };
        all[at].tokens += tokens;
        all[at].pairs += pairs(tokens);
        by_capacity_left.push((left.saturating_sub(tokens), Reverse(at)));
    }
    all
}

/// The groups of each microbatch, which together have all devices; a microbatch takes as long as the first
/// of its groups. `time` is how long one takes.
pub(super) fn microbatches(
    groups: Vec<Group>,
    sizes: &[u64],
    time: &impl Fn(&Group) -> u64,
) -> Vec<Vec<Group>> {
    let Some(&devices) = sizes.last() else { return Vec::new() };
    let mut by_size: Vec<Vec<(u64, Group)>> = vec![Vec::new(); sizes.len()];
    let mut left_over = groups.len();
    for group in groups {
        let at = sizes.partition_point(|size| *size < group.devices).min(sizes.len() - 1);
        by_size[at].push((time(&group), group));
    }
    // The longest of each size is the last.
    by_size.iter_mut().for_each(|all| all.sort_by_key(|(time, _)| *time));
    let mut microbatches = Vec::new();
    while left_over > 0 {
        let (mut left, mut own) = (devices, Vec::new());
        let longest = |by_size: &[Vec<(u64, Group)>], left: u64| {
            let fitting = (0..sizes.len()).filter(|at| sizes[*at] <= left);
            let timed = fitting.filter_map(|at| Some((by_size[at].last()?.0, at)));
            timed.max().map(|(_, at)| at)
        };
        while let Some(at) = longest(&by_size, left) {
            let Some((_, group)) = by_size[at].pop() else { break };
            left = left.saturating_sub(group.devices);
            left_over -= 1;
            own.push(group);
        }
        microbatches.push(widened(own, sizes, time));
    }
    microbatches
}

/// `groups` of a microbatch, the longest first; idle devices are added to the groups with most work.
fn widened(groups: Vec<Group>, sizes: &[u64], time: &impl Fn(&Group) -> u64) -> Vec<Group> {
    let taken: u64 = groups.iter().map(|group| group.devices).sum();
    let mut left = sizes.last().map_or(0, |devices| devices.saturating_sub(taken));
    let of = |group: &Group| sizes.iter().copied().find(|size| *size > group.devices);
    let mut groups = groups;
    let mut by_time: BinaryHeap<(u64, Reverse<usize>)> =
        groups.iter().enumerate().map(|(at, group)| (time(group), Reverse(at))).collect();
    while left > 0 {
        let Some((_, Reverse(at))) = by_time.pop() else { break };
        let more = of(&groups[at]).map(|size| size - groups[at].devices);
        let Some(more) = more.filter(|more| *more <= left) else { continue };
        groups[at].devices += more;
        left -= more;
        by_time.push((time(&groups[at]), Reverse(at)));
    }
    groups.sort_by_key(|group| Reverse(time(group)));
    groups
}

/// `microbatches` split into `count` of them, if they are fewer: of the shortest one with several
/// groups, half move to a microbatch of their own. A microbatch without documents takes no time.
pub(super) fn split(
    mut microbatches: Vec<Vec<Group>>,
    count: usize,
    sizes: &[u64],
    time: &impl Fn(&Group) -> u64,
) -> Vec<Vec<Group>> {
    while microbatches.len() < count {
        let Some(at) = microbatches.iter().rposition(|groups| groups.len() > 1) else {
            microbatches.resize(count, Vec::new());
            break;
        };
        let groups = microbatches.remove(at);
        let half = |odd: usize| {
            let own = groups.iter().skip(odd).step_by(2).copied();
            widened(own.collect(), sizes, time)
        };
        let halves = [half(0), half(1)];
        microbatches.splice(at..at, halves);
    }
    microbatches
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;

    /// The devices of a group share its tokens and pairs equally.
    fn time(group: &Group) -> u64 {
        let (tokens, devices) = (number(group.tokens), number(group.devices));
        crate::nanos((tokens + group.pairs / 100.0) / devices / 1e9).0
    }

    fn packed(mut documents: Vec<u64>, devices: u64, capacity: u64) -> Vec<Vec<Group>> {
        documents.sort_unstable_by_key(|one| Reverse(*one));
        let sizes = group_sizes(devices);
        microbatches(groups(&documents, &sizes, capacity), &sizes, &time)
    }

    #[test]
    fn groups_are_as_large_as_documents_need() {
        assert_eq!(group_sizes(8), [1, 2, 4, 8]);
        assert_eq!(group_sizes(6), [1, 2, 6]);
        assert_eq!(group_sizes(1), [1]);
        // At 100 tokens per device, 201 need four of eight; two of 100 and one of 150 have the other
        // four.
        let one = packed(vec![100, 150, 201, 100], 8, 100);
        let sizes: Vec<u64> = one[0].iter().map(|group| group.devices).collect();
        assert_eq!((one.len(), sizes.iter().sum::<u64>()), (1, 8), "{one:?}");
        assert!(one[0].iter().any(|group| group.devices == 4 && group.tokens >= 201));
    }

    #[test]
    fn one_long_document_has_all_devices_and_short_ones_one_each() {
        let alone = packed(vec![800], 8, 100);
        assert_eq!(alone, [[Group { devices: 8, tokens: 800, pairs: pairs(800) }]]);
        let short = packed(vec![100; 16], 8, 100);
        assert_eq!(short.len(), 2);
        assert!(short.iter().all(|one| one.len() == 8 && one.iter().all(|own| own.devices == 1)));
        // A single short one is shared by all, so that none is idle.
        assert_eq!(packed(vec![7], 8, 100)[0][0].devices, 8);
    }

    #[test]
    fn microbatches_are_split_until_there_are_enough() {
        let sizes = group_sizes(4);
        let more = split(packed(vec![100; 4], 4, 100), 3, &sizes, &time);
        assert_eq!(more.len(), 3);
        assert!(more.iter().all(|one| one.iter().map(|group| group.devices).sum::<u64>() == 4));
        assert_eq!(more.iter().flatten().map(|group| group.tokens).sum::<u64>(), 400);
        let few = split(packed(vec![100], 4, 100), 2, &sizes, &time);
        assert_eq!((few[0].len(), few[1].len()), (1, 0));
    }

    proptest! {
        #[test]
        fn every_document_is_in_one_group_and_no_device_holds_too_much(
            documents in prop::collection::vec(1u64..=800, 1..200),
            devices in prop::sample::select(vec![8u64, 12, 16, 24]),
        ) {
            let all = packed(documents.clone(), devices, 100);
            let groups = || all.iter().flatten();
            prop_assert_eq!(
                groups().map(|group| group.tokens).sum::<u64>(),
                documents.iter().sum::<u64>()
            );
            prop_assert!(groups().all(|group| group.tokens <= group.devices * 100));
            for own in &all {
                prop_assert!(own.iter().map(|group| group.devices).sum::<u64>() <= devices);
                prop_assert!(own.windows(2).all(|two| time(&two[0]) >= time(&two[1])));
            }
        }
    }
}
