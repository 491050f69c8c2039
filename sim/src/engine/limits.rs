//! The limits of the engine: runs that would take too much memory, or whose numbers would overflow,
//! are refused before they begin.

use pipeline::overlap::Part;
use pipeline::{Bytes, Fault, check_sum};

use super::{EngineError, Job};

/// The most passes of all steps together. Each takes about 200 bytes until its run is reported.
pub const MAX_RUN: u64 = 10_000_000;

/// The most segments of all steps together, where they move over wires.
const MAX_SEGMENTS: u64 = 20_000_000;

impl Job<'_> {
    pub(super) fn check(&self) -> Result<(), EngineError> {
        let shape = self.schedule.shape();
        let passes = (self.schedule.passes() as u64).saturating_mul(u64::from(self.steps));
        if passes > MAX_RUN {
            return Err(EngineError::TooManyPasses { steps: self.steps, passes });
        }
        self.costs.check(shape)?;
        if super::segments::move_bytes(self) {
            self.check_segments()?;
        }
        if let Some(room) = self.room {
            room.footprints.check_for(self.schedule)?;
            check_resident(room.resident)?;
        }
        Ok(self.check_messages()?)
    }

    /// Checks that the segments of all passes can be run one by one.
    fn check_segments(&self) -> Result<(), EngineError> {
        let (shape, overlap) = (self.schedule.shape(), self.costs.overlap());
        let of_chunk = |chunk: u16| {
            let chain = overlap.map(|overlap| overlap.chain(chunk));
            let parts = Part::ALL.into_iter();
            parts.filter_map(|part| Some(chain?.segments(part))).fold(0, u64::saturating_add)
        };
        let of_microbatch = (0..shape.chunks()).map(of_chunk).fold(0, u64::saturating_add);
        let microbatches = u64::from(shape.microbatches()) * u64::from(self.steps);
        let segments = of_microbatch.saturating_mul(microbatches);
        if segments > MAX_SEGMENTS {
            return Err(EngineError::TooManySegments { segments, most: MAX_SEGMENTS });
        }
        Ok(())
    }

    /// Checks that the buffers of all transfers together can be counted.
    fn check_messages(&self) -> Result<(), Fault> {
        // Each value of a pass is held by its sender and its receiver.
        let values = 4 * self.schedule.shape().cells() as u128 * u128::from(self.steps);
        check_sum("the messages", values * u128::from(self.messages.bytes.0))
    }
}

/// Checks that what stages hold all the time can be counted, wherever they sit.
pub(crate) fn check_resident(resident: &[Bytes]) -> Result<(), Fault> {
    check_sum("the resident bytes", resident.iter().map(|one| u128::from(one.0)).sum())
}
