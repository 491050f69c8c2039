//! What a stage can hold at the start of a pass, where of each lane it is known between which counts
//! of passes have run before.

/// The fewest and the most passes of one lane before some pass.
pub(crate) type Range = [usize; 2];

/// The least memory of one chunk, with `sizes` of what F takes, what R takes, and M_W, where the counts of its F, B, W and
/// R lie in `counts`. There are never more B than F or R, or more W than B.
///
/// For a count of B the best counts of the others are the nearest to it. Between the breakpoints, where
/// these leave it, the memory is linear in the count of B: so it is least at one of them or at an end.
pub(crate) fn least([kept, rest, waiting]: [i64; 3], counts: [Range; 4]) -> i64 {
    let [[forwards, _], [low, high], [_, weights], [again, _]] = counts;
    let held = |backwards: usize| {
        let active = forwards.max(backwards) - backwards;
        kept * count(active) + waiting * count(backwards - weights.min(backwards))
    };
    let breaks = [low, high, forwards.clamp(low, high), weights.clamp(low, high)];
    if rest == 0 {
        return breaks.into_iter().map(held).min().unwrap_or(0);
    }
    let with_rest =
        |backwards: usize| held(backwards) + rest * count(again.max(backwards) - backwards);
    let breaks = breaks.into_iter().chain([again.clamp(low, high)]);
    breaks.map(with_rest).min().unwrap_or(0)
}

/// The counts that remain where the chunk may hold no more than `room`: fewer F, R and B, or more B and W,
/// whichever of them memory asks for. Something is left: `room` is no less than [`least`].
pub(crate) fn fitting(sizes: [i64; 3], counts: [Range; 4], room: i64) -> [Range; 4] {
    let fits = |lane: usize, at: usize, count: usize| {
        let mut fixed = counts;
        fixed[lane][at] = count;
        least(sizes, fixed) <= room
    };
    let mut left = counts;
    // At least so many: with no more than one less, too much is held.
    for lane in [1, 2] {
        while left[lane][0] < left[lane][1] && !fits(lane, 1, left[lane][0]) {
            left[lane][0] += 1;
        }
    }
    // At most so many: with no fewer, too much is held.
    for lane in [0, 1, 3] {
        while left[lane][1] > left[lane][0] && !fits(lane, 0, left[lane][1]) {
            left[lane][1] -= 1;
        }
    }
    left
}

fn count(passes: usize) -> i64 {
    i64::try_from(passes).unwrap_or(i64::MAX)
}
