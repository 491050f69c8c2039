//! The stages that make and take a value.

use pipeline::Value;

use super::Job;

/// The stage that makes `value`; none if all do.
pub(super) fn maker(job: &Job<'_>, value: Value) -> Option<usize> {
    let (shape, placement) = (job.schedule.shape(), job.schedule.placement());
    placement.maker(shape, value)
}

/// The stage that sends `value` to the one that takes it; none if a collective hands it on.
pub(super) fn sender(job: &Job<'_>, value: Value) -> Option<usize> {
    let shape = job.schedule.shape();
    maker(job, value).filter(|_| !value.is_collective(shape))
}

/// The stage that takes `value`, if the model has a chunk that needs it.
pub(super) fn taker(job: &Job<'_>, value: Value) -> Option<usize> {
    let (shape, placement) = (job.schedule.shape(), job.schedule.placement());
    let chunk = value.taken_by(shape.chunks())?;
    Some(placement.stage(shape, chunk, value.microbatch()))
}
