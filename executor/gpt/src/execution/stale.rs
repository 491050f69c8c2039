//! Whether a run whose weights changed while it went on trained its model as one microbatch after the
//! other would have, with weights as old.

use std::sync::Arc;

use super::Task;
use super::reference::Check;
use super::watched::{Seen, worse};
use crate::model::BuildError;
use crate::ops::Ops;
use crate::stale::Stale;
use runtime::Measured;
use runtime::Plan;
use runtime::Updates;

/// Holds the losses of all updates that a run of `plan` measured, and the gradients of the first, against
/// the serial emulation of `task` with the kernels of `ops`. Either may be off by `tolerance`. `None` if it
/// is `stopped`, which is asked before each step.
///
/// # Errors
/// If there is too little memory for it.
pub(super) fn check<O: Ops>(
    (task, updates): (&Task, Updates),
    (ops, tolerance): (O, f64),
    (plan, measured, seen): (&Plan, Option<&Measured>, &Seen),
    stopped: &dyn Fn() -> bool,
) -> Result<Option<Check>, BuildError> {
    let (batches, at) = (Arc::clone(&task.batches), (plan.schedule(), updates));
    let mut reference = Stale::new(ops, task.model, at, batches, task.training)?;
    // A process that does not answer for the run knows the gradients of its stage alone.
    let steps = if measured.is_some() { plan.all_steps() } else { 1 };
    let mut expected = Vec::new();
    for step in 0..steps {
        if stopped() {
            return Ok(None);
        }
        let losses = reference.run(step)?;
        if step >= plan.warm_up() {
            expected.extend(losses);
        }
    }
    let gradients = reference.first_gradients().unwrap_or_default();
    let mut check =
        Check { loss_error: 0.0, gradient_error: seen.gradient_error(gradients), tolerance };
    let Some(measured) = measured else { return Ok(Some(check)) };
    if measured.losses.len() != expected.len() {
        check.loss_error = f64::NAN;
    }
    for (found, loss) in measured.losses.iter().zip(expected) {
        check.loss_error = worse(check.loss_error, (found - loss).abs() / loss.abs());
    }
    Ok(Some(check))
}
