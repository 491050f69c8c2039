//! The boundary between two steps: gradient reduction, optimizer, and how stages wait for each
//! other.

use pipeline::Nanos;

/// When the data-parallel replicas add up their gradients.
#[derive(Clone, Copy, PartialEq, Eq, Default, Debug)]
pub struct GradientReduction {
    /// Time to reduce the gradients of one chunk, after its last W or BW.
    pub time: Nanos,
    /// Whether it runs beside further passes, one chunk after the other; else the stage reduces all
    /// its chunks after its last pass.
    pub overlapped: bool,
}

/// How the optimizer steps of the stages depend on each other.
#[derive(Clone, PartialEq, Eq, Default, Debug)]
pub enum Synchronisation {
    /// No stage waits for another, as in PipeDream.
    Asynchronous,
    /// All stages meet, for the time of an all-reduce, before any of them steps.
    #[default]
    Barrier,
    /// Optimizer post-validation (Zero Bubble, section 4): a partially reduced state travels from
    /// the first stage to the last, and each stage steps when it has passed; the full value travels
    /// back during the next warm-up. Where it disagrees, a stage takes its step back when the
    /// value has come, steps again, and begins its warm-up anew.
    PostValidation {
        /// The steps, ascending, in which the full value disagrees.
        failing: Vec<u32>,
        /// Time to take a step back.
        rollback: Nanos,
    },
}

/// The boundary between two steps.
#[derive(Clone, PartialEq, Eq, Default, Debug)]
pub struct Boundary {
    /// Adding up gradients over data-parallel replicas.
    pub reduction: GradientReduction,
    /// How stages wait for each other.
    pub synchronisation: Synchronisation,
    /// Time of the all-reduce, or of one hop of the state under post-validation.
    pub exchange: Nanos,
    /// Time of the optimizer on one stage.
    pub optimizer: Nanos,
}

/// The way of all stages over the boundary after one step.
#[derive(Clone, Debug)]
pub(crate) struct Crossing {
    step: u32,
    /// When the reductions begun so far end, by stage.
    reduced: Vec<u64>,
    /// When each stage has done its part of the step and reduced its gradients.
    done: Vec<Option<u64>>,
    finished: usize,
    /// Stages that the partial state has passed, and when it passed the last of them.
    passed: Vec<u64>,
}

impl Crossing {
    pub(crate) fn new(stages: usize, step: u32) -> Self {
        Self {
            step,
            reduced: vec![0; stages],
            done: vec![None; stages],
            finished: 0,
            passed: Vec::with_capacity(stages),
        }
    }

    /// The last W or BW of a chunk on `stage` has ended.
    pub(crate) fn end_chunk(&mut self, boundary: &Boundary, stage: usize, now: u64) {
        let GradientReduction { time, overlapped } = boundary.reduction;
        let begin = if overlapped { now } else { 0 };
        self.reduced[stage] = self.reduced[stage].max(begin).saturating_add(time.0);
    }

    /// Whether all stages have run their last pass: nothing more will come of this step.
    pub(crate) fn is_over(&self) -> bool {
        self.finished == self.done.len()
    }

    /// `stage` has run its last pass; `release` hears which stages may begin the next step, and
    /// when.
    pub(crate) fn end_stage(
        &mut self,
        boundary: &Boundary,
        stage: usize,
        now: u64,
        release: &mut impl FnMut(usize, u64),
    ) {
        let reduced = self.reduced[stage];
        let done = match boundary.reduction.overlapped {
            true => now.max(reduced),
            // Exposed reductions were added up from 0.
            false => now.saturating_add(reduced),
        };
        self.done[stage] = Some(done);
        self.finished += 1;
        let optimizer = boundary.optimizer.0;
        match &boundary.synchronisation {
            Synchronisation::Asynchronous => release(stage, done.saturating_add(optimizer)),
            Synchronisation::Barrier => {
                if self.is_over() {
                    let met = self.done.iter().flatten().max().copied().unwrap_or(now);
                    let end = met.saturating_add(boundary.exchange.0).saturating_add(optimizer);
                    (0..self.done.len()).for_each(|stage| release(stage, end));
                }
            }
            Synchronisation::PostValidation { failing, rollback } => {
                let fails = failing.binary_search(&self.step).is_ok();
                self.pass_state(boundary, |stage, stepped| {
                    if !fails {
                        release(stage, stepped);
                    }
                });
                if fails && self.passed.len() == self.done.len() {
                    self.validate(boundary, rollback.0, release);
                }
            }
        }
    }

