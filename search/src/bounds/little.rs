//! Little's law: memory times time.

use super::line::{Line, Station};

/// A lower bound on the span of a stage; `None` where memory is not limited.
///
/// *Proof.* In each of the stage's chunks every microbatch holds M_B from the start of its F to the
/// end of its B, which is F, the round trip and B at the least, and M_W while W runs; where it
/// recomputes, it holds what is kept of M_B so long, and the rest while R and B run. Added up over
/// all microbatches and chunks these areas are no more than the limit times the time in which the
/// stage holds anything, which its span covers.
pub(super) fn span(line: &Line, station: &Station) -> Option<u64> {
    if station.limit == u64::MAX || station.limit == 0 {
        return None;
    }
    let area = |part: &super::line::Part| {
        let held = u128::from(part.f + part.round + part.b) * u128::from(part.until_backward);
        let again = u128::from(part.r + part.b) * u128::from(part.recomputed);
        held + again + u128::from(part.w) * u128::from(part.until_weight)
    };
    let mut total = 0u128;
    for part in &station.parts {
        total = total.checked_add(area(part).checked_mul(line.microbatches.into())?)?;
    }
    u64::try_from(total.div_ceil(station.limit.into())).ok()
}
