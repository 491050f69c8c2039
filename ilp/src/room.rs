//! What a stage can hold at the start of a pass, where of each lane it is known between which counts
//! of passes have run before.

/// The fewest and the most passes of one lane before some pass.
pub(crate) type Range = [usize; 2];

/// The least memory of one chunk, with `size` of M_B and M_W, where the counts of its F, B and W
/// lie in `counts`. There are never more B than F, or more W than B.
///
/// For a count of B the best counts of F and W are the nearest to it. Between the breakpoints, where
/// these leave it, the memory is linear in the count of B: so it is least at one of them or at an end.
pub(crate) fn least([most, rest]: [i64; 2], counts: [Range; 3]) -> i64 {
    let [[forwards, _], [low, high], [_, weights]] = counts;
    let held = |backwards: usize| {
        let activations = forwards.max(backwards) - backwards;
        most * count(activations) + rest * count(backwards - weights.min(backwards))
    };
    let candidates = [low, high, forwards.clamp(low, high), weights.clamp(low, high)];
    candidates.into_iter().map(held).min().unwrap_or(0)
}

/// The counts that remain where the chunk may hold no more than `room`: fewer F and B, or more B and W,
/// whichever of them memory asks for. Something is left: `room` is no less than [`least`].
pub(crate) fn fitting(size: [i64; 2], counts: [Range; 3], room: i64) -> [Range; 3] {
    let fits = |lane: usize, at: usize, count: usize| {
        let mut fixed = counts;
        fixed[lane][at] = count;
        least(size, fixed) <= room
    };
    let mut left = counts;
    // At least so many: with no more than one less, too much is held.
    for lane in [1, 2] {
        while left[lane][0] < left[lane][1] && !fits(lane, 1, left[lane][0]) {
            left[lane][0] += 1;
        }
    }
    // At most so many: with no fewer, too much is held.
    for lane in [0, 1] {
        while left[lane][1] > left[lane][0] && !fits(lane, 0, left[lane][1]) {
            left[lane][1] -= 1;
        }
    }
    left
}

fn count(passes: usize) -> i64 {
    i64::try_from(passes).unwrap_or(i64::MAX)
}