    /// Sends the partial state on as far as the stages are done.
    fn pass_state(&mut self, boundary: &Boundary, mut stepped: impl FnMut(usize, u64)) {
        while let Some(&Some(done)) = self.done.get(self.passed.len()) {
            let arrival =
                self.passed.last().map_or(0, |&at| at.saturating_add(boundary.exchange.0));
            let at = done.max(arrival);
            stepped(self.passed.len(), at.saturating_add(boundary.optimizer.0));
            self.passed.push(at);
        }
    }

    /// Sends the full value back, which disagrees with every stage's step.
    fn validate(&self, boundary: &Boundary, rollback: u64, release: &mut impl FnMut(usize, u64)) {
        let optimizer = boundary.optimizer.0;
        let mut value = self.passed.last().copied().unwrap_or(0);
        for (stage, &passed) in self.passed.iter().enumerate().rev() {
            let begin = value.max(passed.saturating_add(optimizer));
            release(stage, begin.saturating_add(rollback).saturating_add(optimizer));
            value = value.saturating_add(boundary.exchange.0);
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// Two stages that end at 100 and 80; exchange 5, optimizer 20.
    fn releases(synchronisation: Synchronisation, reduction: GradientReduction) -> [u64; 2] {
        let (exchange, optimizer) = (Nanos(5), Nanos(20));
        let boundary = Boundary { reduction, synchronisation, exchange, optimizer };
        let mut crossing = Crossing::new(2, 0);
        let mut releases = [0; 2];
        let mut release = |stage: usize, time| releases[stage] = time;
        for (stage, end) in [(1, 80), (0, 100)] {
            crossing.end_chunk(&boundary, stage, end - 10);
            crossing.end_chunk(&boundary, stage, end);
            crossing.end_stage(&boundary, stage, end, &mut release);
        }
        releases
    }

    #[test]
    fn stages_cross_as_they_synchronise() {
        let free = GradientReduction::default();
        assert_eq!(releases(Synchronisation::Asynchronous, free), [120, 100]);
        // All meet at 100, exchange until 105, step until 125.
        assert_eq!(releases(Synchronisation::Barrier, free), [125, 125]);
        // The state leaves stage 0 at 100 and reaches stage 1, done since 80, at 105.
        let agrees = Synchronisation::PostValidation { failing: vec![1], rollback: Nanos(7) };
        assert_eq!(releases(agrees, free), [120, 125]);
        // The full value is at stage 1 at 105, where the step ends at 125: back 132, again 152; it
        // reaches stage 0 at 110, whose step ends at 120: back 127, again 147.
        let fails = Synchronisation::PostValidation { failing: vec![0], rollback: Nanos(7) };
        assert_eq!(releases(fails, free), [147, 152]);
    }

    #[test]
    fn reductions_are_hidden_or_exposed() {
        // Two chunks end 10 apart, 30 to reduce each. Overlapped: from 90 to 120, then to 150.
        let hidden = GradientReduction { time: Nanos(30), overlapped: true };
        assert_eq!(releases(Synchronisation::Asynchronous, hidden), [150 + 20, 130 + 20]);
        let exposed = GradientReduction { time: Nanos(30), overlapped: false };
        assert_eq!(releases(Synchronisation::Asynchronous, exposed), [160 + 20, 140 + 20]);
    }
}
