//! Collectives among all stages: the passes that take part in them, and when they are over.
//!
//! One begins when the last pass that takes part has ended, takes the time that the costs say, and
//! keeps neither stages nor wires busy.

use pipeline::{Nanos, Pass, Shape};

use super::event_loop::{EventLoop, small};
use super::queue::Event;
use super::{Collective, Durations};

/// Number of passes that have made their part of each value that all stages make, by step.
#[derive(Default)]
pub(super) struct Makers {
    stages: u32,
    /// By cell of the values of all steps; grows with the steps that run.
    made: Vec<u32>,
}

impl Makers {
    pub(super) fn new(shape: Shape) -> Self {
        Self { stages: small(shape.stages()), made: Vec::new() }
    }

    /// Whether the pass that has ended is the last that makes the value of `cell`, which one pass
    /// makes or, if it is `shared`, one on every stage.
    fn is_last(&mut self, cell: usize, shared: bool) -> bool {
        if !shared {
            return true;
        }
        if self.made.len() <= cell {
            self.made.resize(cell + 1, 0);
        }
        self.made[cell] += 1;
        self.made[cell] == self.stages
    }
}

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
