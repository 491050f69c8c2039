//! Whether a run whose weights changed during the run trained its model as the serial emulation
//! does, with weights of the same staleness.

use std::sync::Arc;

use super::reference::Check;
use super::watched::worse;
use super::{Task, Trained};
use crate::model::BuildError;
use crate::ops::Ops;
use crate::stale::Stale;
use runtime::Updates;

/// Compares the losses of all updates of a run of `plan`, and the gradients of the first, with the
/// serial emulation of `task` on the kernels of `ops`, within `tolerance`. `None` if it is
/// `stopped`, which is polled before each step.
pub(super) fn check<O: Ops>(
    task: &Task,
    updates: Updates,
    ops: O,
    tolerance: f64,
    run: &Trained<'_>,
    stopped: &dyn Fn() -> bool,
) -> Result<Option<Check>, BuildError> {
    let Trained { plan, measured, seen } = *run;
    let (batches, schedule) = (Arc::clone(&task.batches), plan.schedule());
    let mut reference = Stale::new(ops, task.model, schedule, updates, batches, task.training)?;
    // A process other than rank 0 knows the gradients of its stage alone.
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
