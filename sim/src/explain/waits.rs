//! The event that each slot of a run waited for.

use pipeline::sharding::ParameterAct;
use pipeline::{Nanos, Pass, Schedule, Span, Value};

use crate::engine::{Collective, HostCopy, Run, Transfer};
use crate::sharded::ParameterSpan;

/// The event that let a slot begin.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum Wait {
    /// Nothing: it begins with the clock.
    Nothing,
    /// The slot before it on its stage.
    Order,
    /// A value from another stage.
    Value(Transfer),
    /// A value that all stages take part in handing on: the last of them, and the collective.
    Collective(Collective),
    /// Its device, or room on it: another stage of the device came first.
    Device,
    /// A value that a stage of its device was sending, where sending takes the device's time.
    Sending(Transfer),
    /// An activation on its way back from the host.
    HostCopy(HostCopy),
    /// Room: an activation of its device on its way to the host.
    HostRoom(HostCopy),
    /// Parameters of its chunks that were being gathered.
    Parameters(ParameterSpan),
    /// The end of the step before.
    Boundary,
}

/// A slot and what let it begin.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct Link {
    /// The stage.
    pub stage: usize,
    /// Position among the slots of the stage, over all steps.
    pub at: usize,
    /// The slot, and when it ran.
    pub span: Span,
    /// The event that it waited for.
    pub wait: Wait,
    /// Stage and position of the slot whose end set off what it waited for; none at the beginning
    /// of a step.
    pub after: Option<(usize, usize)>,
}

const NONE: u32 = u32::MAX;

/// Answers what a slot waited for.
pub struct Waits<'a> {
    schedule: &'a Schedule,
    run: &'a Run,
    /// The device of each stage.
    devices: &'a [usize],
    /// Slots of each stage in a step.
    slots: Vec<usize>,
    /// By step, row and microbatch: position of the slot that makes the value, on its stage.
    made_at: Vec<u32>,
    /// The same for the transfer that carries it, or the collective.
    carried_by: Vec<u32>,
}

impl<'a> Waits<'a> {
    /// Of `run`, which ran `schedule` with each stage on its device of `devices`.
    #[must_use]
    pub fn new(schedule: &'a Schedule, run: &'a Run, devices: &'a [usize]) -> Self {
        let steps = run.releases.len().max(1);
        let slots = run.timeline.stages.iter().map(|spans| spans.len() / steps).collect();
        let cells = vec![NONE; schedule.shape().value_cells() * steps];
        let (made_at, carried_by) = (cells.clone(), cells);
        let mut waits = Self { schedule, run, devices, slots, made_at, carried_by };
        for stage in 0..run.timeline.stages.len() {
            for (at, span) in run.timeline.stages[stage].iter().enumerate() {
                // A value that all stages make has no single maker: the collective names the last one.
                let alone = |value: &Value| value.chunk().is_some();
                for value in span.slot.passes().filter_map(Pass::makes).filter(alone) {
                    let cell = waits.cell(value, waits.step(stage, at));
                    waits.made_at[cell] = u32::try_from(at).unwrap_or(NONE);
                }
            }
        }
        for (index, transfer) in run.transfers.iter().enumerate() {
            let cell = waits.cell(transfer.value, transfer.step as usize);
            waits.carried_by[cell] = u32::try_from(index).unwrap_or(NONE);
        }
        for (index, collective) in run.collectives.iter().enumerate() {
            let cell = waits.cell(collective.value, collective.step as usize);
            waits.carried_by[cell] = u32::try_from(index).unwrap_or(NONE);
        }
        waits
    }

