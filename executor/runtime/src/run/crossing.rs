//! A stage crossing the boundary between two steps.

use super::board::Awaited;
use super::boundary::{Boundary, Round, Verdict};
use super::failure::Halt;
use super::link::Link;
use super::stage::{Flow, Stage};
use crate::worker::{Norm, Trainer};

impl<W: Trainer, L: Link<W>> Stage<'_, W, L> {
    /// Ends the step: agrees with the others as far as the boundary asks, and updates weights.
    pub(super) fn cross_boundary(&mut self) -> Result<(), Halt> {
        match self.plan.boundary() {
            Boundary::Asynchronous => self.device(None, |worker, _| worker.update(1.0)),
            Boundary::Barrier { max_norm } => {
                let norm = self.norm_over_all()?;
                self.apply(Verdict::over(norm, max_norm))
            }
            Boundary::PostValidation { max_norm } => self.update_on_trust(max_norm),
        }
    }

    /// The gradients of this stage. What is no sum of squares is bad.
    fn own_norm(&mut self) -> Result<Norm, Halt> {
        let norm = self.device(None, |worker, _| worker.norm())?;
        Ok(Norm { is_bad: norm.is_bad || norm.squares.is_nan() || norm.squares < 0.0, ..norm })
    }

    /// Every stage sends its norm to stage 0, which adds them up in the order of stages and sends
    /// the sum to all.
    fn norm_over_all(&mut self) -> Result<Norm, Halt> {
        let (step, stages) = (self.step, self.plan.schedule().shape().stages());
        let mut norm = self.own_norm()?;
        if self.stage > 0 {
            self.link.tell(0, step, Round::Share, norm)?;
            return self.hear(step, Round::Total, 0);
        }
        for from in 1..stages {
            norm = norm.and(self.hear(step, Round::Share, from)?);
        }
        for to in 1..stages {
            self.link.tell(to, step, Round::Total, norm)?;
        }
        Ok(norm)
    }

    /// Adds this stage's norm to that of the stages before it, hands it on, and updates if it is
    /// fine so far. The last stage knows the norm over all, and what is to be done.
    fn update_on_trust(&mut self, max_norm: f64) -> Result<(), Halt> {
        let (step, last) = (self.step, self.plan.schedule().shape().stages() - 1);
        let own = self.own_norm()?;
        let norm = match self.stage {
            0 => own,
            stage => self.hear(step, Round::Partial, stage - 1)?.and(own),
        };
        if self.stage < last {
            self.link.tell(self.stage + 1, step, Round::Partial, norm)?;
        }
        if self.stage == last {
            return self.finish_validation(step, None, norm, max_norm);
        }
        let updates = Verdict::over(norm, max_norm).is_plain();
        if updates {
            self.device(None, |worker, _| worker.update(1.0))?;
        }
        if step + 1 < self.plan.all_steps() {
            self.unvalidated = Some(updates);
            return Ok(());
        }
        let norm = self.hear(step, Round::Final, self.stage + 1)?;
        self.finish_validation(step, Some(updates), norm, max_norm)
    }

    /// If the step before is not settled and the norm over all is here, or it `must` be waited for:
    /// settles it. If its update was wrong, what this step has done so far is forgotten.
    pub(super) fn validate(&mut self, must: bool) -> Result<Flow, Halt> {
        let (Some(updated), Some(max_norm)) = (self.unvalidated, self.plan.boundary().max_norm())
        else {
            return Ok(Flow::On);
        };
        let (step, from) = (self.step - 1, self.stage + 1);
        if !must {
            self.inbox.drain()?;
            if !self.inbox.has_norm(step, Round::Final, from) {
                return Ok(Flow::On);
            }
        }
        let norm = self.hear(step, Round::Final, from)?;
        self.unvalidated = None;
        if Verdict::over(norm, max_norm).is_plain() {
            self.finish_validation(step, Some(updated), norm, max_norm)?;
            self.device(None, |worker, _| worker.clear())?;
            return Ok(Flow::On);
        }
        let epoch = self.epoch;
        self.device(None, |worker, _| worker.synchronize())?;
        self.device(None, |worker, _| worker.device_times(epoch))?;
        self.device(None, |worker, _| worker.forget())?;
        self.finish_validation(step, Some(updated), norm, max_norm)?;
        Ok(Flow::Anew)
    }

    /// Does what the norm over all says about `step`, where `updated` says whether this stage has
    /// updated on trust, and tells the stage before it.
    fn finish_validation(
        &mut self,
        step: u32,
        updated: Option<bool>,
        norm: Norm,
        max_norm: f64,
    ) -> Result<(), Halt> {
        if self.stage > 0 {
            self.link.tell(self.stage - 1, step, Round::Final, norm)?;
        }
        let verdict = Verdict::over(norm, max_norm);
        if verdict.is_plain() && updated == Some(true) {
            return Ok(());
        }
        if !verdict.is_plain() {
            self.raw.rollbacks += 1;
            // The other stages begin the next step a second time.
            self.attempt = 1;
        }
        if updated == Some(true) {
            self.device(None, |worker, _| worker.undo(1.0))?;
        }
        self.apply(verdict)
    }

    fn apply(&mut self, verdict: Verdict) -> Result<(), Halt> {
        match verdict {
            Verdict::Step(scale) => self.device(None, |worker, _| worker.update(scale)),
            Verdict::Skip => {
                self.raw.skipped += 1;
                Ok(())
            }
        }
    }

    /// Waits for a norm and takes it.
    fn hear(&mut self, step: u32, round: Round, from: usize) -> Result<Norm, Halt> {
        loop {
            if let Some(norm) = self.inbox.take_norm(step, round, from) {
                return Ok(norm);
            }
            let arrived = |inbox: &super::inbox::Inbox<_>| inbox.has_norm(step, round, from);
            self.wait_for(Awaited::Norm(step), from, arrived)?;
        }
    }
}
