//! The argument of meetings: where the first stage has room for exactly K microbatches, each of them waits, or the next
//! round begins late on the last stage.

use std::collections::BTreeSet;

use crate::critical_path::Pipe;
use crate::cycles::{self, TooMany};

/// The most stages: each pair of them is kept.
const MOST_STAGES: usize = 1024;

/// From the first F of the first stage to its last pass, at the least; `None` where a stage has more chunks, the first one
/// recomputes, or a W can wait beside as many microbatches as fit.
pub(crate) fn span(pipe: &Pipe) -> Result<Option<i128>, TooMany> {
    let stage = &pipe.stages[0];
    let &[[until_backward, until_weight]] = &stage.held[..] else { return Ok(None) };
    if until_backward == 0 || stage.recomputes() || pipe.forwards() != pipe.stages.len() {
        return Ok(None);
    }
    let at_once = stage.limit / until_backward;
    let is_exact = stage.limit % until_backward < until_weight;
    if !is_exact || at_once < 2 || at_once + 2 > pipe.microbatches {
        return Ok(None);
    }
    let count = pipe.stages.len();
    if count > MOST_STAGES {
        return Err(TooMany);
    }
    let Some(trips) = cycles::times(pipe, stage)? else { return Ok(None) };
    let round = Round::of(pipe, stage.weights[0]);
    let table: Vec<Vec<[i128; 2]>> = (0..=count)
        .map(|one| (0..=count).map(|other| round.meeting(pipe, one, other)).collect())
        .collect();
    // Of each row the least wait is tried.
    let least =
        |row: &Vec<[i128; 2]>| row.iter().map(|[wait, _]| *wait).filter(|wait| *wait > 0).min();
    let mut tried: BTreeSet<i128> = table.iter().filter_map(least).collect();
    let mut pairs = table.concat();
    pairs.sort_unstable();
    // In the order of their waits, each with the least gain of those that wait less.
    let gains =
        pairs.iter().scan((round.trip, round.trip, 0), |(before, least, at), &[wait, gain]| {
            if wait > *at {
                (*before, *at) = (*least, wait);
            }
            *least = gain.min(*least);
            Some([wait, *before])
        });
    let useful = gains.filter(|[wait, gain]| *gain > 0 && tried.remove(wait));
    let spans = useful.map(|gains| round.span(&trips.forwards, at_once, gains));
    Ok(spans.max())
}

/// The times of a round of the first stage.
struct Round {
    f: i128,
    b: i128,
    w: i128,
    /// The path of one microbatch, from the start of its F to the end of its B.
    trip: i128,
    /// The time from the end of a B to the start of the F that it makes room for.
    behind: i128,
}

impl Round {
    fn of(pipe: &Pipe, w: i128) -> Self {
        let last = pipe.forwards() * 2 - 1;
        let b = pipe.time(last);
        let trip = pipe.end(last) - pipe.start(0);
        Self { f: pipe.time(0), b, w, trip, behind: w.min(b) }
    }

    /// How long the microbatch in the middle waits, and by how much the round of the last stage is longer, where F of
    /// the later one comes before B of the earlier one on the first `one` stages, and so on the first `other` with the
    /// microbatch after it.
    fn meeting(&self, pipe: &Pipe, one: usize, other: usize) -> [i128; 2] {
        let count = pipe.forwards();
        let backward = |stage: usize| 2 * count - 1 - stage;
        // On the first stage: from an F to the end of the B that starts on the last common stage behind that F.
        let there_and_back = |common: usize| {
            let away = pipe.start(backward(common - 1)) - pipe.end(common - 1);
            self.trip - away
        };
        // On the last stage: from an F to one that starts, where the two part, behind the B of the first.
        let turned = |common: usize| match common == count {
            true => pipe.time(count - 1),
            false => pipe.end(backward(common)) - pipe.start(common),
        };
        let wait = match (one, other) {
            (0, 0) => 0,
            (0, other) => self.f + there_and_back(other) - self.trip,
            (one, 0) => there_and_back(one) + self.b - self.trip,
            (one, other) => there_and_back(one) + self.behind + there_and_back(other) - self.trip,
        };
        [wait, turned(one) + turned(other) - self.trip - self.behind]
    }

    /// The longest that rounds of `at_once` microbatches take, each of which gains one of `gains`: the wait on the first stage,
    /// or that on the last. The last round ends with the last microbatch but one, on the last stage, or with the last.
    fn span(&self, forwards: &[i128], at_once: i128, [wait, gain]: [i128; 2]) -> i128 {
        let m = forwards.len() as i128;
        let start = |microbatch: i128| {
            usize::try_from(microbatch).ok().and_then(|at| forwards.get(at)).copied().unwrap_or(0)
        };
        let mut longest = 0;
        let mut rounds = 1;
        while rounds * at_once + 2 <= m {
            let from = m - 2 - rounds * at_once;
            let on_last = start(from) + self.b + 2 * self.w;
            let on_first = start(from + 1) + self.w;
            let beyond =
                |late: i128| (on_last + late * gain).max(on_first + (rounds - late) * wait);
            // One grows with `late`, the other falls: bisect for the first where the one is longer.
            let [mut low, mut high] = [0, rounds];
            while low < high {
                let middle = (low + high) / 2;
                match on_last + middle * gain >= on_first + (rounds - middle) * wait {
                    true => high = middle,
                    false => low = middle + 1,
                }
            }
            let least = beyond(low).min(beyond((low - 1).max(0)));
            longest = longest.max(self.trip + rounds * (self.trip + self.behind) + least);
            rounds += 1;
        }
        longest
    }
}