    /// The run.
    #[must_use]
    pub const fn run(&self) -> &'a Run {
        self.run
    }

    /// The event that slot `at` of `stage` waited for.
    ///
    /// # Panics
    /// If there is no such slot.
    #[must_use]
    pub fn link(&self, stage: usize, at: usize) -> Link {
        let span = self.run.timeline.stages[stage][at];
        let (wait, after) = self.wait(stage, at, span);
        Link { stage, at, span, wait, after }
    }

    /// The step of slot `at` of `stage`.
    #[must_use]
    pub fn step(&self, stage: usize, at: usize) -> usize {
        at / self.slots[stage].max(1)
    }

    fn wait(&self, stage: usize, at: usize, span: Span) -> (Wait, Option<(usize, usize)>) {
        if span.start == Nanos(0) {
            return (Wait::Nothing, None);
        }
        let step = self.step(stage, at);
        let first = at == step * self.slots[stage];
        if !first && self.run.timeline.stages[stage][at - 1].end == span.start {
            return (Wait::Order, Some((stage, at - 1)));
        }
        if let Some(transfer) = self.arrival(stage, step, span) {
            return (Wait::Value(transfer), self.maker(&transfer));
        }
        if let Some(collective) = self.meeting(stage, step, span) {
            return (Wait::Collective(collective), self.last_of(&collective));
        }
        if let Some(gather) = self.gather(stage, step, span) {
            let after = (gather.op.after as usize).checked_sub(1);
            let after = after.map(|at| (stage, step * self.slots[stage] + at));
            return (Wait::Parameters(gather), after);
        }
        if first && step > 0 && self.run.releases[step - 1][stage] == span.start {
            return (Wait::Boundary, None);
        }
        self.on_device(stage, step, span)
            .unwrap_or((Wait::Order, at.checked_sub(1).map(|at| (stage, at))))
    }

    /// The gather whose end let the slot begin, if one did.
    fn gather(&self, stage: usize, step: usize, span: Span) -> Option<ParameterSpan> {
        let is_used = |one: &&ParameterSpan| {
            one.op.act == ParameterAct::Gather
                && one.start < one.end
                && span.slot.passes().any(|pass| pass.chunk == one.op.chunk)
        };
        // By step, stage and time.
        let all = &self.run.parameters[..];
        let place = |one: &ParameterSpan| (one.step as usize, one.stage, one.end);
        let first = all.partition_point(|one| place(one) < (step, stage, span.start));
        let ended = all[first..].iter().take_while(|one| place(one) == (step, stage, span.start));
        ended.into_iter().find(is_used).copied()
    }

    /// The transfer whose arrival let the slot begin, if one did.
    fn arrival(&self, stage: usize, step: usize, span: Span) -> Option<Transfer> {
        let shape = self.schedule.shape();
        let sent = self.remote(stage, span).filter(|value| !value.is_collective(shape));
        let transfers = sent.filter_map(|value| {
            let index = self.carried_by[self.cell(value, step)];
            self.run.transfers.get(index as usize).copied()
        });
        transfers.into_iter().find(|transfer| transfer.end == span.start)
    }

    /// The collective whose end let the slot begin, if one did.
    fn meeting(&self, stage: usize, step: usize, span: Span) -> Option<Collective> {
        let shape = self.schedule.shape();
        let handed_on = self.remote(stage, span).filter(|value| value.is_collective(shape));
        let collectives = handed_on.filter_map(|value| {
            let index = self.carried_by[self.cell(value, step)];
            self.run.collectives.get(index as usize).copied()
        });
        collectives.into_iter().find(|collective| collective.end == span.start)
    }

    /// The values that the slot needs and that its own stage does not make alone.
    fn remote(&self, stage: usize, span: Span) -> impl Iterator<Item = Value> + use<> {
        span.slot.received((self.schedule.shape(), self.schedule.placement()), stage)
    }

    /// Where the slot stands whose end set `collective` off.
    fn last_of(&self, collective: &Collective) -> Option<(usize, usize)> {
        let spans = &self.run.timeline.stages[collective.last];
        let made = |pass: Pass| pass.makes() == Some(collective.value);
        let first = spans.partition_point(|span| span.end < collective.made);
        let ended = (first..spans.len()).take_while(|&at| spans[at].end == collective.made);
        let mut ended = ended.filter(|&at| {
            self.step(collective.last, at) == collective.step as usize
                && spans[at].slot.passes().any(made)
        });
        Some((collective.last, ended.next()?))
    }

    /// The event on its device that the slot waited for.
    fn on_device(
        &self,
        stage: usize,
        step: usize,
        span: Span,
    ) -> Option<(Wait, Option<(usize, usize)>)> {
        let device = self.devices[stage];
        let here = |other: usize| self.devices[other] == device;
        for other in (0..self.devices.len()).filter(|&other| other != stage && here(other)) {
            let spans = &self.run.timeline.stages[other];
            let next = spans.partition_point(|one| one.end < span.start);
            // A slot of no length at that very moment set nothing off.
            let slots = spans.iter().enumerate().skip(next);
            let mut ended = slots.take_while(|(_, one)| one.end == span.start);
            if let Some((at, _)) = ended.find(|(_, one)| one.start < span.start) {
                return Some((Wait::Device, Some((other, at))));
            }
        }
        let transfers = &self.run.transfers;
        let next = transfers.partition_point(|one| one.end < span.start);
        let arrived = transfers[next..].iter().take_while(|one| one.end == span.start);
        if let Some(sent) = arrived.into_iter().find(|one| here(one.from) && one.made < one.end) {
            return Some((Wait::Sending(*sent), self.maker(sent)));
        }
        self.on_host(stage, step, span).or_else(|| self.at_once(stage, span))
    }

    /// A slot of no length at that very moment that let the slot begin, on another stage of its
    /// device: what it held or kept busy was free at once.
    fn at_once(&self, stage: usize, span: Span) -> Option<(Wait, Option<(usize, usize)>)> {
        let device = self.devices[stage];
        let here = |other: usize| other != stage && self.devices[other] == device;
        (0..self.devices.len()).filter(|&other| here(other)).find_map(|other| {
            let spans = &self.run.timeline.stages[other];
            let next = spans.partition_point(|one| one.end < span.start);
            let ended = (next..spans.len()).take_while(|&at| spans[at].end == span.start);
            let mut ended = ended.take_while(|&at| spans[at].start == span.start);
            let at = ended.find(|&at| self.is_set_off(other, at))?;
            Some((Wait::Device, Some((other, at))))
        })
    }

    /// Whether slot `at` of `stage` began as soon as something ended that took time, so that nothing
    /// of that very moment set it off.
    fn is_set_off(&self, stage: usize, at: usize) -> bool {
        let spans = &self.run.timeline.stages[stage];
        let moment = spans[at].start;
        for at in (0..=at).rev().take_while(|&at| spans[at].end == moment) {
            if spans[at].start < moment {
                return true;
            }
            let step = self.step(stage, at);
            let arrived = self.arrival(stage, step, spans[at]).map(|transfer| transfer.made);
            let met = || self.meeting(stage, step, spans[at]).map(|collective| collective.made);
            let copied = || match self.on_host(stage, step, spans[at])?.0 {
                Wait::HostCopy(copy) => Some(copy.back[0]),
                Wait::HostRoom(copy) => Some(copy.out[0]),
                _ => None,
            };
            if arrived.or_else(met).or_else(copied).is_some_and(|begun| begun < moment) {
                return true;
            }
        }
        false
    }

    /// The copy to or from the host that the slot waited for.
    fn on_host(
        &self,
        stage: usize,
        step: usize,
        span: Span,
    ) -> Option<(Wait, Option<(usize, usize)>)> {
        let here = |other: usize| self.devices[other] == self.devices[stage];
        let cells = |copy: &HostCopy| {
            let mut passes = span.slot.passes();
            let cell = (copy.pass.chunk, copy.pass.microbatch);
            copy.step as usize == step && passes.any(|pass| (pass.chunk, pass.microbatch) == cell)
        };
        let copies = || self.run.copies.iter().filter(|copy| here(copy.stage));
        let back = copies().find(|copy| copy.back[1] == span.start && cells(copy));
        let back = back.map(|copy| (Wait::HostCopy(*copy), copy));
        let out = || copies().find(|copy| copy.out[1] == span.start);
        let (wait, copy) = back.or_else(|| out().map(|copy| (Wait::HostRoom(*copy), copy)))?;
        let at = self.made_at[self.cell(copy.pass.makes()?, copy.step as usize)];
        Some((wait, Some((copy.stage, at as usize))))
    }

    /// Where the slot stands that made what `transfer` carries.
    fn maker(&self, transfer: &Transfer) -> Option<(usize, usize)> {
        let at = self.made_at[self.cell(transfer.value, transfer.step as usize)];
        (at != NONE).then_some((transfer.from, at as usize))
    }

    fn cell(&self, value: Value, step: usize) -> usize {
        let shape = self.schedule.shape();
        step * shape.value_cells() + shape.value_cell(value)
    }
}
