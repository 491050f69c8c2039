//! The argument of round trips: a forward that finds no room waits for earlier microbatches.

use crate::critical_path::{Pipe, Stage};

/// More steps are not worth waiting for.
const MOST_STEPS: u64 = 1 << 32;

/// The round trips were not followed to the end: they are too many.
pub(crate) struct TooMany;

/// The times of a stage with one chunk, from its first F on, at the least.
pub(crate) struct Times {
    /// Starts of its F, by microbatch.
    pub(crate) forwards: Vec<i128>,
    /// The end of its last B.
    pub(crate) last_backward: i128,
    /// The end of all its passes.
    pub(crate) end: i128,
}

/// The times of `stage`; `None` where it has more chunks or room for all microbatches.
pub(crate) fn times(pipe: &Pipe, stage: &Stage) -> Result<Option<Times>, TooMany> {
    let &[[until_backward, until_weight]] = &stage.held[..] else { return Ok(None) };
    if until_backward == 0 {
        return Ok(None);
    }
    // With a B also what its R has taken is held; and while F may start, the next B is still to come.
    let at_once = (stage.limit - stage.again[0][1]) / until_backward;
    if at_once <= 0 || at_once >= pipe.microbatches {
        return Ok(None);
    }
    let mut trips = Trips {
        f: pipe.time(stage.forwards[0]),
        b: pipe.time(stage.backwards[0]),
        w: stage.weights[0],
        at_once,
        backwards: Vec::new(),
        steps: 0,
    };
    let away = pipe.start(stage.backwards[0]) - pipe.start(stage.forwards[0]);
    let (mut forward, mut forwards) = (0, Vec::new());
    for k in 0..pipe.microbatches {
        if k > 0 {
            let waiting = |done: i128| {
                let room = stage.limit - (k + 1 - done) * until_backward;
                if until_weight == 0 { done } else { (room / until_weight).min(done) }
            };
            forward = trips.forward(k, forward + trips.f, waiting)?;
        }
        forwards.push(forward);
        let behind = trips.backwards.last().map_or(0, |last| last + trips.b);
        trips.backwards.push(behind.max(forward + away));
    }
    let m = pipe.microbatches;
    let end = trips.ended(m, m, m)?;
    let last = trips.backwards.last().map_or(0, |last| last + trips.b);
    let last_backward = last.max(end - stage.after_last_backward(pipe));
    Ok(Some(Times { forwards, last_backward, end }))
}

struct Trips {
    f: i128,
    b: i128,
    w: i128,
    /// How many M_B, or what is kept of them, the limit holds where a B runs.
    at_once: i128,
    /// No B starts sooner, by microbatch.
    backwards: Vec<i128>,
    steps: u64,
}

impl Trips {
    /// No sooner have `forwards` F, `done` B and `freed` W all ended: behind every B there is the
    /// work that cannot have been done before it. Before the (j+1)-th B that is all but j B, j W,
    /// and as many F as the limit holds beside.
    fn ended(&mut self, forwards: i128, done: i128, freed: i128) -> Result<i128, TooMany> {
        let count = usize::try_from(done).unwrap_or(0);
        self.steps += count as u64;
        if self.steps > MOST_STEPS {
            return Err(TooMany);
        }
        let behind = |(j, start): (i128, &i128)| {
            let late = forwards - self.at_once - j;
            start + (done - j) * self.b + (freed - j).max(0) * self.w + late.max(0) * self.f
        };
        Ok((0..).zip(&self.backwards[..count]).map(behind).max().unwrap_or(0))
    }

    /// No sooner does the F start that comes behind `k` others, if it may start at `least`.
    /// `waiting`: how many W can wait beside it when so many B are done.
    fn forward(
        &mut self,
        k: i128,
        least: i128,
        waiting: impl Fn(i128) -> i128,
    ) -> Result<i128, TooMany> {
        let mut soonest: Option<i128> = None;
        for done in (k + 1 - self.at_once).max(0)..=k {
            // Later B end later: once one is too late, so are all after it.
            let last = usize::try_from(done - 1).ok().map(|last| self.backwards[last] + self.b);
            let reached = last.unwrap_or(0).max(least);
            if soonest.is_some_and(|soonest| soonest <= reached) {
                break;
            }
            let start = self.ended(k, done, done - waiting(done))?.max(least);
            soonest = Some(soonest.map_or(start, |soonest| soonest.min(start)));
        }
        Ok(soonest.unwrap_or(least))
    }
}
