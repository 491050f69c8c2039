//! Whether the order of few microbatches shows that of many.
//!
//! A build decides by times relative to each other, by counts, and by idle times. If all of these are, some rounds later,
//! as they were, and only microbatches have moved on and clocks alike, then it goes on like that for as long as there are
//! microbatches, however many; and where idle times stand still, so do the allowances of the next build. Stages of unequal
//! work never get there: the time that the lighter ones wait grows with each microbatch.

use std::collections::HashMap;

use super::Way::{Down, Up};
use super::{Build, Built, FILLS, work};
use crate::gcd::gcd;
use crate::pass::Kind;
use crate::problem::Problem;
use crate::shape::Placement;

/// Most microbatches of a period.
const LONGEST: u64 = 64;

/// After how many microbatches all builds for `problem` repeat; nothing where one of them is not seen to do so for the
/// middle third of its passes.
pub(in crate::family) fn period(problem: &Problem) -> Option<u32> {
    let limits = problem.limits(Placement::Vee).ok()??;
    let work = work(problem);
    if work.iter().any(|one| *one != work[0]) {
        return None;
    }
    let mut period = 1u64;
    for fill in FILLS {
        // Builds that a search leaves out have no effect on its result, so that all may be asked.
        let (mut allowance, mut least_idle) = (vec![0; work.len()], u64::MAX);
        loop {
            let build = Build::new(problem, &limits, fill, &allowance, &work);
            let (built, own) = build.repeated()?;
            period = period / gcd(period, own.into()) * u64::from(own);
            let max_idle = built.idle.iter().copied().max()?;
            if period > LONGEST {
                return None;
            }
            if max_idle >= least_idle {
                break;
            }
            least_idle = max_idle;
            allowance = built.idle.iter().map(|idle| max_idle - idle).collect();
        }
    }
    u32::try_from(period).ok()
}

impl Build<'_> {
    /// Builds the whole order, and sees after how many microbatches it repeats.
    fn repeated(mut self) -> Option<(Built, u32)> {
        let all = self.shape.microbatches();
        let passes = 6 * all as usize;
        self.first_forward_round_trip().ok()?;
        self.even_out_forwards();
        let mut known = HashMap::new();
        let (mut period, mut seen_to) = (None, 0);
        while self.backward_everywhere() | self.forward_everywhere() {
            let lengths = self.stages.iter().map(|stage| stage.order.passes().len());
            if self.stages.iter().any(|stage| stage.forwards[Down as usize] >= all) {
                continue;
            }
            seen_to = lengths.clone().min()?;
            if period.is_none() {
                let (now, longest) = (self.stages[0].forwards[Down as usize], lengths.max()?);
                period = known
                    .insert(self.state(), now)
                    .map(|before| now - before)
                    .filter(|&period| period > 0 && longest <= passes / 3);
            }
        }
        (seen_to >= 2 * passes / 3).then_some(())?;
        Some((self.built(), period?))
    }

    /// All that decisions depend on, with microbatches and clocks as those of the first stage.
    fn state(&self) -> Vec<u64> {
        let (now, first) = (self.stages[0].end, self.stages[0].forwards[Down as usize]);
        let count = |count: u32| u64::from(count.wrapping_sub(first));
        let mut state = vec![self.max_idle];
        for (at, stage) in self.stages.iter().enumerate() {
            state.extend([stage.end.wrapping_sub(now), stage.idle, stage.held.0]);
            state.extend(stage.forwards.into_iter().chain(stage.backwards).map(count));
            state.push(stage.waiting.len() as u64);
            let waiting = stage.waiting.iter();
            state.extend(waiting.flat_map(|&(way, which)| [way as u64, count(which)]));
            for (kind, way) in [(Kind::F, Down), (Kind::F, Up), (Kind::B, Up), (Kind::B, Down)] {
                let Some(from) = self.source(at, kind, way) else { continue };
                let under_way = stage.done(kind, way)..self.stages[from].done(kind, way);
                let made = |which| self.made[self.cell(from, kind, way, which)].wrapping_sub(now);
                state.extend(under_way.map(made));
            }
        }
        state
    }
}
