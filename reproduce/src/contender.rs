//! A search that may use as much memory as a published schedule.

use pipeline::Limit;

/// A search that is made for every setting of a table: it may use as much memory as a published schedule.
pub(super) struct Contender {
    pub(super) schedule: &'static str,
    pub(super) chunks: u64,
    pub(super) limit: Limit,
}

impl Contender {
    /// A search against `schedule`, with its chunks per stage and its memory limit.
    pub(super) const fn new(schedule: &'static str, chunks: u64, limit: Limit) -> Self {
        Self { schedule, chunks, limit }
    }
}
