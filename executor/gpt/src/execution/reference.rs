//! Whether a run trained its model as a serial run would have.

use std::sync::Arc;

use pipeline::Placement;

use super::Task;
use super::watched::{Seen, worse};
use crate::model::BuildError;
use crate::ops::Ops;
use crate::reference::Reference;
use runtime::Measured;
use runtime::Plan;

/// The reference that a run is compared with.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum Against {
    /// The model in one piece, in f64 on the CPU.
    F64,
    /// The model in one piece, on the device and in the elements of the stages.
    Device,
}

/// How far a run lies from the model in one piece.
#[derive(Clone, Copy, PartialEq, Debug)]
pub struct Check {
    /// Largest difference of a loss, as a share of the reference's.
    pub loss_error: f64,
    /// Largest difference of a gradient of the first step, as a share of the largest gradient.
    pub gradient_error: f64,
    /// The most that either may be.
    pub tolerance: f64,
}

impl Check {
    /// Whether both are within the tolerance; NaN is not.
    #[must_use]
    pub fn holds(&self) -> bool {
        self.loss_error <= self.tolerance && self.gradient_error <= self.tolerance
    }
}

/// Holds what a run of `plan` measured against the model of `task` in one piece with the kernels of
/// `ops`: losses where they are known, and the gradients that were seen. Either may be off by
/// `tolerance`. `None` if it is `stopped`, which is asked before each step.
///
/// # Errors
/// If there is too little memory for it.
pub(super) fn check<O: Ops>(
    task: &Task,
    (ops, tolerance): (O, f64),
    (plan, measured, seen): (&Plan, Option<&Measured>, &Seen),
    stopped: &dyn Fn() -> bool,
) -> Result<Option<Check>, BuildError> {
    let batches = Arc::clone(&task.batches);
    let mut reference = Reference::new(ops, task.model, batches, task.training)?;
    let microbatches = plan.microbatches();
    let mut check = Check { loss_error: 0.0, gradient_error: 0.0, tolerance };
    // A process that does not answer for the run knows the gradients of its stage alone.
    let steps = if measured.is_some() { plan.all_steps() } else { 1 };
    for step in 0..steps {
        if stopped() {
            return Ok(None);
        }
        // Sums of two copies are added as the copies add them.
        let loss = match plan.schedule().placement() {
            Placement::Mirrored => reference.run_in_halves(step, microbatches)?,
            Placement::Looped | Placement::Vee => reference.run(step, microbatches)?,
        };
        if step == 0 {
            check.gradient_error = seen.gradient_error(&reference.gradients()?);
        }
        let at = step.checked_sub(plan.warm_up()).map(|at| at as usize);
        let found = at
            .zip(measured)
            .and_then(|(at, measured)| measured.steps.get(at))
            .map(|step| step.loss);
        if let Some(found) = found {
            let error = (found.unwrap_or(f64::NAN) - loss).abs() / loss.abs();
            check.loss_error = worse(check.loss_error, error);
        }
        if let Some(&scale) = seen.scales.get(step as usize) {
            reference.update(scale)?;
        }
    }
    Ok(Some(check))
}
