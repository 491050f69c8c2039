//! The end: what happened, or why nothing happens any more.

use pipeline::{Bytes, Fault, Nanos, Timeline, Value};

use super::state::{EventLoop, Stage, State};
use super::values::sender;
use super::{Durations, EngineError, Run, Standstill, StandstillCause};
use crate::network::LAST;

impl<C: Durations> EventLoop<'_, C> {
    pub(super) fn finish(self) -> Result<Run, EngineError> {
        // Once the clock stands at its end, nothing more can be said.
        if self.now >= LAST {
            return Err(Fault::Overflow { what: "the times" }.into());
        }
        if self.stages.iter().any(|stage| stage.state != State::Done) {
            let stuck = (0..self.stages.len()).filter_map(|stage| self.standstill(stage));
            return Err(EngineError::Stuck(stuck.collect()));
        }
        let transfers = self.arrivals.iter().map(|&one| self.transfers[one as usize]);
        Ok(Run {
            timeline: Timeline { stages: self.timeline },
            transfers: transfers.collect(),
            collectives: self.collectives,
            copies: self.copies.into_all(),
            all_to_alls: self.segments.into_moved(),
            parameters: self.parameters.into_spans(),
            releases: self.releases,
            events: self.events,
        })
    }

    /// The pass and the reason that block `stage`, now that no events are left.
    fn standstill(&self, stage: usize) -> Option<Standstill> {
        let Stage { state, at, step, since, device, .. } = self.stages[stage];
        let passes = self.job.schedule.orders()[stage].passes();
        let is_last = step + 1 == self.job.steps;
        let (pass, step) = match passes.get(at) {
            Some(&pass) => (pass, step),
            None if !is_last => (passes[0], step + 1),
            // It has nothing left to run, and waits for other stages at the boundary.
            None if state == State::Crossing => return None,
            None => (passes[at - 1], step),
        };
        let cause = match state {
            State::Done => return None,
            State::Crossing => StandstillCause::Boundary,
            State::Running | State::Sending(_) => StandstillCause::Unreceived {
                by: self.channels_of[stage]
                    .iter()
                    .find(|&&channel| !self.channels[channel].waiting.is_empty())
                    .map_or(stage, |&channel| self.channels[channel].to),
            },
            State::Free => {
                let slot = self.next_slot(stage);
                let lacks = |value: &Value| !self.progress[self.cell(*value, step)].arrived;
                match (self.remote_needs(stage, slot).find(lacks), self.job.room) {
                    (Some(value), _) => match sender(self.job, value) {
                        Some(on) => StandstillCause::Value { on },
                        None => StandstillCause::Collective,
                    },
                    (None, _) if !self.are_in_place(stage, slot) => StandstillCause::HostCopy,
                    (None, Some(room)) if !self.devices[device].taken => {
                        let limit = room.limits[device];
                        let needs = self.over(stage, slot).map_or(limit, Bytes);
                        StandstillCause::Memory { needs, limit }
                    }
                    _ => StandstillCause::Device,
                }
            }
        };
        Some(Standstill { stage, pass, step, since: Nanos(since), cause })
    }
}
