//! Times of the passes of a microbatch, given its documents.

use pipeline::PassTimes;

use crate::costed::{Costed, Rejected};
use crate::inputs::Inputs;
use crate::model::number;
use crate::setup::Setup;

/// F, B and W of each chunk of `costed` in nanoseconds, as `inputs` say.
pub(super) fn passes(inputs: &Inputs<'_>, costed: &Costed) -> Result<Vec<[f64; 3]>, Rejected> {
    passes_of(inputs, &costed.setup, costed)
}

/// The same where devices are grouped as `setup` says.
pub(super) fn passes_of(
    inputs: &Inputs<'_>,
    setup: &Setup,
    costed: &Costed,
) -> Result<Vec<[f64; 3]>, Rejected> {
    let layout = costed.layout();
    let inputs = Inputs { layout: layout.as_ref(), ..*inputs };
    let costs = inputs.costing(setup, costed.shape)?.passes(&costed.layers)?;
    let one = |times: &PassTimes| {
        let all = [times.forward, times.backward_input, times.backward_weight];
        all.map(|time| number(time.0))
    };
    Ok(costs.chunks().iter().map(one).collect())
}

/// The part of the range from 0 to 1, divided into `parts`, that contains `share`, and the position in
/// it.
#[allow(clippy::cast_possible_truncation, clippy::cast_sign_loss)] // Clamped before.
pub(super) fn place(share: f64, parts: usize) -> (usize, f64) {
    let at = share.clamp(0.0, 1.0) * number(parts as u64);
    let below = (at as usize).min(parts.saturating_sub(1));
    (below, at - number(below as u64))
}

/// Whole nanoseconds.
#[allow(clippy::cast_possible_truncation)] // A cast of floats saturates.
pub(super) fn whole(nanos: f64) -> i64 {
    nanos.round() as i64
}
