//! Cuts a set of costs into parts of nearly equal sums.
//!
//! The rule is that of ODC (arXiv 2601.19362): the largest differencing method (Karmarkar and Karp,
//! 1982), then swaps of two items while one brings the largest or the smallest part closer to the
//! others. Ties are settled by the items' numbers, so a set of costs has one result.

mod differencing;
mod swaps;

/// Item numbers, by part.
pub(crate) type Parts = Vec<Vec<u32>>;

/// Whether parts must hold equally many items.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(crate) enum Counts {
    /// Equally many; the number of parts divides that of the items.
    Equal,
    /// As the sums have it, but at least one.
    Free,
}

/// `parts` parts of `costs`, largest sum first, the items of each ascending.
///
/// There must be at least as many items as parts, and at least one part. Parts of free counts are
/// compared with those of equal counts, where there are such, and the smaller spread is taken.
pub(crate) fn balanced(costs: &[f64], parts: usize, counts: Counts) -> Parts {
    let cut = |counts| swaps::balance(costs, differencing::parts(costs, parts, counts));
    let mut best = cut(counts);
    if counts == Counts::Free && costs.len().is_multiple_of(parts) {
        let equal = cut(Counts::Equal);
        if spread(costs, &best) > spread(costs, &equal) {
            best = equal;
        }
    }
    for part in &mut best {
        part.sort_unstable();
    }
    best
}

/// `parts` parts of `costs` of nearly equal sums, each with the numbers of its items, ascending; nothing where there are
/// fewer items than parts, or no part.
#[must_use]
pub fn equal_parts(costs: &[f64], parts: usize) -> Vec<Vec<u32>> {
    match (1..=costs.len()).contains(&parts) {
        true => balanced(costs, parts, Counts::Free),
        false => Vec::new(),
    }
}

/// The sum of the costs of `items`, added up in their order.
pub(crate) fn sum(costs: &[f64], items: &[u32]) -> f64 {
    items.iter().fold(0.0, |sum, &item| sum + costs[item as usize])
}

/// Largest minus smallest sum.
fn spread(costs: &[f64], parts: &Parts) -> f64 {
    let sums = || parts.iter().map(|part| sum(costs, part));
    sums().fold(f64::NEG_INFINITY, f64::max) - sums().fold(f64::INFINITY, f64::min)
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    #[test]
    fn the_textbook_example() {
        // 8 7 6 5 4 in two parts: differencing finds 16 and 14, a swap (8 for 7) evens them out.
        let parts = balanced(&[8.0, 7.0, 6.0, 5.0, 4.0], 2, Counts::Free);
        let mut sums: Vec<f64> = parts
            .iter()
            .map(|part| part.iter().map(|&i| [8.0, 7.0, 6.0, 5.0, 4.0][i as usize]).sum())
            .collect();
        sums.sort_by(f64::total_cmp);
        assert_eq!(sums, [15.0, 15.0]);
    }

    proptest! {
        #[test]
        fn every_item_is_in_one_part(
            lengths in prop::collection::vec(1..60_000u32, 1..80),
            parts in 1..12usize,
            equal: bool,
        ) {
            let costs: Vec<f64> = lengths.iter().map(|&length| f64::from(length)).collect();
            let parts = parts.min(costs.len());
            let counts = if equal { Counts::Equal } else { Counts::Free };
            prop_assume!(!equal || costs.len().is_multiple_of(parts));
            let cut = balanced(&costs, parts, counts);
            prop_assert_eq!(cut.len(), parts);
            let mut seen: Vec<u32> = cut.iter().flatten().copied().collect();
            seen.sort_unstable();
            prop_assert!(seen.iter().copied().eq(0..u32::try_from(costs.len()).unwrap()));
            prop_assert!(cut.iter().all(|part| !part.is_empty()));
            prop_assert!(!equal || cut.iter().all(|part| part.len() == costs.len() / parts));
            prop_assert!(cut.windows(2).all(|two| sum(&costs, &two[0]) >= sum(&costs, &two[1])));
        }

        /// No part is off the mean by more than the largest item.
        #[test]
        fn parts_are_balanced(lengths in prop::collection::vec(1..60_000u32, 8..80)) {
            let costs: Vec<f64> = lengths.iter().map(|&length| f64::from(length)).collect();
            let largest = costs.iter().copied().fold(0.0, f64::max);
            prop_assert!(spread(&costs, &balanced(&costs, 4, Counts::Free)) <= largest);
        }
    }
}
