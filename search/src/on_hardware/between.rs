//! A lower bound on the time between two steps on hardware.

use pipeline::Nanos;
use sim::Hardware;
use sim::boundary::Synchronisation;

use crate::instance::Instance;

/// The least time from the end of the last pass of a stage until it may begin the next step: its gradients are
/// reduced, at the barrier exchanged, and the optimizer runs.
///
/// Exposed, the gradients of all chunks of a stage are reduced after its last pass. Overlapped, those of the last
/// chunk at the least: every F of a stage is followed by its B and that by its W, so its last pass is a W, and the
/// last one of its chunk.
pub(super) fn between(hardware: &Hardware, instance: &Instance) -> Nanos {
    let boundary = &hardware.boundary;
    let chunks = match boundary.reduction.overlapped {
        true => 1,
        false => u64::from(instance.shape.chunks_per_stage()),
    };
    let exchange = match boundary.synchronisation {
        Synchronisation::Barrier => boundary.exchange.0,
        Synchronisation::Asynchronous | Synchronisation::PostValidation { .. } => 0,
    };
    let reduction = boundary.reduction.time.0.saturating_mul(chunks);
    Nanos(reduction.saturating_add(exchange).saturating_add(boundary.optimizer.0))
}
