//! A worker whose passes take their time and compute nothing.

use std::any::Any;
use std::sync::Arc;
use std::time::{Duration, Instant};

use pipeline::{Bytes, CopyDirection, CopyPart, Costs, Pass, Value};

use super::clock::wait_until;
use crate::error::DeviceError;
use crate::worker::{Offload, Trainer, Wire, Worker};

/// A worker whose passes take the durations of [`Costs`], to the microsecond where a core is free:
/// order, waits and links are real.
///
/// Its gradients are 0 and it has no weights, so that a boundary between steps costs only the
/// messages between stages.
#[derive(Clone, Debug)]
pub struct Timed {
    costs: Arc<Costs>,
}

impl Timed {
    /// A worker for any stage of a pipeline with these costs. Their hop is that of links
    /// ([`crate::Plan::with_hop`]), not of workers.
    #[must_use]
    pub const fn new(costs: Arc<Costs>) -> Self {
        Self { costs }
    }
}

impl Worker for Timed {
    type Value = ();

    fn run(&mut self, pass: Pass, _: Option<()>) -> Result<Option<()>, DeviceError> {
        let begin = Instant::now();
        let known = match pass.kind.is_of_vocabulary() {
            true => self.costs.shards().len(),
            false => self.costs.chunks().len(),
        };
        if known <= usize::from(pass.chunk) {
            return Err(DeviceError::NotAtHand { what: format!("the time of {pass}") });
        }
        let time = Duration::from_nanos(self.costs.of(pass).0);
        wait_until(begin + time);
        let chunks = u16::try_from(self.costs.chunks().len()).unwrap_or(u16::MAX);
        Ok(pass.makes().and_then(|value| value.taken_by(chunks)).map(|_| ()))
    }

    fn synchronize(&mut self) -> Result<(), DeviceError> {
        Ok(())
    }

    fn send_part(&mut self, _: Value, _: usize) -> Result<(), DeviceError> {
        Ok(())
    }

    fn receive_part(&mut self, _: Value, _: usize, (): ()) -> Result<(), DeviceError> {
        Ok(())
    }

    fn begin_offload(
        &mut self,
        forward: Pass,
        part: CopyPart,
    ) -> Result<Box<dyn Offload>, DeviceError> {
        let time = |way| Duration::from_nanos(part.of_time(self.costs.copy(forward.chunk, way)).0);
        let [out, back] = [CopyDirection::Out, CopyDirection::Back].map(time);
        Ok(Box::new(TimedCopies { out, back }))
    }

    fn end_offload(&mut self, _: Pass, _: Box<dyn Offload>) -> Result<(), DeviceError> {
        Ok(())
    }

    fn forget(&mut self) -> Result<(), DeviceError> {
        Ok(())
    }
}

/// Copies to the host and back that take their time and move no bytes.
struct TimedCopies {
    out: Duration,
    back: Duration,
}

impl Offload for TimedCopies {
    fn copy_out(&mut self) -> Result<(), DeviceError> {
        wait_until(Instant::now() + self.out);
        Ok(())
    }

    fn free(&mut self) -> Result<Bytes, DeviceError> {
        Ok(Bytes(0))
    }

    fn copy_back(&mut self) -> Result<Bytes, DeviceError> {
        wait_until(Instant::now() + self.back);
        Ok(Bytes(0))
    }

    fn into_any(self: Box<Self>) -> Box<dyn Any + Send> {
        self
    }
}

impl Wire for Timed {
    fn value_bytes(&self) -> usize {
        0
    }

    fn pack(&mut self, (): ()) -> Result<Vec<u8>, DeviceError> {
        Ok(Vec::new())
    }

    fn unpack(&mut self, _: &[u8]) -> Result<(), DeviceError> {
        Ok(())
    }
}

impl Trainer for Timed {}
