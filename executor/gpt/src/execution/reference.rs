//! Whether a run trained its model as the serial reference does.

use std::sync::Arc;

use pipeline::Placement;

use super::watched::worse;
use super::{Task, Trained};
use crate::model::BuildError;
use crate::ops::Ops;
use crate::reference::Reference;

/// The reference that a run is compared with.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum Against {
    /// The serial model in f64 on the CPU.
    F64,
    /// The serial model on the device and with the element type of the stages.
    Device,
}

/// The errors of a run against the serial reference.
#[derive(Clone, Copy, PartialEq, Debug)]
pub struct Check {
    /// Largest difference of a loss, relative to the reference.
    pub loss_error: f64,
    /// Largest difference of a gradient of the first step, relative to the largest gradient.
    pub gradient_error: f64,
    /// The largest permitted value of either.
    pub tolerance: f64,
}

impl Check {
    /// Whether both are within the tolerance; false for NaN.
    #[must_use]
    pub fn holds(&self) -> bool {
        self.loss_error <= self.tolerance && self.gradient_error <= self.tolerance
    }
}

/// Compares the measurements of a run of `plan` with the serial model of `task` on the kernels of
/// `ops`: losses where they are known, and the gradients in `seen`, both within `tolerance`. `None`
/// if it is `stopped`, which is polled before each step.
pub(super) fn check<O: Ops>(
    task: &Task,
    ops: O,
    tolerance: f64,
    run: &Trained<'_>,
    stopped: &dyn Fn() -> bool,
) -> Result<Option<Check>, BuildError> {
    let Trained { plan, measured, seen } = *run;
    let batches = Arc::clone(&task.batches);
    let mut reference = Reference::new(ops, task.model, batches, task.training)?;
    let microbatches = plan.microbatches();
    let mut check = Check { loss_error: 0.0, gradient_error: 0.0, tolerance };
    // A process other than rank 0 knows the gradients of its stage alone.
    let steps = if measured.is_some() { plan.all_steps() } else { 1 };
    for step in 0..steps {
        if stopped() {
            return Ok(None);
        }
        // The accumulators of two copies are added in the order of the copies.
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
