//! The limits of the engine: runs that would take too much memory, or whose numbers would overflow,
//! are refused before they begin.

use pipeline::{Bytes, Fault, check_sum};

use super::{EngineError, Job};

/// The most passes of all steps together. Each takes about 200 bytes until its run is reported.
pub const MAX_RUN: u64 = 10_000_000;

impl Job<'_> {
    pub(super) fn check(&self) -> Result<(), EngineError> {
        let shape = self.schedule.shape();
        let passes = (self.schedule.passes() as u64).saturating_mul(u64::from(self.steps));
        if passes > MAX_RUN {
            return Err(EngineError::TooManyPasses { steps: self.steps, passes });
        }
        self.costs.check(shape)?;
        if let Some(room) = self.room {
            room.footprints.check_for(self.schedule)?;
            check_resident(room.resident)?;
        }
        Ok(self.check_messages()?)
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
