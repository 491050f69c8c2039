//! How long passes take on the device: from the begin of the first kernel that a pass launches to the
//! end of the last one. Kernels of NCCL are not among them, for they wait for other ranks.

use std::collections::BTreeMap;

use super::passes::Pass;
use super::{Observed, Span};
use crate::error::NotInferred;

/// When each of `passes` ran: on the device, where the trace has kernels, else on the host.
pub(super) fn times(
    observed: &Observed,
    passes: &[Pass],
    rank: u32,
) -> Result<Vec<Span>, NotInferred> {
    if observed.kernels.is_empty() {
        return Ok(passes.iter().map(|pass| pass.span).collect());
    }
    let launched = observed.launches.iter().filter_map(|&(correlation, at)| {
        let after = passes.partition_point(|pass| pass.span.start <= at);
        let pass = after.checked_sub(1)?;
        (at <= passes[pass].span.end).then_some((correlation, pass))
    });
    let launched: BTreeMap<i64, usize> = launched.collect();
    let mut spans: Vec<Option<Span>> = vec![None; passes.len()];
    for (correlation, kernel) in &observed.kernels {
        if let Some(&pass) = launched.get(correlation) {
            let span = &mut spans[pass];
            *span = Some(span.map_or(*kernel, |known| known.hull(*kernel)));
        }
    }
    let all: Option<Vec<Span>> = spans.into_iter().collect();
    all.ok_or(NotInferred::NoKernels { rank })
}
