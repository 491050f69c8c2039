//! Chunk and microbatch of each forward pass, along the values that go from rank to rank.
//!
//! A value that a rank sends is used by the next one in the order in which it was sent. A forward pass that receives
//! none has chunk 0, and those have the microbatches in their order; one whose value is received has the next chunk of
//! the same microbatch. A forward pass receives a value if its backward pass sends a gradient.

use std::collections::VecDeque;

/// Whether a forward pass receives a value from another rank, and sends one.
#[derive(Clone, Copy, Debug)]
pub(super) struct Ends {
    pub(super) receives: bool,
    pub(super) sends: bool,
}

/// Chunk and microbatch.
pub(super) type Place = (u16, u32);

/// The places of the forward passes of each rank in one step: `ranks` are the stages in order, and have their passes
/// in order. None if they are not a pipeline whose stages hold chunks in turn.
pub(super) fn places(ranks: &[Vec<Ends>]) -> Option<Vec<Vec<Place>>> {
    let stages = ranks.len();
    let mut places: Vec<Vec<Option<Place>>> =
        ranks.iter().map(|all| vec![None; all.len()]).collect();
    // For each rank, the passes that receive a value; for each, those that send one to it.
    let of = |rank: usize, is: fn(&Ends) -> bool| {
        let all = ranks[rank].iter().enumerate();
        all.filter(move |(_, one)| is(one)).map(|(at, _)| at).collect::<Vec<usize>>()
    };
    let receivers: Vec<Vec<usize>> = (0..stages).map(|rank| of(rank, |one| one.receives)).collect();
    let mut ready: VecDeque<(usize, usize, Place)> = VecDeque::new();
    for (rank, all) in ranks.iter().enumerate() {
        for (microbatch, at) in (0u32..).zip(of(rank, |one| !one.receives)) {
            if rank > 0 {
                return None;
            }
            ready.push_back((rank, at, (0, microbatch)));
        }
        let sent = all.iter().filter(|one| one.sends).count();
        if sent != receivers[(rank + 1) % stages].len() {
            return None;
        }
    }
    let microbatches = ready.len();
    let senders: Vec<Vec<usize>> = (0..stages).map(|rank| of(rank, |one| one.sends)).collect();
    let mut ends = Vec::new();
    while let Some((rank, at, place)) = ready.pop_front() {
        if places[rank][at].replace(place).is_some() {
            return None;
        }
        let Ok(number) = senders[rank].binary_search(&at) else {
            ends.push((rank, place.0));
            continue;
        };
        let next = (rank + 1) % stages;
        ready.push_back((next, receivers[next][number], (place.0.checked_add(1)?, place.1)));
    }
    let is_last = |(rank, chunk): &(usize, u16)| *rank + 1 == stages && *chunk == ends[0].1;
    let whole = !ends.is_empty() && ends.len() == microbatches && ends.iter().all(is_last);
    let places: Option<Vec<Vec<Place>>> =
        places.into_iter().map(|all| all.into_iter().collect()).collect();
    places.filter(|_| whole)
}

/// Whether gradients are received in the order in which they are sent. `backwards` are the places of the backward
/// passes of each rank in order, with whether each receives a gradient, and sends one.
pub(super) fn gradients_agree(backwards: &[Vec<(Place, Ends)>]) -> bool {
    let stages = backwards.len();
    (0..stages).all(|rank| {
        let sent = backwards[(rank + 1) % stages].iter().filter(|(_, ends)| ends.sends);
        let received = backwards[rank].iter().filter(|(_, ends)| ends.receives);
        let received =
            received.map(|((chunk, microbatch), _)| (chunk.wrapping_add(1), *microbatch));
        sent.map(|(place, _)| *place).eq(received)
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    const FIRST: Ends = Ends { receives: false, sends: true };
    const MIDDLE: Ends = Ends { receives: true, sends: true };
    const LAST: Ends = Ends { receives: true, sends: false };

    #[test]
    fn chunks_in_turn() {
        let plain = [vec![FIRST, FIRST], vec![LAST, LAST]];
        let expected = vec![vec![(0, 0), (0, 1)], vec![(1, 0), (1, 1)]];
        assert_eq!(places(&plain), Some(expected));
        // Two chunks each: both microbatches of one, then of the other.
        let turns = [vec![FIRST, FIRST, MIDDLE, MIDDLE], vec![MIDDLE, MIDDLE, LAST, LAST]];
        let expected =
            vec![vec![(0, 0), (0, 1), (2, 0), (2, 1)], vec![(1, 0), (1, 1), (3, 0), (3, 1)]];
        assert_eq!(places(&turns), Some(expected));
    }

    #[test]
    fn what_is_no_pipeline_has_no_places() {
        assert_eq!(places(&[]), None);
        assert_eq!(places(&[vec![], vec![]]), None);
        assert_eq!(places(&[vec![FIRST], vec![LAST, LAST]]), None);
        assert_eq!(places(&[vec![FIRST], vec![FIRST]]), None);
        assert_eq!(places(&[vec![MIDDLE], vec![MIDDLE]]), None);
        assert_eq!(places(&[vec![FIRST, MIDDLE], vec![LAST, MIDDLE]]), None);
        // It returns the way that it came.
        assert_eq!(places(&[vec![FIRST, LAST], vec![MIDDLE]]), None);
    }

    #[test]
    fn gradients_of_other_microbatches_disagree() {
        let first = |microbatch| ((0, microbatch), Ends { receives: true, sends: false });
        let last = |microbatch| ((1, microbatch), Ends { receives: false, sends: true });
        assert!(gradients_agree(&[vec![first(0), first(1)], vec![last(0), last(1)]]));
        assert!(!gradients_agree(&[vec![first(1), first(0)], vec![last(0), last(1)]]));
        assert!(!gradients_agree(&[vec![first(0)], vec![last(0), last(1)]]));
    }
}
