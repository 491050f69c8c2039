//! Collectives of parameters and gradients on the streams of the stages.
//!
//! Nothing but the slots of its own stage decides when one runs, so that their clock can be asked for the
//! moment at which parameters will be there, and that moment is an event.

use super::numbers::small;
use super::queue::Event;
use super::state::EventLoop;
use super::{Durations, Job};
use crate::sharded::{Clock, ParameterSpan};

/// The streams of a run, if its schedule has any.
pub(super) struct Parameters<'a> {
    clock: Option<Clock<'a>>,
    /// By stage, whether it waits for parameters that are on their way.
    waits: Vec<bool>,
}

impl<'a> Parameters<'a> {
    pub(super) fn new(job: &Job<'a>) -> Self {
        let clock = Clock::new(job.schedule, job.costs.parameters());
        let stages = if clock.is_some() { job.schedule.shape().stages() } else { 0 };
        Self { clock, waits: vec![false; stages] }
    }

    /// The end of the next slot of `stage`, which begins at `start` and takes `work` alone.
    pub(super) fn run(&mut self, stage: usize, start: u64, work: u64) -> u64 {
        match &mut self.clock {
            Some(clock) => clock.run(stage, start, work),
            None => start.saturating_add(work),
        }
    }

    /// When the collectives of the step of `stage` are over, whose slots have ended.
    pub(super) fn drain(&mut self, stage: usize) -> u64 {
        self.clock.as_mut().map_or(0, |clock| clock.drain(stage))
    }

    /// `stage` begins `step`.
    pub(super) fn begin(&mut self, stage: usize, step: u32, now: u64) {
        if let Some(clock) = &mut self.clock {
            clock.begin(stage, step, now);
        }
    }

    pub(super) fn into_spans(self) -> Vec<ParameterSpan> {
        self.clock.map_or_else(Vec::new, Clock::into_spans)
    }
}

impl<C: Durations> EventLoop<'_, C> {
    /// Whether the parameters are there that the next slot of `stage` uses; if not, it hears when they are.
    pub(super) fn has_parameters(&mut self, stage: usize) -> bool {
        let Parameters { clock, waits } = &mut self.parameters;
        let Some(clock) = clock else { return true };
        if waits[stage] {
            return false;
        }
        let ready = clock.ready(stage, self.now);
        if ready > self.now {
            waits[stage] = true;
            self.queue.push(ready, Event::Gathered { stage: small(stage) });
        }
        ready <= self.now
    }

    /// The parameters are there that `stage` has waited for.
    pub(super) fn gathered(&mut self, stage: usize) {
        self.parameters.waits[stage] = false;
        self.try_start(stage);
    }
}
