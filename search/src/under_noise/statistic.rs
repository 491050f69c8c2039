//! Objectives of a search under noise: statistics of the step times.
// Rounding of times does not matter to a search.
#![allow(clippy::cast_precision_loss, clippy::cast_possible_truncation, clippy::cast_sign_loss)]

use super::draws::Lot;

/// The figure of the distribution of step times that a search under noise makes small.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum Statistic {
    /// The mean.
    Mean,
    /// The time that 95 % of the steps do not exceed.
    P95,
    /// The time that 99 % of the steps do not exceed.
    P99,
}

impl Statistic {
    /// The share of steps that do not exceed it; nothing for the mean.
    #[must_use]
    pub const fn share(self) -> Option<f64> {
        match self {
            Self::Mean => None,
            Self::P95 => Some(0.95),
            Self::P99 => Some(0.99),
        }
    }

    /// How many of a hundred steps exceed it; nothing for the mean.
    const fn beyond(self) -> Option<usize> {
        match self {
            Self::Mean => None,
            Self::P95 => Some(5),
            Self::P99 => Some(1),
        }
    }

    /// The fewest replicas that tell it: a mean has an interval from 5 on, and a percentile lies below the
    /// largest of them.
    #[must_use]
    pub const fn fewest(self) -> u64 {
        match self {
            Self::Mean => 5,
            Self::P95 => 20,
            Self::P99 => 100,
        }
    }

    /// The statistic of `times`, which are sorted.
    #[must_use]
    pub fn of(self, times: &[u64]) -> f64 {
        let Some(share) = self.share() else {
            return times.iter().map(|&time| time as f64).sum::<f64>() / times.len().max(1) as f64;
        };
        let rank = (share * times.len() as f64).ceil() as usize;
        times.get(rank.clamp(1, times.len().max(1)) - 1).map_or(0.0, |&time| time as f64)
    }

    /// Energy of the local search, a smooth proxy of the statistic over replicas in blocks: the mean itself; of a
    /// percentile the mean of the times around it, from twice as far from the end to half as far, since a single
    /// order statistic jumps from order to order.
    pub(super) fn energy(self, blocks: &[Lot], sorted: &mut Vec<i64>) -> f64 {
        let count = blocks.len() * blocks[0].len();
        let Some(beyond) = self.beyond() else {
            return blocks.iter().flatten().sum::<f64>() / count as f64;
        };
        sorted.clear();
        sorted.extend(blocks.iter().flatten().map(|&time| time as i64));
        let above = count - (2 * beyond * count).div_ceil(100);
        let below = (count - beyond * count / 200).max(above + 1);
        let (_, _, rest) = sorted.select_nth_unstable(above);
        rest.sort_unstable();
        let window = &sorted[above..below];
        window.iter().map(|&time| time as f64).sum::<f64>() / window.len() as f64
    }

    /// Number of `replicas`, the longest steps first, on which the statistic depends.
    pub(super) fn counted(self, replicas: usize) -> usize {
        self.beyond().map_or(replicas, |beyond| (4 * beyond * replicas).div_ceil(100))
    }
}
