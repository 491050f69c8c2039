//! A stage crossing the boundary between two steps.

use super::board::Awaited;
use super::boundary::{Boundary, Round, Verdict};
use super::failure::Halt;
use super::link::Link;
use super::stage::{Flow, Stage};
use crate::worker::{Norm, Trainer};

impl<W: Trainer, L: Link<W>> Stage<'_, W, L> {
    /// Ends the step: exchanges norms as the boundary requires, and updates the weights.
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

    /// The norm of this stage's gradients. A sum of squares that is NaN or negative counts as bad.
    fn own_norm(&mut self) -> Result<Norm, Halt> {
        let norm = self.device(None, |worker, _| worker.norm())?;
        Ok(Norm { is_bad: norm.is_bad || norm.squares.is_nan() || norm.squares < 0.0, ..norm })
    }

    /// Reduces the norm: every stage sends its norm to stage 0, which adds them in the order of
    /// stages and sends the sum to all.
    fn norm_over_all(&mut self) -> Result<Norm, Halt> {
        let (step, stages) = (self.step, self.plan.schedule().shape().stages());
        let mut norm = self.own_norm()?;
        if self.stage > 0 {
            self.link.send_norm(0, step, Round::Share, norm)?;
            return self.receive_norm(step, Round::Total, 0);
        }
        for from in 1..stages {
            norm = norm.and(self.receive_norm(step, Round::Share, from)?);
        }
        for to in 1..stages {
            self.link.send_norm(to, step, Round::Total, norm)?;
        }
        Ok(norm)
    }

    /// Adds this stage's norm to that of the stages before it, sends it to the next stage, and
    /// updates optimistically if it is within bounds so far. The last stage knows the global norm
    /// and the decision.
    fn update_on_trust(&mut self, max_norm: f64) -> Result<(), Halt> {
        let (step, last) = (self.step, self.plan.schedule().shape().stages() - 1);
        let own = self.own_norm()?;
        let norm = match self.stage {
            0 => own,
            stage => self.receive_norm(step, Round::Partial, stage - 1)?.and(own),
        };
        if self.stage < last {
            self.link.send_norm(self.stage + 1, step, Round::Partial, norm)?;
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
        let norm = self.receive_norm(step, Round::Final, self.stage + 1)?;
        self.finish_validation(step, Some(updates), norm, max_norm)
    }

    /// Validates the previous step, if that is pending and the global norm has arrived, or if it
    /// `must` be waited for. If its update was wrong, discards the work of this step so far.
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
        let norm = self.receive_norm(step, Round::Final, from)?;
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

    /// Carries out the decision of the global norm about `step`, where `updated` says whether this
    /// stage has updated optimistically, and forwards the norm to the previous stage.
    fn finish_validation(
        &mut self,
        step: u32,
        updated: Option<bool>,
        norm: Norm,
        max_norm: f64,
    ) -> Result<(), Halt> {
        if self.stage > 0 {
            self.link.send_norm(self.stage - 1, step, Round::Final, norm)?;
        }
        let verdict = Verdict::over(norm, max_norm);
        if verdict.is_plain() && updated == Some(true) {
            return Ok(());
        }
        if !verdict.is_plain() {
            self.raw.rollbacks += 1;
            // Other stages restart the next step too.
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

    /// Waits for a norm and returns it.
    fn receive_norm(&mut self, step: u32, round: Round, from: usize) -> Result<Norm, Halt> {
        loop {
            if let Some(norm) = self.inbox.take_norm(step, round, from) {
                return Ok(norm);
            }
            let arrived = |inbox: &super::inbox::Inbox<_>| inbox.has_norm(step, round, from);
            self.wait_for(Awaited::Norm(step), from, arrived)?;
        }
    }
}
