//! The least memory with which a pipeline runs at all.

use pipeline::Bytes;
use thiserror::Error;

use crate::instance::Instance;

/// A limit under which no order runs.
#[derive(Clone, Copy, PartialEq, Eq, Debug, Error)]
#[error(
    "no order of passes fits stage {stage}: its limit is {limit}, but any order that copies nothing to the host holds \
     {smallest} there at some time, and one microbatch after the other needs no more"
)]
pub struct Infeasible {
    /// The stage that lacks most.
    pub stage: usize,
    /// Its limit.
    pub limit: Bytes,
    /// The least with which it runs.
    pub smallest: Bytes,
}

/// The smallest limit of each stage with which there is an order at all.
///
/// *Proof.* Take any microbatch and a chunk c of the stage. When B of c runs, its own M_B is held,
/// and that of the stage's chunks before c, whose B come later; just after, M_W of c in place of its
/// M_B. (Where chunks recompute, what is kept of the M_B before c.) So every order holds the greater of the two beside the M_B before c, for every c. One
/// microbatch after the other, with every W right behind its B, holds no more than that on any
/// stage: so these limits are enough for all stages at once. Where backwards may be whole, none of M_W need be
/// held beyond M_B.
#[must_use]
pub fn smallest_limit(instance: &Instance) -> Vec<Bytes> {
    instance.relaxed().footprints.least_peaks(instance.shape, instance.placement)
}

/// Checks that there is an order under the limits of `instance`.
///
/// # Errors
/// The stage that lacks most, with the smallest limit that would do.
pub fn check_limits(instance: &Instance) -> Result<(), Infeasible> {
    let Some(limits) = &instance.limits else { return Ok(()) };
    let stages = smallest_limit(instance).into_iter().zip(limits.by_stage()).enumerate();
    let over = stages.filter(|(_, (smallest, limit))| smallest > limit);
    let worst = over.max_by_key(|(_, (smallest, limit))| smallest.0 - limit.0);
    worst.map_or(Ok(()), |(stage, (smallest, &limit))| Err(Infeasible { stage, limit, smallest }))
}
