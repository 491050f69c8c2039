//! Collectives among all stages: the passes that take part in them, and when they are over.
//!
//! One begins when the last pass that takes part has ended, takes the time that the costs say, and
//! keeps neither stages nor wires busy.

use pipeline::{Nanos, Pass};

use super::numbers::small;
use super::queue::Event;
use super::state::EventLoop;
use super::{Collective, Durations};

impl<C: Durations> EventLoop<'_, C> {
    /// Lets `pass`, which has ended, take part in the collective about what it makes, if there is one.
    pub(super) fn take_part(&mut self, stage: usize, pass: Pass, step: u32) {
        let shape = self.job.schedule.shape();
        let Some(value) = pass.makes().filter(|value| value.is_collective(shape)) else {
            return;
        };
        let cell = self.cell(value, step);
        if !self.makers.is_last(cell, value.chunk().is_none()) {
            return;
        }
        let end = self.now.saturating_add(self.job.costs.collectives().of(value).0);
        let (made, end) = (Nanos(self.now), Nanos(end));
        self.queue.push(end.0, Event::Meet { collective: small(self.collectives.len()) });
        self.collectives.push(Collective { value, step, last: stage, made, end });
    }

    /// Ends a collective, and starts the stages that wait for it.
    pub(super) fn meet(&mut self, collective: usize) {
        let Collective { value, step, .. } = self.collectives[collective];
        let cell = self.cell(value, step);
        self.progress[cell].arrived = true;
        for stage in 0..self.stages.len() {
            self.try_start(stage);
        }
    }
}
