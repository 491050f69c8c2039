//! Bounds on the memory of a stage at the start of a pass, from ranges of the number of passes of each lane that run
//! before it.

/// The fewest and the most passes of one lane before some pass.
pub(crate) type Range = [usize; 2];

/// The least memory of one chunk, where F allocates `kept`, R allocates `rest` and M_W is `waiting`, over the counts of
/// its F, B, W and R that lie in `counts`. There are never more B than F or R, or more W than B.
///
/// For a count of B the best counts of the other kinds are the nearest to it. Between the breakpoints, where
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

/// The ranges of counts with which the chunk can hold no more than `room`: upper bounds of F, R and B, and lower bounds
/// of B and W, tightened as memory requires. None becomes empty: `room` is no less than [`least`].
pub(crate) fn fitting(sizes: [i64; 3], counts: [Range; 4], room: i64) -> [Range; 4] {
    let fits = |lane: usize, at: usize, count: usize| {
        let mut fixed = counts;
        fixed[lane][at] = count;
        least(sizes, fixed) <= room
    };
    let mut left = counts;
    // Lower bounds: with one less, the limit is exceeded.
    for lane in [1, 2] {
        while left[lane][0] < left[lane][1] && !fits(lane, 1, left[lane][0]) {
            left[lane][0] += 1;
        }
    }
    // Upper bounds: with no fewer, the limit is exceeded.
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
